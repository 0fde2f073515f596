"""Snapshots of the correlators in a compacted topic: the newest record of a partition is its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError, MessageSizeTooLargeError
from cramjam import DecompressionError, zstd

from epicenter.rules.errors import RecordError, RejectedError, TransientError
from epicenter.stream.kafka.clients import make_consumer, make_producer
from epicenter.stream.kafka.own_topics import Message
from epicenter.stream.kafka.raw_batches import Corrupt, source_of, surface_corrupt_batches
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.settings import Settings

LEVEL: Final = 1
READ_WITHIN_S: Final = 30.0
MAX_TRIED: Final = 10
"""How many snapshots are tried, newest first. Kafka keeps the messages after all of them."""

_TOPIC_ID: Final = "topic-id"
State = TypeVar("State")


class Snapshots:
    """Normally only the last record of a partition is read, so recovery time does not grow with the topic."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._topic = TopicNames(settings.prefix).snapshots

    async def start(self) -> None:
        """Connect. The producer is not idempotent: an idempotent producer is unusable after a refused record."""
        self._producer = make_producer(self._settings, enable_idempotence=False)
        self._consumer = make_consumer(self._settings, None)
        await self._producer.start()
        await self._consumer.start()
        surface_corrupt_batches(self._consumer)

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._producer.stop()

    async def write(self, partition: int, state: bytes, topic_id: str) -> int:
        """Write a state for the topic with this id; return its compressed size in bytes.

        Raises:
            RejectedError: it is larger than the topic accepts.
        """
        packed = await asyncio.to_thread(lambda: bytes(zstd.compress(state, LEVEL)))
        try:
            headers = [(_TOPIC_ID, topic_id.encode())]
            await self._producer.send_and_wait(self._topic, packed, b"%d" % partition, partition, headers=headers)
        except MessageSizeTooLargeError as error:
            raise RejectedError(
                f"a snapshot of {len(packed)} bytes exceeds the limit of {self._topic}: raise its max.message.bytes"
            ) from error
        return len(packed)

    async def read(
        self, partition: int, restored: Callable[[bytes], State], warn: Callable[[str], None]
    ) -> tuple[State, str] | None:
        """The newest state that can be restored, with its topic's id ("" when unknown); None without one.

        `warn` gets the problem of each newer snapshot that can't be restored.

        Raises:
            TransientError: Kafka does not return it in time.
            KafkaError: Kafka refuses the request.
        """
        source = TopicPartition(self._topic, partition)
        self._consumer.assign([source])
        first, end = await self._consumer.beginning_offsets([source]), await self._consumer.end_offsets([source])
        for offset in range(end[source] - 1, max(first[source], end[source] - MAX_TRIED) - 1, -1):
            self._consumer.seek(source, offset)
            packed = await self._next(source)
            try:
                return await asyncio.to_thread(lambda: (restored(_unpacked(packed)), _topic_id(packed)))  # noqa: B023
            except (RecordError, DecompressionError, msgspec.DecodeError) as error:
                warn(f"{self._topic}/{partition}:{offset}: not an epicenter snapshot: {error}")
        return None

    async def _next(self, source: TopicPartition) -> Message | Corrupt:
        try:
            return await asyncio.wait_for(self._consumer.getone(source), READ_WITHIN_S)
        except (TimeoutError, ConsumerStoppedError) as error:
            raise TransientError(f"{source_of(source)}: no answer with its last record") from error


def _unpacked(packed: Message | Corrupt) -> bytes:
    if isinstance(packed, Corrupt):
        raise RecordError(f"corrupt batch: {packed.reason}")
    return bytes(zstd.decompress(packed.value or b""))


def _topic_id(packed: Message) -> str:
    headers: dict[str, bytes] = dict(packed.headers)
    return headers.get(_TOPIC_ID, b"").decode("ascii", "replace")
