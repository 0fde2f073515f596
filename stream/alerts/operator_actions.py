"""Silences and acknowledgements in force, read from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time_ns
from typing import Final

from epicenter.rules.alerts.muting import OperatorActions
from epicenter.rules.errors import ConfigError, PipelineError
from epicenter.rules.model.times import duration_ns
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.operator_actions import active_acknowledgements, list_acknowledgements, list_silences
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

LOOKED_BACK_NS: Final = duration_ns("30d")


def active_actions(client: Client) -> OperatorActions:
    """The actions in force; of an incident's acknowledgements the newest, unless that one is withdrawn."""
    now_ns = time_ns()
    acknowledgements = list_acknowledgements(client, given_after_ns=now_ns - LOOKED_BACK_NS)
    return OperatorActions(list_silences(client, ending_after_ns=now_ns), active_acknowledgements(acknowledgements))


class StoredActions:
    """A worker's view of the actions at the last refresh; empty while the store is away, so that nothing is muted.

    `say` gets one message for each time the store goes away. An embedded store is read only beside the
    service that writes it: to open it would take it from the process that does. `is_known` is set by the first refresh.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]):
        is_elsewhere = settings.store_dsn.startswith("chdb:") and "store" not in settings.services
        self._store = None if is_elsewhere else Store(settings.store_dsn)
        self._say = say
        self._is_away = False
        self.newest = OperatorActions()
        self.is_known = asyncio.Event()

    async def refresh(self) -> None:
        """Read the store."""
        try:
            self.newest = await self._read()
        except PipelineError as error:
            self.newest = OperatorActions()
            if not self._is_away:
                self._say(f"silences can't be read, so nothing is muted: {error}")
            self._is_away = True
        else:
            self._is_away = False
        self.is_known.set()

    async def close(self) -> None:
        """Release the store."""
        if self._store:
            await self._store.close()

    async def _read(self) -> OperatorActions:
        if self._store is None:
            raise ConfigError(["the embedded store is another worker's: set `store`, or add `store` to `services`"])
        return await self._store.query(active_actions)
