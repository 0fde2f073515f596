"""The journal of one partition of incidents: a compacted topic's partition of the same number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaProducer, TopicPartition

from epicenter.stream.alerts.journal import Records
from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.kafka.raw_batches import Corrupt, surface_corrupt_batches
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.settings import Settings

SkipCorrupt = Callable[[TopicPartition, Corrupt], Awaitable[None]]


class TopicJournal:
    """Loaded when the partition is assigned; the previous owner has written everything."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, partition: int, skip_corrupt: SkipCorrupt):
        self._settings = settings
        self._producer = producer
        self._source = TopicPartition(TopicNames(settings.prefix).alerts, partition)
        self._skip_corrupt = skip_corrupt

    async def load(self) -> dict[str, bytes]:
        """The newest record of every key.

        Raises:
            KafkaError: it can't be read.
        """
        found: dict[str, bytes] = {}
        reader = make_consumer(self._settings, None)
        await reader.start()
        surface_corrupt_batches(reader)
        try:
            reader.assign([self._source])
            await reader.seek_to_beginning(self._source)
            end = (await reader.end_offsets([self._source]))[self._source]
            while await reader.position(self._source) < end:
                for record in (await reader.getmany(timeout_ms=1_000)).get(self._source, ()):
                    if isinstance(record, Corrupt):
                        await self._skip_corrupt(self._source, record)
                    else:
                        _apply(found, (record.key or b"").decode("utf-8", "replace"), record.value)
        finally:
            await reader.stop()
        return found

    async def write(self, records: Records) -> None:
        """Write the records in order. When this returns, Kafka has them.

        Raises:
            KafkaError: it may have some of them.
        """
        topic, partition = self._source
        sends = [await self._producer.send(topic, value, key.encode(), partition) for key, value in records.items()]
        await asyncio.gather(*sends)

    async def close(self) -> None:
        """Nothing to close: the producer belongs to the caller."""


def _apply(found: dict[str, bytes], key: str, value: bytes | None) -> None:
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value
