"""Where to read on when the raw topic or the group is not as it was: nothing is skipped without being counted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from epicenter.stream.kafka.alignment import topic_of_mark
from epicenter.stream.kafka.clients import CLIENT_ID
from epicenter.stream.kafka.faults import FaultLog, KafkaFault
from epicenter.stream.kafka.fetch_errors import RecordLost, Resuming
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.kafka.raw_topic import describe

MEMBERS_EVERY: Final = 10


class Recovery(Resuming):
    """Watches one topic for one consumer of a group, and says where it has to read on.

    Offsets are committed with the id of the topic that they belong to, so that whoever starts with them knows.
    """

    def __init__(
        self, topic: str, group: str, consumer: AIOKafkaConsumer, fault_log: FaultLog, record_lost: RecordLost
    ):
        super().__init__("fetch", consumer, fault_log, record_lost)
        self._topic, self._group = topic, group
        self._partitions = 0
        self._observations = 0
        self._seen_id = ""
        self.topic_id = ""

    @property
    def is_topic_new(self) -> bool:
        """Whether the topic is not the one that is being read: begin anew before the next fetch."""
        return bool(self._seen_id) and self._seen_id != self.topic_id

    async def observe(self, admin: AIOKafkaAdminClient) -> list[TopicPartition]:
        """The partitions that the brokers say the topic has; none while there is no such topic."""
        topic = await describe(admin, self._topic)
        if topic is None:
            self._fault_log.record(KafkaFault.TOPIC_MISSING, self._topic, "waiting for it; `epicenter topics` makes it")
            return []
        self._fault_log.end(KafkaFault.TOPIC_MISSING, self._topic)
        if 0 < self._partitions < topic.partitions and topic.topic_id == self._seen_id:
            text = f"{topic.partitions} instead of {self._partitions}: read from their first record on"
            self._fault_log.record(KafkaFault.PARTITIONS_ADDED, f"{self._topic}/{topic.partitions}", text)
        self._partitions, self._seen_id = topic.partitions, topic.topic_id
        self.topic_id = self.topic_id or topic.topic_id
        if self._observations % MEMBERS_EVERY == 0:
            await self._check_members(admin)
        self._observations += 1
        return [TopicPartition(self._topic, number) for number in range(topic.partitions)]

    async def begin_anew(self) -> None:
        """The topic was deleted and made again: read the new one from its beginning."""
        topic_id = self._seen_id
        try:
            await self.to_the_beginning(self._consumer.assignment())
        except KafkaError as error:
            await self.wait_a_little(error)
        else:
            self.topic_id = topic_id
            text = "its offsets begin anew; it is read from its first record on"
            self._fault_log.record(KafkaFault.TOPIC_MADE_AGAIN, f"{self._topic} ({topic_id})", text)

    async def check_committed(self, admin: AIOKafkaAdminClient, assigned: Collection[TopicPartition]) -> None:
        """Partitions were assigned: go to the beginning where what is committed belongs to a topic that is no more."""
        await self.observe(admin)
        if not assigned:
            return
        committed = await admin.list_consumer_group_offsets(self._group, partitions=list(assigned))
        of_another_topic = []
        for partition, (offset, metadata) in committed.items():
            topic_id = topic_of_mark(metadata)
            if offset >= 0 and topic_id and topic_id != self.topic_id:
                text = f"offset {offset} was committed for its forerunner; it is read from its first record on"
                self._fault_log.record(KafkaFault.TOPIC_MADE_AGAIN, f"{source_of(partition)} ({self.topic_id})", text)
                of_another_topic.append(partition)
            elif offset > 0 and not topic_id:
                text = (
                    f"offset {offset} of group {self._group} was committed by another program: what it skipped is lost"
                )
                self._fault_log.record(KafkaFault.FOREIGN_COMMIT, f"{source_of(partition)}:{offset}", text)
        await self.to_the_beginning(of_another_topic)

    async def _check_members(self, admin: AIOKafkaAdminClient) -> None:
        """A program that is none of ours takes partitions away, and nobody looks at their records."""
        (answer,) = await admin.describe_consumer_groups([self._group])
        for group in answer.to_object()["groups"]:
            for member in group["members"]:
                if member["client_id"] != CLIENT_ID:
                    who = f"{self._group}: {member['client_id']} at {member['client_host']}"
                    text = "is none of our workers: give it a group of its own, or what it is given is not looked at"
                    self._fault_log.record(KafkaFault.GROUP_SHARED, who, text)
