"""Which notifications were delivered: a compacted topic, written after each delivery, read before the first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition

from rules.model import Notification
from stream.clients import make_consumer
from stream.raw_batches import Corrupt, give_corrupt_batches
from stream.settings import Settings
from stream.topics import TopicNames

PassOver = Callable[[TopicPartition, Corrupt], Awaitable[None]]
KEPT_IDS: Final = 100_000
"""So many of a partition are remembered, the newest."""


class Told:
    """The ids of delivered notifications, for the partitions of incidents that this worker owns."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, pass_over: PassOver):
        self._topic = TopicNames(settings.prefix).notified
        self._settings = settings
        self._producer = producer
        self._pass_over = pass_over
        self._ids: dict[int, dict[str, None]] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._ids

    def of(self, partition: int) -> dict[str, None]:
        """The ids of one partition, oldest first."""
        return self._ids[partition]

    def forget(self) -> None:
        """Partitions change hands."""
        self._ids.clear()

    async def load(self, partition: int) -> None:
        """Read what was delivered, by whichever worker."""
        source, ids = TopicPartition(self._topic, partition), dict[str, None]()
        reader = make_consumer(self._settings, None)
        await reader.start()
        give_corrupt_batches(reader)
        try:
            reader.assign([source])
            await reader.seek_to_beginning(source)
            end = (await reader.end_offsets([source]))[source]
            while await reader.position(source) < end:
                for record in (await reader.getmany(timeout_ms=1_000)).get(source, ()):
                    if isinstance(record, Corrupt):
                        await self._pass_over(source, record)
                    else:
                        ids[(record.key or b"").decode("ascii", "replace")] = None
        finally:
            await reader.stop()
        self._ids[partition] = ids

    async def add(self, partition: int, notification: Notification) -> None:
        """Note a delivery; when this returns, Kafka has it."""
        key, note = notification.notification_id.encode(), {
            "kind": notification.kind,
            "incident_id": notification.incident.incident_id,
        }  # fmt: skip
        await self._producer.send_and_wait(self._topic, msgspec.json.encode(note), key=key, partition=partition)
        ids = self._ids[partition]
        ids[notification.notification_id] = None
        if len(ids) > KEPT_IDS:
            del ids[next(iter(ids))]
