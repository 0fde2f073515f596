"""RawRecord -> Kafka: what a shipper does, for demonstrations and for machines without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from aiokafka import AIOKafkaProducer

from epicenter.ingest.batch.batch import Batch


class RawProducer:
    """Sends lines to the raw topic; the key decides the partition, as with any Kafka client.

    `client` has the brokers and the security settings, as options of aiokafka's clients.
    """

    def __init__(self, topic: str, **client: Any):
        self._topic = topic
        self._producer = AIOKafkaProducer(
            acks="all", enable_idempotence=True, linger_ms=50, compression_type="lz4", **client
        )

    async def __aenter__(self) -> RawProducer:
        await self._producer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()

    async def send(self, batches: Iterable[tuple[bytes, Batch]]) -> None:
        """Send the lines of some batches, each with its key; returns when the broker has them all."""
        waiting = [
            await self._producer.send(self._topic, value, key=key)
            for key, batch in batches
            for value in batch.values
            if value
        ]
        await asyncio.gather(*waiting)
