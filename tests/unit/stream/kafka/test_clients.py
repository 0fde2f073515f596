"""The settings that our Kafka clients share."""

from __future__ import annotations

from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.load_settings import load_settings


async def test_workers_with_equal_settings_do_not_fence_each_other() -> None:
    consumer = make_consumer(load_settings(), "epicenter.match")
    assert consumer._group_instance_id is None
    await consumer.stop()
