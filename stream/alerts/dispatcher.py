"""Incidents -> messages at their targets: the planner's decisions, kept in a journal, delivered by one lane a target.

What is planned is kept before it is sent, and what is sent is noted after: killed between the two, a process sends that
one again, with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import time_ns
from typing import Final, Protocol

from aiokafka.errors import KafkaError

from epicenter.rules.alerts.muting import EvaluationContext, OperatorActions
from epicenter.rules.alerts.planner import Planner
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.state import GROUP, AlertState, Group, Planned
from epicenter.rules.errors import PipelineError, TransientError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.rules.model.records import Position
from epicenter.sinks.log import get_logger
from epicenter.sinks.notify.target import MessageRef, Target
from epicenter.stream.alerts.journal import Journal
from epicenter.stream.alerts.target_queue import TargetQueue
from epicenter.stream.process.shutdown import FOR_TARGETS_S, SHUTDOWN

log: Final = get_logger(__name__)
UNKNOWN_TARGET: Final = "alerts no longer name this target"
SHORT_S: Final = 0.05
IN_HAND_S: Final = 15.0
"""Longer than a target takes to answer, or not to; shorter when the process has been told to end."""

IN_HAND_AT_THE_END_S: Final = 2.0


class DeliveryLog(Protocol):
    """Where a dispatcher's account goes."""

    async def note(self, deliveries: Sequence[Delivery]) -> None:
        """For the store."""

    async def give_up(self, planned: Planned, reason: str) -> None:
        """A notification that its target never takes becomes a dead letter."""

    def count(self, delivery: Delivery) -> None:
        """For the metrics."""


class Dispatcher:
    """Tells what incidents give to tell. `take` returns when the news are kept; lanes deliver beside it."""

    def __init__(
        self,
        routing: Routing,
        targets: dict[str, Target],
        is_liveness: Callable[[Incident], bool],
        journal: Journal,
        delivery_log: DeliveryLog,
        clock_ns: Callable[[], int] = time_ns,
    ):
        self._routing = routing
        self._is_liveness = is_liveness
        self._journal = journal
        self._delivery_log = delivery_log
        self._clock_ns = clock_ns
        self._writing = asyncio.Lock()
        self._in_writing: set[str] = set()
        self._untold: list[Delivery] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.actions = OperatorActions()
        self._targets = targets
        self.queues = {name: TargetQueue(target, self, clock_ns) for name, target in targets.items()}

    async def open(self) -> None:
        """Take up what was known. What waits for a target that is gone is given up."""
        state, unreadable = AlertState.restored(await self._journal.load())
        for key in unreadable:
            log.error("alert_journal_entry_skipped", key=key, detail="no record of ours")
        self._planner = Planner(self._routing, self._is_liveness, state)
        for group in [group for group in state.groups.values() if group.route_target.target not in self.queues]:
            while group.pending:
                await self.note_refused(group, UNKNOWN_TARGET)
            self._planner.forget(group)

    def start(self) -> None:
        """Begin to deliver."""
        self._tasks = [asyncio.create_task(queue.run(), name=name) for name, queue in self.queues.items()]

    async def take(self, incidents: Iterable[tuple[Incident, Position]]) -> None:
        """Revisions in their order. When this returns, what they give to tell outlives a crash.

        Raises:
            PipelineError, KafkaError: the journal is away; the revisions have to come again.
        """
        for incident, position in incidents:
            self._planner.observe(incident, position, EvaluationContext(self._clock_ns(), self.actions))
        await self.look()

    async def look(self, is_last: bool = False) -> None:
        """Time went on, or people said something."""
        for decision in self._planner.advance(EvaluationContext(self._clock_ns(), self.actions, is_last)):
            self._account(decision)
        await self._report()
        await self._save()
        for queue in self.queues.values():
            queue.wake()

    def pending(self, target: str) -> int:
        """How many notifications wait for the target."""
        return sum(len(group.pending) for group in self._with_pending(target))

    async def close(self, patience_s: float = 0.0) -> None:
        """Stop after the deliveries in hand; first wait a little for what is still to be delivered. It is kept anyway.

        Raises:
            PipelineError, KafkaError: the journal is away.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN.left_s(patience_s, FOR_TARGETS_S + IN_HAND_AT_THE_END_S)):
                while any(map(self.pending, self.queues)):
                    await asyncio.sleep(SHORT_S)
        for queue in self.queues.values():
            queue.stop()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=SHUTDOWN.left_s(IN_HAND_S, FOR_TARGETS_S))
            for task in left:
                task.cancel()
        await asyncio.gather(*(target.close() for target in self._targets.values()))
        await self._report()
        await self._save()
        await self._journal.close()

    def waiting(self, target: str) -> list[Group]:
        """Groups with something for the target, as far as that is kept."""
        unkept = self._planner.state.changed | self._in_writing
        return [group for group in self._with_pending(target) if GROUP + group.key not in unkept]

    def _with_pending(self, target: str) -> list[Group]:
        groups = self._planner.state.groups.values()
        return [group for group in groups if group.pending and group.route_target.target == target]

    def open_groups(self, target: str) -> list[Group]:
        """Groups of the target that are not over."""
        groups = self._planner.state.groups.values()
        return [group for group in groups if group.route_target.target == target and group.is_open]

    async def note_sent(self, group: Group, message_ref: MessageRef) -> None:
        """The target has the group's first notification."""
        self._account(self._delivery(group.pending[0], Outcome.SENT))
        self._planner.note_sent(group, message_ref)
        await self._keep_soon()

    async def note_refused(self, group: Group, reason: str) -> None:
        """The target will never take it.

        Raises:
            TransientError: its dead letter can't be kept now; it still waits.
        """
        try:
            await self._delivery_log.give_up(group.pending[0], reason)
        except KafkaError as error:
            raise TransientError(f"a dead letter can't be kept: {error!r}") from error
        self._account(self._delivery(group.pending[0], Outcome.REFUSED, reason))
        self._planner.note_refused(group)
        await self._keep_soon()

    async def note_waits(self, group: Group, reason: str) -> None:
        """The target is away."""
        self._account(self._delivery(group.pending[0], Outcome.WAITS, reason))
        await self._keep_soon()

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
            decided_ns=self._clock_ns(),
        )

    def _account(self, delivery: Delivery) -> None:
        self._delivery_log.count(delivery)
        self._untold.append(delivery)

    async def _keep_soon(self) -> None:
        """Now, or with the next look when Kafka or the disk is away."""
        with suppress(PipelineError, KafkaError):
            await self._report()
            await self._save()

    async def _report(self) -> None:
        if not self._untold:
            return
        taken, self._untold = self._untold, []
        try:
            await self._delivery_log.note(taken)
        except BaseException:
            self._untold = taken + self._untold
            raise

    async def _save(self) -> None:
        async with self._writing:
            state = self._planner.state
            self._in_writing = set(state.changed)
            try:
                if self._in_writing:
                    await self._journal.write(state.take_changes())
            except BaseException:
                state.changed |= self._in_writing
                raise
            finally:
                self._in_writing = set()
