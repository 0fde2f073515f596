"""Snapshots of the correlators in a compacted topic: the newest record of a partition is its state."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError
from cramjam import DecompressionError, zstd

from rules.errors import RecordError, RejectedError, TransientError
from stream.clients import make_consumer, make_producer
from stream.settings import Settings
from stream.topics import TopicNames

LEVEL: Final = 1
READ_WITHIN_S: Final = 30.0


class Snapshots:
    """Only the last record of a partition is ever read, so recovery takes as long however many came before."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._topic = TopicNames(settings.prefix).snapshots

    async def start(self) -> None:
        """Connect. The producer is not idempotent: one of those is of no use any more once a record was refused."""
        self._producer = make_producer(self._settings, enable_idempotence=False)
        self._consumer = make_consumer(self._settings, None)
        await self._producer.start()
        await self._consumer.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._producer.stop()

    async def write(self, partition: int, state: bytes) -> int:
        """Keep a state; how many bytes that took.

        Raises:
            RejectedError: it is larger than the topic takes.
        """
        packed = await asyncio.to_thread(lambda: bytes(zstd.compress(state, LEVEL)))
        try:
            await self._producer.send_and_wait(self._topic, packed, key=b"%d" % partition, partition=partition)
        except MessageSizeTooLargeError as error:
            raise RejectedError(
                f"a snapshot of {len(packed)} bytes is larger than {self._topic} takes: raise its max.message.bytes"
            ) from error
        return len(packed)

    async def read(self, partition: int) -> bytes | None:
        """The newest state; None before the first.

        Raises:
            RecordError: it is none of ours.
            TransientError: Kafka does not give it.
        """
        source = TopicPartition(self._topic, partition)
        self._consumer.assign([source])
        first, end = await self._consumer.beginning_offsets([source]), await self._consumer.end_offsets([source])
        if end[source] <= first[source]:
            return None
        self._consumer.seek(source, end[source] - 1)
        try:
            record = await asyncio.wait_for(self._consumer.getone(source), READ_WITHIN_S)
            return await asyncio.to_thread(lambda: bytes(zstd.decompress(record.value)))
        except TimeoutError as error:
            raise TransientError(f"{self._topic}/{partition}: its last record does not come") from error
        except DecompressionError as error:
            raise RecordError(f"{self._topic}/{partition}: no snapshot of ours: {error}") from error
