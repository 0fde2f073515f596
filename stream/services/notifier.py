"""Incidents -> targets: each change is delivered once to each target.

A service of the Faust app with its own consumer group, so that unreachable targets block nothing else. The owner of a
partition of incidents, which holds whole clusters, restores the journal of the previous owner. Revisions are committed
once the notifications that they cause are in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from time import monotonic, time
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from mode import Service

from epicenter.rules.alerts.state import Planned
from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter, Delivery
from epicenter.rules.model.records import Position
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.log import get_logger
from epicenter.stream.alerts.dispatcher import Dispatcher
from epicenter.stream.alerts.file import alerts_of
from epicenter.stream.alerts.opening import dispatcher
from epicenter.stream.alerts.operator_actions import StoredActions
from epicenter.stream.alerts.topic_journal import TopicJournal
from epicenter.stream.kafka.clients import make_producer
from epicenter.stream.kafka.messages import StoreMessage, encode
from epicenter.stream.kafka.own_topics import Message, OwnTopics
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.settings import Settings

log: Final = get_logger(__name__)
RECORDS_A_FETCH: Final = 500
PAUSE_MS: Final = 500
OPERATOR_ACTIONS_EVERY_S: Final = 2.0
FIRST_LOOKBACK_MS: Final = 3_600_000
"""Alerts that are configured for the first time cover the last hour and nothing before it."""


class Notifier(Service):
    """Notifies the targets of `alerts.yaml` with one dispatcher for each partition that this worker owns."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._rules = rules
        self._names = TopicNames(settings.prefix)
        self._metrics = metrics
        self._busy = asyncio.Lock()
        self._alerts = alerts_of(settings)
        self._owned: dict[int, Dispatcher] = {}
        self._is_member = False
        self._actions = StoredActions(settings, lambda text: log.warning("operator_actions_unread", detail=text))
        self.last_fetch_s = monotonic()
        self.group = self._names.notify_group
        self.has_joined = False

    async def on_start(self) -> None:
        """Join the group."""
        self._producer = make_producer(self._settings)
        self._topics = OwnTopics(self._settings, self._names.notify_group, self._producer, self._metrics)
        self._consumer = self._topics.consumer
        await self._producer.start()
        await self._topics.start(self._names.incidents, listener=_RebalanceListener(self))

    async def on_stop(self) -> None:
        """Leave the group after the deliveries in progress."""
        await self.release_partitions()
        await self._topics.stop()
        await self._producer.stop()
        await self._actions.close()

    async def begin(self) -> None:
        """Process the assigned partitions from the next fetch on."""
        async with self._busy:
            self._is_member = self.has_joined = True

    async def release_partitions(self) -> None:
        """Stop deliveries for all partitions: another worker may own them next."""
        async with self._busy:
            self._is_member = False
            owned, self._owned = self._owned, {}
            await asyncio.gather(*(dispatcher.close() for dispatcher in owned.values()))

    @Service.task
    async def _run(self) -> None:
        await self._actions.is_known.wait()
        while not self.should_stop:
            async with self._topics.fetched(PAUSE_MS, RECORDS_A_FETCH) as fetched, self._busy:
                self.last_fetch_s = monotonic()
                if not self._is_member:
                    self._topics.put_back(fetched)
                    continue
                for partition in self._consumer.assignment():
                    if await self._is_ready(partition):
                        await self._process(partition, fetched.get(partition, ()))
                self._count_pending()

    @Service.task
    async def _poll_operator_actions(self) -> None:
        while not self.should_stop:
            await self._actions.refresh()
            await self.sleep(OPERATOR_ACTIONS_EVERY_S)

    async def _is_ready(self, partition: TopicPartition) -> bool:
        """Whether these records cause notifications. Opens the dispatcher of the partition with its journal."""
        if partition.partition in self._owned:
            return True
        assert self._alerts
        journal = TopicJournal(self._settings, self._producer, partition.partition, self._topics.skip_corrupt)
        delivery_log = _DeliveryLog(self._names, partition.partition, self._producer, self._metrics)
        owned = dispatcher(self._alerts, self._rules, journal, delivery_log)
        await owned.open()
        skips = await self._skips_the_past(partition)
        owned.start()
        self._owned[partition.partition] = owned
        return not skips

    async def _skips_the_past(self, partition: TopicPartition) -> bool:
        if await self._consumer.committed(partition) is not None:
            return False
        recently_ms = int(time() * 1000) - FIRST_LOOKBACK_MS
        end = (await self._consumer.end_offsets([partition]))[
            partition
        ]  # before the lookback, so that records that arrive now are notified
        found = (await self._consumer.offsets_for_times({partition: recently_ms}))[partition]
        start = found.offset if found else end
        if partition in self._consumer.assignment():
            self._consumer.seek(partition, start)
            await self._topics.commit({partition: start})
        return True

    async def _process(self, partition: TopicPartition, records: Sequence[Message]) -> None:
        owned = self._owned[partition.partition]
        owned.actions = self._actions.newest
        await owned.observe([revision for record in records for revision in _revisions(record)])
        if records:
            await self._topics.commit({partition: records[-1].offset + 1})

    def _count_pending(self) -> None:
        assert self._alerts
        for target in self._alerts.spec.targets:
            pending = sum(dispatcher.pending(target) for dispatcher in self._owned.values())
            is_failing = any(dispatcher.queues[target].is_failing for dispatcher in self._owned.values())
            self._metrics.record_pending(target, pending, is_failing)


class _DeliveryLog:
    """Records the outcome of a partition's notifications: rows, dead letters, metrics."""

    def __init__(self, names: TopicNames, partition: int, producer: Any, metrics: Metrics):
        self._names = names
        self._partition = partition
        self._producer = producer
        self._metrics = metrics

    async def report(self, deliveries: Sequence[Delivery]) -> None:
        """Send them to the store writer."""
        message = encode(StoreMessage(deliveries=tuple(deliveries)))
        await self._producer.send_and_wait(self._names.signals, message, partition=self._partition)

    async def give_up(self, planned: Planned, reason: str) -> None:
        """Send a dead letter with the incident's revision. Replaying it tries the target again."""
        incident = planned.notification.incident
        value, key = msgspec.json.encode(incident), incident.incident_id.encode()
        reason = f"{planned.notification.target}: {reason}"
        event_s = datetime.fromisoformat(planned.notification.event_time).timestamp()
        received_ns = int(event_s * 1000) * 1_000_000
        kind = DeadLetterKind.NOTIFICATION_REFUSED
        dead_letter = DeadLetter.of(kind, reason, planned.position, value, key, received_ns)
        await self._producer.send_and_wait(self._names.dead_letters, msgspec.json.encode(dead_letter))

    def count(self, delivery: Delivery) -> None:
        """Count it in the metrics."""
        self._metrics.record_delivery(delivery, time())


class _RebalanceListener(ConsumerRebalanceListener):
    """Releases partitions only between deliveries.

    Until the new assignment aiokafka still reports the old partitions as assigned.
    """

    def __init__(self, service: Notifier):
        self._service = service

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._service.release_partitions()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._service.begin()


def _revisions(record: Message) -> list[tuple[Incident, Position]]:
    try:
        incident = msgspec.json.decode(record.value or b"", type=Incident)
    except msgspec.DecodeError:
        return []  # the store writer reads it too and writes the dead letter
    return [(incident, Position(f"{record.topic}/{record.partition}", record.offset))]
