"""Incidents -> messages at their targets: the planner's decisions, stored in a journal, delivered by target queues.

A notification is stored before it is sent, and marked as sent after. A process killed between the two sends it again
with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from aiokafka.errors import KafkaError

from epicenter.rules.alerts.counted_time import ClockReading
from epicenter.rules.alerts.mute_stages import EvaluationContext, OperatorActions
from epicenter.rules.alerts.planner import Planner
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.state import CLOCK, GROUP, AlertState, Group, Planned
from epicenter.rules.errors import PipelineError, TransientError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import duration_ns
from epicenter.sinks.log import get_logger
from epicenter.sinks.notify.target import MessageRef, Target
from epicenter.stream.alerts.counted_clock import CountedClock, machine_clocks
from epicenter.stream.alerts.journal import Journal
from epicenter.stream.alerts.target_queue import TargetQueue
from epicenter.stream.process.shutdown import FOR_TARGETS_S, SHUTDOWN

log: Final = get_logger(__name__)
UNKNOWN_TARGET: Final = "alerts no longer name this target"
SHORT_S: Final = 0.05
MAX_DELIVERY_S: Final = 15.0
"""Longer than a target takes to answer or to time out; shutting down shortens it."""

MAX_LAST_DELIVERY_S: Final = 2.0
SAVE_CLOCK_EVERY_NS: Final = duration_ns("1m")
"""How often the counted time is stored while nothing else is."""


class DeliveryLog(Protocol):
    """Where a dispatcher reports deliveries."""

    async def report(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries to the store."""

    async def give_up(self, planned: Planned, reason: str) -> None:
        """Make a dead letter of a notification that its target rejects for good."""

    def count(self, delivery: Delivery) -> None:
        """Count a delivery in the metrics."""


class Dispatcher:
    """Notifies targets of incidents. `observe` returns when the plan is stored; target queues deliver concurrently."""

    def __init__(
        self,
        routing: Routing,
        targets: dict[str, Target],
        is_liveness: Callable[[Incident], bool],
        journal: Journal,
        delivery_log: DeliveryLog,
        read_clocks: Callable[[], ClockReading] | None = None,
    ):
        self._routing = routing
        self._is_liveness = is_liveness
        self._journal = journal
        self._delivery_log = delivery_log
        self._clock = CountedClock(read_clocks or machine_clocks())
        self._writing = asyncio.Lock()
        self._in_writing: set[str] = set()
        self._unreported: list[Delivery] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.actions = OperatorActions()
        self._targets = targets
        self.queues = {name: TargetQueue(target, self, self._clock.counted_ns) for name, target in targets.items()}

    async def open(self) -> None:
        """Restore the state from the journal. Notifications for targets that are no longer configured are dropped."""
        state, unreadable = AlertState.restored(await self._journal.load())
        for key in unreadable:
            log.error("alert_journal_entry_skipped", key=key, detail="not written by epicenter")
        if ended := state.ended():
            self._clock.resume(ended)
        state.clock = self._clock.mark()
        self._planner = Planner(self._routing, self._is_liveness, state)
        for group in [group for group in state.groups.values() if group.route_target.target not in self.queues]:
            while group.pending:
                await self.record_refused(group, UNKNOWN_TARGET)
            self._planner.forget(group)

    def open_incidents(self) -> list[Incident]:
        """The incidents of the journal that are open."""
        found = (open_incident.incident for open_incident in self._planner.state.incidents.values())
        return [incident for incident in found if incident.status == "open"]

    def start(self) -> None:
        """Start the target queues."""
        self._tasks = [asyncio.create_task(queue.run(), name=name) for name, queue in self.queues.items()]

    async def observe(self, incidents: Iterable[tuple[Incident, Position]]) -> None:
        """Plan notifications for these revisions, in order. When this returns, the plan survives a crash.

        Raises:
            PipelineError, KafkaError: the journal is unavailable; send the revisions again.
        """
        for incident, position in incidents:
            self._planner.observe(incident, position, EvaluationContext(self._clock.now(), self.actions))
        await self.evaluate()

    async def evaluate(self, is_last: bool = False) -> None:
        """Plan what is due by now, after time passed or operators acted."""
        for decision in self._planner.advance(EvaluationContext(self._clock.now(), self.actions, is_last)):
            self._record(decision)
        await self._report()
        await self._save()
        for queue in self.queues.values():
            queue.wake()

    def pending(self, target: str) -> int:
        """How many notifications wait for the target."""
        return sum(len(group.pending) for group in self._with_pending(target))

    async def close(self, patience_s: float = 0.0) -> None:
        """Stop after the deliveries in flight, having waited up to `patience_s` for pending ones, which stay stored.

        Raises:
            PipelineError, KafkaError: the journal is unavailable.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN.left_s(patience_s, FOR_TARGETS_S + MAX_LAST_DELIVERY_S)):
                while any(map(self.pending, self.queues)):
                    await asyncio.sleep(SHORT_S)
        for queue in self.queues.values():
            queue.stop()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=SHUTDOWN.left_s(MAX_DELIVERY_S, FOR_TARGETS_S))
            for task in left:
                task.cancel()
        await asyncio.gather(*(target.close() for target in self._targets.values()))
        await self._report()
        await self._save()
        await self._journal.close()

    def waiting(self, target: str) -> list[Group]:
        """Groups with stored notifications for the target."""
        unsaved = self._planner.state.changed | self._in_writing
        return [group for group in self._with_pending(target) if GROUP + group.key not in unsaved]

    def _with_pending(self, target: str) -> list[Group]:
        groups = self._planner.state.groups.values()
        return [group for group in groups if group.pending and group.route_target.target == target]

    def open_groups(self, target: str) -> list[Group]:
        """Groups of the target with an open incident."""
        groups = self._planner.state.groups.values()
        return [group for group in groups if group.route_target.target == target and group.is_open]

    async def record_sent(self, group: Group, message_ref: MessageRef) -> None:
        """The target accepted the group's first notification."""
        self._record(self._delivery(group.pending[0], Outcome.SENT))
        self._planner.record_sent(group, message_ref)
        await self._save_soon()

    async def record_refused(self, group: Group, reason: str) -> None:
        """The target rejects the group's first notification for good.

        Raises:
            TransientError: its dead letter can't be stored now; the notification stays pending.
        """
        try:
            await self._delivery_log.give_up(group.pending[0], reason)
        except KafkaError as error:
            raise TransientError(f"a dead letter can't be stored: {error!r}") from error
        self._record(self._delivery(group.pending[0], Outcome.REFUSED, reason))
        self._planner.record_refused(group)
        await self._save_soon()

    async def record_waits(self, group: Group, reason: str) -> None:
        """The target is unavailable, so the group's first notification waits."""
        self._record(self._delivery(group.pending[0], Outcome.WAITS, reason))
        await self._save_soon()

    def _delivery(self, planned: Planned, outcome: Outcome, reason: str = "") -> Delivery:
        notification = planned.notification
        return Delivery(
            notification_id=notification.notification_id,
            target=notification.target,
            outcome=outcome,
            incident_id=notification.incident.incident_id,
            revision=notification.incident.revision,
            kind=notification.kind,
            event_time=notification.event_time,
            reason=reason or notification.reason,
            decided_ns=self._clock.now().wall_ns,
        )

    def _record(self, delivery: Delivery) -> None:
        self._delivery_log.count(delivery)
        self._unreported.append(delivery)

    async def _save_soon(self) -> None:
        """Now, or with the next evaluation when Kafka or the disk is unavailable."""
        with suppress(PipelineError, KafkaError):
            await self._report()
            await self._save()

    async def _report(self) -> None:
        if not self._unreported:
            return
        reported, self._unreported = self._unreported, []
        try:
            await self._delivery_log.report(reported)
        except BaseException:
            self._unreported = reported + self._unreported
            raise

    async def _save(self) -> None:
        async with self._writing:
            state = self._planner.state
            self._note_time(state)
            self._in_writing = set(state.changed)
            try:
                if self._in_writing:
                    await self._journal.write(state.take_changes())
            except BaseException:
                state.changed |= self._in_writing
                raise
            finally:
                self._in_writing = set()

    def _note_time(self, state: AlertState) -> None:
        """Let the counted time be written with every change, and now and then while something may wait."""
        mark, stored = self._clock.mark(), state.clock
        is_old = stored is None or mark.counted_ns - stored.counted_ns >= SAVE_CLOCK_EVERY_NS
        if state.changed or (state.groups and is_old):
            state.clock = mark
            state.changed.add(CLOCK)
