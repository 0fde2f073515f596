"""Incidents of `epicenter run` -> targets, each change once, in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time, time_ns
from typing import Final

import msgspec

from epicenter.rules.alerts.mute_stages import OperatorActions
from epicenter.rules.alerts.state import Planned
from epicenter.rules.errors import DeadLetterKind, PipelineError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter, Delivery, Outcome
from epicenter.rules.model.records import Position
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.notify.load import Alerts
from epicenter.stream.alerts.journal import FileJournal
from epicenter.stream.alerts.opening import dispatcher
from epicenter.stream.alerts.operator_actions import active_actions
from epicenter.stream.local.store_writer import LocalStoreWriter
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

POLL_EVERY_S: Final = 1.0
JOURNAL: Final = "alerts.sqlite"


class LocalNotifier:
    """Delivers in the background. A file in the data folder holds notifications, sent and pending.

    `report` prints a message for the user at the terminal.
    """

    def __init__(
        self,
        settings: Settings,
        alerts: Alerts,
        rules: RuleSet,
        store: Store,
        writer: LocalStoreWriter,
        report: Callable[[str], None],
    ):
        self._store = store
        self._writer = writer
        self._report = report
        self._polled_s = 0.0
        self._is_blind = False
        self._journal = FileJournal(settings.data_dir / JOURNAL)
        self._dispatcher = dispatcher(alerts, rules, self._journal, self)

    @property
    def problem(self) -> str:
        """Why the journal can't be written; empty while it can."""
        return self._journal.fault

    async def open(self) -> None:
        """Restore pending notifications of the last run, and start delivery.

        Raises:
            ConfigError: the journal is unusable.
        """
        await self._dispatcher.open()
        self._dispatcher.start()

    def open_incidents(self) -> list[Incident]:
        """The open incidents that targets were or will be notified of."""
        return self._dispatcher.open_incidents()

    async def process(self, incidents: Iterable[Incident]) -> None:
        """Send the notifications that these revisions cause, and those that are due."""
        revisions = [(incident, Position("alerts", incident.revision)) for incident in incidents]
        if revisions or monotonic() - self._polled_s >= POLL_EVERY_S:
            self._polled_s = monotonic()
            await self._poll_operator_actions()
            await self._dispatcher.observe(revisions)
            await self._journal.flush()
            self._count_pending()

    async def close(self, is_read: bool, patience_s: float = 10.0) -> None:
        """Wait up to `patience_s` for pending deliveries. Once all input `is_read`, groups wait for nothing more."""
        if is_read:
            await self._dispatcher.evaluate(is_last=True)
        await self._dispatcher.close(patience_s)
        is_pending = any(map(self._dispatcher.pending, self._dispatcher.queues))
        if is_pending and not self.problem:
            self._report("some notifications were not delivered; the next run delivers them")
        elif is_pending:
            self._report(f"some notifications were not delivered; read these logs again for them: {self.problem}")
        elif self.problem:
            self._report(f"the next run may send the newest notifications again, with the same ids: {self.problem}")

    async def report(self, deliveries: Sequence[Delivery]) -> None:
        """Store the deliveries, and print the ones that failed."""
        for delivery in deliveries:
            self._writer.queue_delivery(delivery)
            if delivery.outcome in (Outcome.WAITS, Outcome.REFUSED):
                what = "waits" if delivery.outcome is Outcome.WAITS else "can't be delivered"
                self._report(f"a notification {what}: {delivery.target}: {delivery.reason}")

    async def give_up(self, planned: Planned, reason: str) -> None:
        """A dead letter with the incident's revision."""
        value = msgspec.json.encode(planned.notification.incident)
        text = f"{planned.notification.target}: {reason}"
        kind = DeadLetterKind.NOTIFICATION_REFUSED
        self._writer.queue_dead_letter(DeadLetter.of(kind, text, planned.position, value, received_ns=time_ns()))

    def count(self, delivery: Delivery) -> None:
        """Count it in the metrics."""
        self._writer.metrics.record_delivery(delivery, time())

    def _count_pending(self) -> None:
        for name, queue in self._dispatcher.queues.items():
            self._writer.metrics.record_pending(name, self._dispatcher.pending(name), queue.is_failing)

    async def _poll_operator_actions(self) -> None:
        try:
            self._dispatcher.actions = await self._store.query(active_actions)
        except PipelineError as error:
            self._dispatcher.actions = OperatorActions()
            if not self._is_blind:
                self._report(f"silences can't be read, so nothing is muted: {error}")
            self._is_blind = True
        else:
            self._is_blind = False
