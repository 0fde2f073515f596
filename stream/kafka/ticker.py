"""Progress ticks: correlators advance event time by the committed offsets of all partitions, quiet ones included."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic_ns

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from epicenter.stream.kafka.alignment import WatermarkAlignment
from epicenter.stream.kafka.messages import ProgressTick, encode
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.kafka.topic_identity import Recovery
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.settings import Settings


class WatermarkTicker:
    """Sends ticks. Only the worker that owns the first partition does."""

    def __init__(
        self,
        settings: Settings,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        recovery: Recovery,
        metrics: Metrics,
        alignment: WatermarkAlignment,
    ):
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._consumer, self._producer = consumer, producer
        self._recovery = recovery
        self._metrics = metrics
        self._alignment = alignment
        self._written, self._changed_ns = 0, monotonic_ns()

    async def tick(self, admin: AIOKafkaAdminClient) -> None:
        """Read the offsets of all partitions, and send a tick to all correlators when this worker is responsible.

        Raises:
            KafkaError: the broker is unreachable.
        """
        partitions = await self._recovery.observe(admin)
        if not partitions:
            self._metrics.record_lag({})
            return
        read = await admin.list_consumer_group_offsets(self._names.match_group, partitions=partitions)
        ends = await self._consumer.end_offsets(partitions)  # after `read`: never too little lag
        self._alignment.observe(read, ends)
        if partitions[0] not in self._consumer.assignment():
            self._metrics.record_lag({})
            return
        if sum(ends.values()) != self._written:
            self._written, self._changed_ns = sum(ends.values()), monotonic_ns()
        await self._send(
            ends, {partition: max(read[partition].offset if partition in read else 0, 0) for partition in partitions}
        )

    async def _send(self, ends: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int]) -> None:
        lags = {source_of(partition): end - read[partition] for partition, end in ends.items()}
        self._metrics.record_lag(lags)
        value = encode(
            ProgressTick(
                ends={source_of(partition): offset for partition, offset in read.items()},
                lagging=tuple(source for source, lag in lags.items() if lag > 0),
                elapsed_ns=monotonic_ns() - self._changed_ns,
                at_pace=self._settings.advance_when_idle,
            )
        )
        numbers = range(self._settings.match_partitions)
        sends = [await self._producer.send(self._names.matches, value, partition=number) for number in numbers]
        await asyncio.gather(*sends)
