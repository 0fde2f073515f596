"""Reading our own topics: faults are named and counted, and never stop a worker.

A batch that can't be unpacked becomes a dead letter and is skipped. Messages deleted before they were read are counted
as lost. After any other Kafka error the current messages are read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec
from aiokafka import AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, KafkaTimeoutError

from epicenter.rules.errors import TransientError
from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.fetch_errors import Resuming
from epicenter.stream.kafka.raw_batches import Corrupt, source_of, surface_corrupt_batches
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.settings import Settings

COMMIT_WITHIN_S: Final = 30.0
"""aiokafka retries a commit forever if the topic was deleted."""

Message: TypeAlias = ConsumerRecord[bytes, bytes]
Fetched = dict[TopicPartition, list[Message]]
Polled = Mapping[TopicPartition, Sequence[Message | Corrupt]]


class OwnTopics:
    """Reads some of our topics as one member of a consumer group."""

    def __init__(self, settings: Settings, group: str, producer: AIOKafkaProducer, metrics: Metrics):
        self._dead_letters = TopicNames(settings.prefix).dead_letters
        self._group = group
        self._producer = producer
        self._metrics = metrics
        self.fault_log = FaultLog(metrics)
        self.consumer = make_consumer(settings, group, auto_offset_reset="none")
        self._resuming = Resuming(group, self.consumer, self.fault_log, self.record_lost)

    async def start(self, *topics: str, listener: ConsumerRebalanceListener | None = None) -> None:
        """Join the group."""
        self._topics = topics
        await self.consumer.start()
        surface_corrupt_batches(self.consumer)
        self.consumer.subscribe(topics, listener=listener)

    async def stop(self) -> None:
        """Leave the group."""
        await self.consumer.stop()

    @asynccontextmanager
    async def fetched(self, timeout_ms: int, most: int) -> AsyncIterator[Fetched]:
        """The next messages, if any arrive in time. When Kafka fails inside the `with` block, they are read again."""
        found = await self._fetch(timeout_ms, most)
        try:
            yield found
        except (KafkaError, TransientError) as error:
            await self._read_again(found, error)
        else:
            if found:
                self.fault_log.end(KafkaFault.KAFKA_ERROR, self._group)

    async def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets.

        Raises:
            KafkaError: they are not committed.
        """
        try:
            await asyncio.wait_for(self.consumer.commit(next_offsets), COMMIT_WITHIN_S)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"no commit within {COMMIT_WITHIN_S:.0f} s") from error

    async def wait(self, pause_ms: int) -> None:
        """Wait without leaving the group: a paused consumer must still be polled.

        A rebalance lifts the pause; records that arrive then are put back and read again.
        """
        self.consumer.pause(*self.consumer.assignment())
        try:
            self.put_back(await self.consumer.getmany(timeout_ms=pause_ms))
        finally:
            self.consumer.resume(*self.consumer.assignment())

    async def skip_corrupt(self, partition: TopicPartition, batch: Corrupt) -> None:
        """Skip a batch that can't be unpacked, after sending its dead letter."""
        dead_letter = self.fault_log.record_corrupt(source_of(partition), batch)
        await self._producer.send_and_wait(self._dead_letters, msgspec.json.encode(dead_letter))
        self.record_lost(source_of(partition), batch.records)

    def record_lost(self, source: str, messages: int) -> None:
        """Count messages that this group can no longer read."""
        self._metrics.record_lost_messages(self._group, source, messages)

    async def _fetch(self, timeout_ms: int, most: int) -> Fetched:
        polled: Polled = {}
        try:
            polled = await self.consumer.getmany(timeout_ms=timeout_ms, max_records=most)
            sound = {partition: await self._sound(partition, polled[partition]) for partition in polled}
        except KafkaError as error:
            await self._read_again(polled, error)
            return {}
        self._report_missing()
        return {partition: messages for partition, messages in sound.items() if messages}

    async def _sound(self, partition: TopicPartition, polled: Sequence[Message | Corrupt]) -> list[Message]:
        for message in polled:
            if isinstance(message, Corrupt):
                await self.skip_corrupt(partition, message)
        return [message for message in polled if not isinstance(message, Corrupt)]

    async def _read_again(self, polled: Polled, error: KafkaError | TransientError) -> None:
        self.put_back(polled)
        if isinstance(error, CommitFailedError | IllegalStateError):
            self.fault_log.record(
                KafkaFault.PARTITIONS_REVOKED,
                self._group,
                "partitions were reassigned; uncommitted messages are processed again",
            )
        elif isinstance(error, TransientError):
            await self._resuming.wait_a_little(error)
        else:
            await self._resuming.after(error)

    def put_back(self, polled: Polled) -> None:
        """Seek back so that these are read again."""
        for partition in polled.keys() & self.consumer.assignment():
            self.consumer.seek(partition, polled[partition][0].offset)

    def _report_missing(self) -> None:
        for topic in self._topics:
            if self.consumer.partitions_for_topic(topic):
                self.fault_log.end(KafkaFault.TOPIC_MISSING, topic)
            else:
                self.fault_log.record(
                    KafkaFault.TOPIC_MISSING, topic, "waiting for it; create it with `epicenter topics`"
                )
