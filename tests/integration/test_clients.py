"""What all our consumers have in common, on the real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from epicenter.stream.kafka.clients import METADATA_AGE_MS, make_consumer
from epicenter.stream.settings import Settings


@pytest.mark.integration
def test_a_topic_made_after_the_subscription_is_read_soon(kafka: Any, tmp_path: Path) -> None:
    topic = f"t{uuid4().hex[:8]}"

    async def assigned() -> set[TopicPartition]:
        consumer = make_consumer(Settings(kafka=kafka.bootstrap, data_dir=tmp_path), f"{topic}.group")
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await consumer.start()
        try:
            consumer.subscribe([topic])
            await consumer.getmany(timeout_ms=1_000)
            assert consumer.assignment() == frozenset()
            await admin.create_topics([NewTopic(topic, 2, 1)])
            async with asyncio.timeout(4 * METADATA_AGE_MS / 1000):
                while not consumer.assignment():
                    await consumer.getmany(timeout_ms=200)
            return set(consumer.assignment())
        finally:
            await consumer.stop()
            await admin.close()

    assert asyncio.run(assigned()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
