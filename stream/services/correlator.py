"""Matches -> incidents: one correlator for each partition of matches that this worker owns.

A service of the Faust app with its own consumer group. The order never changes: send what changed, wait for the
acknowledgements, write a snapshot at intervals, commit what it covers. The next owner of a partition restores its
snapshot and reads from there, whatever is committed. It sends what followed the snapshot again, byte for byte the same.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap, Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from mode import Service

from epicenter.rules.correlate.unconfirmed import WHY
from epicenter.rules.errors import PipelineError, RecordError, RejectedError, TransientError
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.log import get_logger
from epicenter.stream.kafka.clients import make_admin, make_producer
from epicenter.stream.kafka.fault_log import KafkaFault
from epicenter.stream.kafka.messages import Part, decode, encode_in_pieces, store_messages
from epicenter.stream.kafka.own_topics import Fetched, Message, OwnTopics
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.kafka.raw_topic import described
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.shutdown import SHUTDOWN
from epicenter.stream.process.snapshot_interval import snapshot_interval_s
from epicenter.stream.services.partition import PartitionCorrelator
from epicenter.stream.services.recorded import RecordedIncidents
from epicenter.stream.services.snapshots import Snapshots
from epicenter.stream.settings import Settings

log: Final = get_logger(__name__)

FETCH_WAIT_MS: Final = 200
MESSAGES_A_FETCH: Final = 100
STOP_WITHIN_S: Final = 5.0
NEXT_OWNER_REREADS: Final = "the next owner reads the newest messages again"
LEAVE_WITHIN_S: Final = 1.0
CONFIRM_AGAIN_AFTER_S: Final = 10.0


class Outgoing(NamedTuple):
    """A record to send."""

    topic: str
    value: bytes
    key: bytes | None = None
    partition: int | None = None


@dataclass
class Owned:
    """A correlator and the state of its last snapshot."""

    correlator: PartitionCorrelator
    topic_id: str
    snapshot_offset: int
    snapshot_s: float = 0.0
    snapshot_took_s: float = 0.0
    has_changes: bool = False

    def is_due(self, every_s: float) -> bool:
        """Whether it is time for the next snapshot."""
        wait_s = snapshot_interval_s(every_s, self.snapshot_took_s, self.has_changes)
        return self.correlator.offset > self.snapshot_offset and monotonic() - self.snapshot_s >= wait_s


class Correlator(Service):
    """Processes whole fetches. Correlation runs in a thread, so that group heartbeats continue meanwhile."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._rules = rules
        self._metrics = metrics
        self._snapshots = Snapshots(settings)
        self._confirm_not_before_s = 0.0
        self._owned: dict[TopicPartition, Owned] = {}
        self._busy = asyncio.Lock()
        self.last_fetch_s = monotonic()
        self.group = self._names.correlate_group
        self.has_joined = False

    async def on_start(self) -> None:
        """Join the group."""
        self._producer = make_producer(self._settings)
        self._topics = OwnTopics(self._settings, self._names.correlate_group, self._producer, self._metrics)
        self._consumer = self._topics.consumer
        self._recorded = RecordedIncidents(self._settings, self._producer, self._topics.skip_corrupt)
        self._admin = make_admin(self._settings)
        await self._admin.start()
        await self._snapshots.start()
        await self._producer.start()
        await self._topics.start(self._names.matches, listener=_RebalanceListener(self))

    async def on_stop(self) -> None:
        """Leave the group after a last snapshot, so that the next owner repeats no work."""
        try:
            await asyncio.wait_for(self.release_partitions(), SHUTDOWN.left_s(STOP_WITHIN_S, LEAVE_WITHIN_S))
        except (TimeoutError, KafkaError):
            log.warning("last_snapshot_missing", within_s=STOP_WITHIN_S, detail=NEXT_OWNER_REREADS)
        await self._topics.stop()
        await self._producer.stop()
        await self._snapshots.stop()
        await self._admin.close()

    async def reload(self, rules: RuleSet) -> None:
        """Use these rules from the next fetch on."""
        async with self._busy:
            self._rules = rules
            for owned in self._owned.values():
                owned.correlator.reload(rules)

    async def release_partitions(self) -> None:
        """Write a snapshot of every changed partition, then drop them: another worker may own them next."""
        async with self._busy:
            for partition, owned in self._owned.items():
                if owned.correlator.offset > owned.snapshot_offset:
                    await self._write_snapshot(partition, owned)
            self._owned.clear()
            self._record_open()

    async def restart(self) -> None:
        """Drop all state: every partition is paused until its snapshot is restored."""
        async with self._busy:
            self._forget()
        self.has_joined = True

    def _forget(self) -> None:
        self._owned.clear()
        self._record_open()
        self._consumer.pause(*self._consumer.assignment())

    def _record_open(self) -> None:
        """Set the numbers of open incidents: each partition counts at its owner only."""
        counts = (owned.correlator.open_incidents() for owned in self._owned.values())
        self._metrics.record_open(sum(counts, Counter()))

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            async with self._topics.fetched(FETCH_WAIT_MS, MESSAGES_A_FETCH) as fetched, self._busy:
                try:
                    await self._correlate(fetched)
                except (KafkaError, TransientError):
                    self._forget()  # unknown which of the results were sent
                    raise
            self.last_fetch_s = monotonic()
        self.group = self._names.correlate_group
        self.has_joined = False

    async def _correlate(self, fetched: Fetched) -> None:
        begun = self._consumer.paused()
        for partition in begun:
            await self._restore(partition)
        for partition in (fetched.keys() & self._owned.keys()) - begun:
            await self._process_records(partition, fetched[partition])
            await self._confirm(partition)
        self._record_open()
        for partition, owned in self._owned.items():
            if owned.is_due(self._settings.snapshot_every_ns / NS_PER_S):
                await self._write_snapshot(partition, owned)

    async def _process_records(self, partition: TopicPartition, records: Sequence[Message]) -> None:
        owned, sends = self._owned[partition], []
        if records[0].offset <= owned.correlator.offset:
            self._consumer.pause(partition)  # the topic was recreated
            return
        for record in records:
            for outgoing in await asyncio.to_thread(self._process, owned, record):
                sends.append(await self._producer.send(*outgoing))
        await asyncio.gather(*sends)
        self._metrics.record_opened(owned.correlator.opened())
        self._metrics.record_engine(partition.partition, owned.correlator.engine.counts)
        self._metrics.record_wait(partition.partition, owned.correlator.wait_ns)

    def _process(self, owned: Owned, record: Message) -> list[Outgoing]:
        """The records that a message produces. From the same snapshot the same message produces the same records."""
        source, value = f"{record.topic}/{record.partition}", record.value or b""
        try:
            message = decode(value)
        except RecordError as error:
            received_ns = record.timestamp * (NS_PER_S // 1000)
            position = Position(source, record.offset)
            dead_letter = DeadLetter.of(error.kind, str(error), position, value, record.key, received_ns)
            return [Outgoing(self._names.dead_letters, msgspec.json.encode(dead_letter))]
        changed = owned.correlator.process(record.offset, message)
        owned.has_changes |= bool(changed) or message.has_content
        found = [
            Outgoing(
                self._names.incidents, msgspec.json.encode(incident), incident.incident_id.encode(), record.partition
            )
            for incident in changed
        ]
        values = list(store_messages(owned.correlator.for_store()))
        if windowed := owned.correlator.windowed():
            values += encode_in_pieces([Part(source, None, None, tuple(windowed), ())])
        return found + [Outgoing(self._names.signals, value, None, record.partition) for value in values]

    async def _restore(self, partition: TopicPartition) -> None:
        """Restore the snapshot and seek behind it. Without a snapshot, seek to the committed offset."""

        def restored(state: bytes | None) -> PartitionCorrelator:
            return PartitionCorrelator(self._rules, self._settings.allowed_lateness_ns, state)

        topic = await described(self._admin, partition.topic)
        stored = await self._snapshots.read(partition.partition, restored, self._report_unreadable)
        correlator, topic_id = stored or (restored(None), "")
        if not stored:
            correlator.lose_state((await self._consumer.end_offsets([partition]))[partition])
        is_new = topic_id not in ("", topic.topic_id)
        start = await (self._after(partition, correlator, is_new) if stored else self._committed(partition))
        if partition in self._consumer.assignment():
            self._owned[partition] = Owned(correlator, topic.topic_id, snapshot_offset=correlator.offset)
            self._consumer.seek(partition, start)
            self._consumer.resume(partition)

    def _report_unreadable(self, problem: str) -> None:
        detail = "trying the previous snapshot; without one, earlier incidents are unknown"
        log.error("snapshot_unreadable", error=problem, detail=detail)
        self._metrics.record_snapshot_failure("unreadable")

    async def _committed(self, partition: TopicPartition) -> int:
        committed: int | None = await self._consumer.committed(partition)
        return committed or int((await self._consumer.beginning_offsets([partition]))[partition])

    async def _after(self, partition: TopicPartition, correlator: PartitionCorrelator, is_new: bool) -> int:
        """The offset to resume from."""
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        end = (await self._consumer.end_offsets([partition]))[partition]
        if is_new or correlator.offset >= end:
            text = (
                f"its snapshot covers offset {correlator.offset} of the previous topic; reading from the first message"
            )
            self._topics.fault_log.record(KafkaFault.TOPIC_RECREATED, source_of(partition), text)
            correlator.begin_at(first)
        elif correlator.offset + 1 < first:
            lost = first - correlator.offset - 1
            text = f"{lost} messages were deleted before they were correlated"
            self._topics.fault_log.record_lost(source_of(partition), correlator.offset, lost, text)
            self._topics.record_lost(source_of(partition), lost)
            correlator.begin_at(first)
        return correlator.offset + 1

    async def _confirm(self, partition: TopicPartition) -> None:
        """Once all that the lines confirm is known: end the incidents that are recorded as open, and that are not."""
        correlator = self._owned[partition].correlator if partition in self._owned else None
        if not (correlator and correlator.can_confirm and monotonic() >= self._confirm_not_before_s):
            return
        try:
            recorded = await self._recorded.read(partition.partition)
        except PipelineError as error:
            self._confirm_not_before_s = monotonic() + CONFIRM_AGAIN_AFTER_S
            log.warning("open_incidents_unread", **_place(partition), error=str(error), detail="trying again")
            return
        ended = correlator.confirm(recorded, time_ns())
        for incident in ended:
            value, key = msgspec.json.encode(incident), incident.incident_id.encode()
            await self._producer.send_and_wait(self._names.incidents, value, key, partition.partition)
        if ended:
            names = [incident.incident_id for incident in ended]
            log.warning("unconfirmed_incidents_ended", **_place(partition), incidents=names, detail=WHY)

    async def _write_snapshot(self, partition: TopicPartition, owned: Owned) -> None:
        """Write a snapshot, then commit what it covers."""
        begun_s, offset = monotonic(), owned.correlator.offset
        state = await asyncio.to_thread(owned.correlator.snapshot)
        owned.snapshot_took_s = (
            monotonic() - begun_s
        )  # without time spent waiting for Kafka, which would delay the next one for hours
        try:
            packed_bytes = await self._snapshots.write(partition.partition, state, owned.topic_id)
            await self._topics.commit({partition: offset + 1})
        except RejectedError as error:
            detail = "a restart uses the last snapshot that fitted"
            log.error("snapshot_refused", **_place(partition), error=str(error), detail=detail)
            self._metrics.record_snapshot_failure("too large")
        except (CommitFailedError, IllegalStateError):
            log.warning("partition_taken_away", **_place(partition), detail=NEXT_OWNER_REREADS)
        else:
            owned.snapshot_offset, owned.has_changes = offset, False
            self._metrics.record_snapshot(partition.partition, packed_bytes, monotonic() - begun_s)
        owned.snapshot_s = monotonic()
        self._metrics.record_skews(ChainMap(*(owned.correlator.engine.skews_ns() for owned in self._owned.values())))


class _RebalanceListener(ConsumerRebalanceListener):
    """Releases partitions between fetches, after a snapshot."""

    def __init__(self, service: Correlator):
        self._service = service

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._service.release_partitions()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._service.restart()


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}
