"""Where to read on when the raw topic or the group is not as it was: nothing is skipped without being counted."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IllegalStateError, KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from stream.clients import CLIENT_ID
from stream.metrics import Metrics
from stream.raw_batches import source_of
from stream.raw_topic import describe
from stream.trouble import Trouble, Troubles

PAUSE_S: Final = 1.0
LOOKS_BETWEEN_MEMBERS: Final = 10


class Recovery:
    """Watches one topic for one consumer of a group, and says where it has to read on.

    Offsets are committed with the id of the topic that they belong to, so that whoever starts with them knows.
    """

    def __init__(self, topic: str, group: str, consumer: AIOKafkaConsumer, troubles: Troubles, metrics: Metrics):
        self._topic, self._group = topic, group
        self._consumer = consumer
        self._troubles = troubles
        self._metrics = metrics
        self._partitions = 0
        self._looks = 0
        self._seen_id = ""
        self.topic_id = ""

    @property
    def is_topic_new(self) -> bool:
        """Whether the topic is not the one that is being read: begin anew before the next fetch."""
        return bool(self._seen_id) and self._seen_id != self.topic_id

    async def look(self, admin: AIOKafkaAdminClient) -> list[TopicPartition]:
        """The partitions that the brokers say the topic has; none while there is no such topic."""
        found = await describe(admin, self._topic)
        if found is None:
            self._troubles.note(Trouble.TOPIC_MISSING, self._topic, "waiting for it; `epicenter topics` makes it")
            return []
        self._troubles.is_over(Trouble.TOPIC_MISSING, self._topic)
        if 0 < self._partitions < found.partitions and found.topic_id == self._seen_id:
            text = f"{found.partitions} instead of {self._partitions}: read from their first record on"
            self._troubles.note(Trouble.PARTITIONS_ADDED, f"{self._topic}/{found.partitions}", text)
        self._partitions, self._seen_id = found.partitions, found.topic_id
        self.topic_id = self.topic_id or found.topic_id
        if self._looks % LOOKS_BETWEEN_MEMBERS == 0:
            await self._look_at_members(admin)
        self._looks += 1
        return [TopicPartition(self._topic, number) for number in range(found.partitions)]

    async def begin_anew(self) -> None:
        """The topic was deleted and made again: read the new one from its beginning."""
        topic_id = self._seen_id
        try:
            await self._to_the_beginning(self._consumer.assignment())
        except KafkaError as error:
            await self._wait_a_little(error)
        else:
            self.topic_id = topic_id
            text = "its offsets begin anew; it is read from its first record on"
            self._troubles.note(Trouble.TOPIC_MADE_AGAIN, f"{self._topic} ({topic_id})", text)

    async def check_committed(self, admin: AIOKafkaAdminClient, assigned: Collection[TopicPartition]) -> None:
        """Partitions were assigned: go to the beginning where what is committed belongs to a topic that is no more."""
        await self.look(admin)
        if not assigned:
            return
        committed = await admin.list_consumer_group_offsets(self._group, partitions=list(assigned))
        of_another_topic = []
        for partition, (offset, topic_id) in committed.items():
            if offset >= 0 and topic_id and topic_id != self.topic_id:
                text = f"offset {offset} was committed for its forerunner; it is read from its first record on"
                self._troubles.note(Trouble.TOPIC_MADE_AGAIN, f"{source_of(partition)} ({self.topic_id})", text)
                of_another_topic.append(partition)
            elif offset > 0 and not topic_id:
                text = (
                    f"offset {offset} of group {self._group} was committed by another program: what it skipped is lost"
                )
                self._troubles.note(Trouble.FOREIGN_COMMIT, f"{source_of(partition)}:{offset}", text)
        await self._to_the_beginning(of_another_topic)

    async def after(self, error: KafkaError) -> None:
        """Fetching failed: go to where it can go on, or wait a little. The error is named and counted."""
        try:
            if isinstance(error, OffsetOutOfRangeError):
                for partition, offset in error.args[0].items():
                    await self._back_into_range(partition, offset)
            elif isinstance(error, NoOffsetForPartitionError):
                await self._to_the_beginning([error.args[0]])
            else:
                await self._wait_a_little(error)
        except KafkaError as another:
            await self._wait_a_little(another)

    async def _wait_a_little(self, error: KafkaError) -> None:
        self._troubles.note(Trouble.KAFKA_ERROR, f"fetch: {error!r}", "trying again")
        await asyncio.sleep(PAUSE_S)

    async def _back_into_range(self, partition: TopicPartition, offset: int) -> None:
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        end = (await self._consumer.end_offsets([partition]))[partition]
        if offset < first:
            text = f"{first - offset} records from offset {offset} on were deleted before they were read"
            self._troubles.note(Trouble.RECORDS_LOST, f"{source_of(partition)}:{offset}", text)
            self._metrics.note_lost_records(source_of(partition), first - offset)
        elif offset > end:
            text = f"ends at {end}, and {offset} was read before: read from its first record on"
            self._troubles.note(Trouble.TOPIC_MADE_AGAIN, f"{source_of(partition)}:{offset}", text)
        self._seek(partition, offset if first <= offset <= end else first)

    async def _to_the_beginning(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            for partition, offset in (await self._consumer.beginning_offsets(partitions)).items():
                self._seek(partition, offset)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._consumer.seek(partition, offset)
        except IllegalStateError:
            self._troubles.note(Trouble.TAKEN_AWAY, source_of(partition), "its next owner sees to it")

    async def _look_at_members(self, admin: AIOKafkaAdminClient) -> None:
        """A program that is none of ours takes partitions away, and nobody looks at their records."""
        (answer,) = await admin.describe_consumer_groups([self._group])
        for group in answer.to_object()["groups"]:
            for member in group["members"]:
                if member["client_id"] != CLIENT_ID:
                    who = f"{self._group}: {member['client_id']} at {member['client_host']}"
                    text = "is none of our workers: give it a group of its own, or what it is given is not looked at"
                    self._troubles.note(Trouble.GROUP_SHARED, who, text)
