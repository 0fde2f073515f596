"""Where to resume when the raw topic or the group has changed: nothing is skipped without being counted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from epicenter.stream.kafka.alignment import topic_of_mark
from epicenter.stream.kafka.clients import CLIENT_ID
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.fetch_errors import RecordLost, Resuming
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.kafka.raw_topic import describe

MEMBERS_EVERY: Final = 10


class Recovery(Resuming):
    """Watches one topic for one consumer of a group and decides where it resumes.

    Offsets are committed with the id of their topic, so that the next consumer can tell whether they are still valid.
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
        """Whether the topic was recreated: call `begin_anew` before the next fetch."""
        return bool(self._seen_id) and self._seen_id != self.topic_id

    async def observe(self, admin: AIOKafkaAdminClient) -> list[TopicPartition]:
        """The topic's current partitions; none while the topic does not exist."""
        topic = await describe(admin, self._topic)
        if topic is None:
            self._fault_log.record(
                KafkaFault.TOPIC_MISSING, self._topic, "waiting for it; create it with `epicenter topics`"
            )
            return []
        self._fault_log.end(KafkaFault.TOPIC_MISSING, self._topic)
        if 0 < self._partitions < topic.partitions and topic.topic_id == self._seen_id:
            text = f"{topic.partitions} instead of {self._partitions}: new partitions are read from their first record"
            self._fault_log.record(KafkaFault.PARTITIONS_ADDED, f"{self._topic}/{topic.partitions}", text)
        self._partitions, self._seen_id = topic.partitions, topic.topic_id
        self.topic_id = self.topic_id or topic.topic_id
        if self._observations % MEMBERS_EVERY == 0:
            await self._check_members(admin)
        self._observations += 1
        return [TopicPartition(self._topic, number) for number in range(topic.partitions)]

    async def begin_anew(self) -> None:
        """The topic was recreated: read the new one from its beginning."""
        topic_id = self._seen_id
        try:
            await self.to_the_beginning(self._consumer.assignment())
        except KafkaError as error:
            await self.wait_a_little(error)
        else:
            self.topic_id = topic_id
            text = "its offsets restarted; reading from the first record"
            self._fault_log.record(KafkaFault.TOPIC_RECREATED, f"{self._topic} ({topic_id})", text)

    async def check_committed(self, admin: AIOKafkaAdminClient, assigned: Collection[TopicPartition]) -> None:
        """Seek assigned partitions to the beginning where the committed offset belongs to a deleted topic."""
        await self.observe(admin)
        if not assigned:
            return
        committed = await admin.list_consumer_group_offsets(self._group, partitions=list(assigned))
        of_another_topic = []
        for partition, (offset, metadata) in committed.items():
            topic_id = topic_of_mark(metadata)
            if offset >= 0 and topic_id and topic_id != self.topic_id:
                text = f"offset {offset} was committed for the previous topic; reading from the first record"
                self._fault_log.record(KafkaFault.TOPIC_RECREATED, f"{source_of(partition)} ({self.topic_id})", text)
                of_another_topic.append(partition)
            elif offset > 0 and not topic_id:
                text = f"offset {offset} was committed by another program, which may have skipped records"
                self._fault_log.record(KafkaFault.FOREIGN_COMMIT, f"{source_of(partition)}:{offset}", text)
        await self.to_the_beginning(of_another_topic)

    async def _check_members(self, admin: AIOKafkaAdminClient) -> None:
        """Report foreign members of the group: they take partitions whose records are then never processed."""
        (answer,) = await admin.describe_consumer_groups([self._group])
        for group in answer.to_object()["groups"]:
            for member in group["members"]:
                if member["client_id"] != CLIENT_ID:
                    member_name = f"{self._group}: {member['client_id']} at {member['client_host']}"
                    text = "is not an epicenter worker: give it another group, or its records are never processed"
                    self._fault_log.record(KafkaFault.GROUP_SHARED, member_name, text)
