"""Incidents of `epicenter run` -> their targets, each piece of news once, beside the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time, time_ns
from typing import Final

import msgspec

from epicenter.rules.alerts.muting import OperatorActions
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
    """Delivers in the background; a file in the data folder holds what was told, and what is still to be told.

    `say` is for what people at the terminal should know.
    """

    def __init__(
        self,
        settings: Settings,
        alerts: Alerts,
        rules: RuleSet,
        store: Store,
        writer: LocalStoreWriter,
        say: Callable[[str], None],
    ):
        self._store = store
        self._writer = writer
        self._say = say
        self._polled_s = 0.0
        self._is_blind = False
        self._dispatcher = dispatcher(alerts, rules, FileJournal(settings.data_dir / JOURNAL), self)

    async def open(self) -> None:
        """Take up what the last run left, and begin to deliver.

        Raises:
            ConfigError: the journal can't be used.
        """
        await self._dispatcher.open()
        self._dispatcher.start()

    async def process(self, incidents: Iterable[Incident]) -> None:
        """Tell what these revisions give to tell, and what is due by now."""
        revisions = [(incident, Position("alerts", incident.revision)) for incident in incidents]
        if revisions or monotonic() - self._polled_s >= POLL_EVERY_S:
            self._polled_s = monotonic()
            await self._poll_operator_actions()
            await self._dispatcher.observe(revisions)
            self._count_pending()

    async def close(self, is_read: bool, patience_s: float = 10.0) -> None:
        """Wait a little for what is still to be delivered; when all `is_read`, nothing waits for more to come."""
        if is_read:
            await self._dispatcher.evaluate(is_last=True)
        await self._dispatcher.close(patience_s)
        if any(map(self._dispatcher.pending, self._dispatcher.queues)):
            self._say("some notifications were not delivered; they are kept, and the next run delivers them")

    async def note(self, deliveries: Sequence[Delivery]) -> None:
        """For the store; at the terminal, what did not go well."""
        for delivery in deliveries:
            self._writer.note_delivery(delivery)
            if delivery.outcome in (Outcome.WAITS, Outcome.REFUSED):
                what = "waits" if delivery.outcome is Outcome.WAITS else "can't be delivered"
                self._say(f"a notification {what}: {delivery.target}: {delivery.reason}")

    async def give_up(self, planned: Planned, reason: str) -> None:
        """A dead letter with the incident's revision."""
        value = msgspec.json.encode(planned.notification.incident)
        text = f"{planned.notification.target}: {reason}"
        kind = DeadLetterKind.NOTIFICATION_REFUSED
        self._writer.note_dead_letter(DeadLetter.of(kind, text, planned.position, value, received_ns=time_ns()))

    def count(self, delivery: Delivery) -> None:
        """In the metrics."""
        self._writer.metrics.note_delivery(delivery, time())

    def _count_pending(self) -> None:
        for name, queue in self._dispatcher.queues.items():
            self._writer.metrics.note_pending(name, self._dispatcher.pending(name), queue.is_away)

    async def _poll_operator_actions(self) -> None:
        try:
            self._dispatcher.actions = await self._store.ask(active_actions)
        except PipelineError as error:
            self._dispatcher.actions = OperatorActions()
            if not self._is_blind:
                self._say(f"silences can't be read, so everything is told: {error}")
            self._is_blind = True
        else:
            self._is_blind = False
