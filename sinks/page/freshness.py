"""The store's state for every page: read seldom, kept while the store is away."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from epicenter.rules.errors import PipelineError
from epicenter.sinks.clickhouse.freshness import StoreState, store_state
from epicenter.sinks.page.live import StoreQuery
from epicenter.sinks.page.render import OLD_AFTER_MS
from epicenter.sinks.text import humanize

READ_EVERY_S: Final = 5.0
OLD_NS: Final = OLD_AFTER_MS * 1_000_000
"""A newest line older than this is no sign of a healthy cluster."""


class Freshness(msgspec.Struct, frozen=True):
    """How old the newest line is, in words. `state` is `new`, `old` or `unknown`."""

    newest_ns: int | None
    now_ns: int

    @property
    def state(self) -> str:
        """Whether "no open incidents" means anything."""
        if self.newest_ns is None:
            return "unknown"
        return "old" if self.now_ns - self.newest_ns > OLD_NS else "new"

    @property
    def newest_ms(self) -> int | str:
        """The newest line's time for scripts; empty if unknown."""
        return "" if self.newest_ns is None else self.newest_ns // 1_000_000

    @property
    def age(self) -> str:
        """`newest line 12 s ago`."""
        known = "not known" if self.newest_ns is None else humanize.ago(self.newest_ns, self.now_ns)
        return f"newest line {known}"

    @property
    def doubt(self) -> str:
        """Why a quiet page is no all-clear: `the newest line is 265 days old`; empty while lines arrive."""
        if self.newest_ns is None:
            return "the newest line is not known"
        return f"the newest line is {humanize.old(self.newest_ns, self.now_ns)} old" if self.state == "old" else ""


class StateReader:
    """Reads the store's state at most every `READ_EVERY_S`."""

    def __init__(self, query: StoreQuery):
        self._query = query
        self._known = StoreState()
        self._read_s = -READ_EVERY_S

    async def read(self) -> StoreState:
        """The state; the last known one while the store is unavailable."""
        if monotonic() - self._read_s >= READ_EVERY_S:
            self._read_s = monotonic()
            with suppress(PipelineError):
                self._known = await self._query(store_state)
        return self._known
