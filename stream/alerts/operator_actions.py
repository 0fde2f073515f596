"""Silences and acknowledgements in force, read from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time_ns
from typing import Final

from epicenter.rules.alerts.mute_stages import OperatorActions
from epicenter.rules.errors import ConfigError, PipelineError
from epicenter.rules.model.times import duration_ns
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.operator_actions import active_acknowledgements, list_acknowledgements, list_silences
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

MAX_LOOKBACK_NS: Final = duration_ns("30d")
"""Acknowledgements older than this no longer count."""


def active_actions(client: Client) -> OperatorActions:
    """The actions in force; of an incident's acknowledgements the newest, unless that one is withdrawn."""
    now_ns = time_ns()
    acknowledgements = list_acknowledgements(client, given_after_ns=now_ns - MAX_LOOKBACK_NS)
    return OperatorActions(list_silences(client, ending_after_ns=now_ns), active_acknowledgements(acknowledgements))


class StoredActions:
    """The actions at the last refresh. Empty while the store is unreachable, so that nothing is muted.

    `report` gets one message each time the store becomes unreachable. An embedded store is read only by the process
    that writes it, because only one process can open it. `is_known` is set by the first refresh.
    """

    def __init__(self, settings: Settings, report: Callable[[str], None]):
        is_elsewhere = settings.store_dsn.startswith("chdb:") and "store" not in settings.services
        self._store = None if is_elsewhere else Store(settings.store_dsn)
        self._report = report
        self._is_unreachable = False
        self.newest = OperatorActions()
        self.is_known = asyncio.Event()

    async def refresh(self) -> None:
        """Read the store."""
        try:
            self.newest = await self._read()
        except PipelineError as error:
            self.newest = OperatorActions()
            if not self._is_unreachable:
                self._report(f"silences can't be read, so nothing is muted: {error}")
            self._is_unreachable = True
        else:
            self._is_unreachable = False
        self.is_known.set()

    async def close(self) -> None:
        """Release the store."""
        if self._store:
            await self._store.close()

    async def _read(self) -> OperatorActions:
        if self._store is None:
            raise ConfigError(["another worker has the embedded store open: set `store`, or add `store` to `services`"])
        return await self._store.query(active_actions)
