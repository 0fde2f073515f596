"""Where a consumer resumes after a failed fetch: records that it can no longer read are named and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from epicenter.rules.errors import TransientError
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.raw_batches import source_of

PAUSE_S: Final = 1.0
NOT_ALLOWED: Final = (TopicAuthorizationFailedError, GroupAuthorizationFailedError, ClusterAuthorizationFailedError)
TO_GRANT: Final = "; the brokers' ACLs deny this to the user: docs/security.md lists what each service needs"
RecordLost = Callable[[str, int], None]
"""Counts records of a source that were deleted before they were read."""


class Resuming:
    """Recovers one consumer, which must not reset offsets itself (`auto_offset_reset="none"`)."""

    def __init__(self, what: str, consumer: AIOKafkaConsumer, fault_log: FaultLog, record_lost: RecordLost):
        self._what = what
        self._consumer = consumer
        self._fault_log = fault_log
        self._record_lost = record_lost

    async def after(self, error: KafkaError) -> None:
        """Seek to where the consumer can resume, or pause. The error is named and counted."""
        try:
            if isinstance(error, OffsetOutOfRangeError):
                for partition, offset in error.args[0].items():
                    await self._back_into_range(partition, offset)
            elif isinstance(error, NoOffsetForPartitionError):
                await self.to_what_is_committed(error.args[0])
            else:
                await self.wait_a_little(error)
        except KafkaError as another:
            await self.wait_a_little(another)

    async def wait_a_little(self, error: KafkaError | TransientError) -> None:
        """Name and count the error, then pause for `PAUSE_S`."""
        text = f"retrying{TO_GRANT if isinstance(error, NOT_ALLOWED) else ''}"
        self._fault_log.record(KafkaFault.KAFKA_ERROR, f"{self._what}: {error!r}", text)
        await asyncio.sleep(PAUSE_S)

    async def to_what_is_committed(self, partition: TopicPartition) -> None:
        """Seek to the committed offset, or to the first record where nothing is committed."""
        offset = await self._consumer.committed(partition)
        if offset is None:
            await self.to_the_beginning([partition])
        else:
            self._seek(partition, offset)

    async def to_the_beginning(self, partitions: Collection[TopicPartition]) -> None:
        """Seek to the first available record."""
        if partitions:
            for partition, offset in (await self._consumer.beginning_offsets(partitions)).items():
                self._seek(partition, offset)

    async def _back_into_range(self, partition: TopicPartition, offset: int) -> None:
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        end = (await self._consumer.end_offsets([partition]))[partition]
        if offset < first:
            text = f"{first - offset} records from offset {offset} on were deleted before they were read"
            self._fault_log.record_lost(source_of(partition), offset, first - offset, text)
            self._record_lost(source_of(partition), first - offset)
        elif offset > end:
            text = f"ends at {end}, but offset {offset} was read before: reading from the first record"
            self._fault_log.record(KafkaFault.TOPIC_RECREATED, f"{source_of(partition)}:{offset}", text)
        self._seek(partition, offset if first <= offset <= end else first)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._consumer.seek(partition, offset)
        except IllegalStateError:
            self._fault_log.record(KafkaFault.PARTITIONS_REVOKED, source_of(partition), "its next owner handles it")
