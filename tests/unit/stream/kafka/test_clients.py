"""What our Kafka clients have in common."""

from __future__ import annotations

from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.settings import load_settings


async def test_no_worker_is_a_static_member_so_two_of_the_same_settings_fence_nobody() -> None:
    consumer = make_consumer(load_settings(), "epicenter.match")
    assert consumer._group_instance_id is None
    await consumer.stop()
