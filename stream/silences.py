"""What people do not want to hear of: the silences in the store, and which notifications they keep back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Final

from msgspec import to_builtins

from rules.errors import ConfigError, PipelineError
from rules.model import Delivery, Notification
from rules.silenced import Silence, silenced_by
from sinks.clickhouse.said import list_silences
from stream.settings import Settings
from stream.store import Store

WEBHOOK: Final = "webhook"
"""The target's name; its address may hold a secret."""


class Silencing:
    """Says what is kept back now. What a silence fits is told by the first revision after its end."""

    def __init__(self) -> None:
        self._noted = set[str]()

    def keeps_back(self, notification: Notification, silences: Sequence[Silence]) -> list[Delivery] | None:
        """None when it may be told, else what is to be noted of it.

        That is one delivery for each notification and silence, however many revisions come meanwhile.
        """
        silence = silenced_by(silences, to_builtins(notification.incident), time_ns())
        if silence is None:
            return None
        key = f"{notification.notification_id}/{silence.silence_id}"
        if key in self._noted:
            return []
        self._noted.add(key)
        return [delivery(notification, "silenced", f"by {silence.who}: {silence.reason}")]


class StoredSilences:
    """A worker's silences as they were at the last look; none when the store was away, so that everything is told.

    `say` hears of that once, and again when the store was back meanwhile. An embedded store is read only beside the
    service that writes it: to open it would take it from the process that does. `are_known` is set by the first look.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]):
        is_elsewhere = settings.store_dsn.startswith("chdb:") and "store" not in settings.services
        self._store = None if is_elsewhere else Store(settings.store_dsn)
        self._say = say
        self._is_away = False
        self.newest: Sequence[Silence] = ()
        self.are_known = asyncio.Event()

    async def look(self) -> None:
        """Ask the store."""
        try:
            self.newest = await self._read()
        except PipelineError as error:
            self.newest = ()
            if not self._is_away:
                self._say(f"silences can't be read, so everything is told: {error}")
            self._is_away = True
        else:
            self._is_away = False
        self.are_known.set()

    async def close(self) -> None:
        """Let go of the store."""
        if self._store:
            await self._store.close()

    async def _read(self) -> Sequence[Silence]:
        if self._store is None:
            raise ConfigError(["the embedded store is another worker's: set `store`, or add `store` to `services`"])
        now_ns = time_ns()
        return await self._store.ask(lambda client: list_silences(client, ending_after_ns=now_ns))


def delivery(notification: Notification, outcome: str, reason: str = "") -> Delivery:
    """What became of a notification just now."""
    return Delivery(
        notification_id=notification.notification_id,
        target=WEBHOOK,
        outcome=outcome,
        incident_id=notification.incident.incident_id,
        revision=notification.incident.revision,
        kind=notification.kind,
        event_time=notification.event_time,
        reason=reason,
        decided_ns=time_ns(),
    )
