"""Event-time progress over several sources: the time before which no more events are expected."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S

MAX_KEPT_MINUTES: Final = 10
MINUTES_TO_LEARN: Final = 2
MIN_WAIT_NS: Final = NS_PER_S // 10


class Watermark(msgspec.Struct):
    """Never goes back. A source that lags holds it back; a source without more to read does not.

    `front_ns` is the newest event time of the slowest source that still has something to read. If no source has, time
    advances with the elapsed time. The watermark stays `lateness_ns` behind the front. For live lines (`is_live`) it
    stays only as far behind as recent late lines needed (`needed_ns_by_minute`, over the newest ten minutes with
    lines). `newest_ns` is the newest event time of all sources, 0 without any.
    """

    lateness_ns: int
    newest_ns_by_source: dict[str, int] = {}
    value_ns: int = 0
    is_live: bool = False
    front_ns: int = 0
    needed_ns_by_minute: dict[int, int] = {}
    newest_ns: int = 0

    def __post_init__(self) -> None:
        """An older snapshot has no newest time."""
        self.newest_ns = max(self.newest_ns, max(self.newest_ns_by_source.values(), default=0))

    def observe(self, source: str, newest_ns: int | None) -> None:
        """Record the newest event time of a batch from one source."""
        if newest_ns is not None:
            self.newest_ns = max(self.newest_ns, newest_ns)
            self.newest_ns_by_source[source] = max(newest_ns, self.newest_ns_by_source.get(source, 0))

    def learn(self, times_ns: Iterable[int]) -> None:
        """Record how far behind the front these events came, except those beyond the allowed lateness."""
        behind_ns = [self.front_ns - time_ns for time_ns in times_ns]
        needed_ns = max((lag_ns for lag_ns in behind_ns if lag_ns <= self.lateness_ns), default=None)
        if needed_ns is None:
            return
        minute = self.front_ns // (60 * NS_PER_S)
        needed = self.needed_ns_by_minute
        needed[minute] = max(needed_ns, needed.get(minute, 0))
        while len(needed) > MAX_KEPT_MINUTES:
            del needed[min(needed)]

    @property
    def wait_ns(self) -> int:
        """How far the watermark stays behind: 1.5 times what was needed recently, at most `lateness_ns`."""
        needed = self.needed_ns_by_minute
        if not self.is_live or len(needed) <= MINUTES_TO_LEARN:
            return self.lateness_ns
        return min(self.lateness_ns, max(MIN_WAIT_NS, max(needed.values()) * 3 // 2))

    def hold(self, lagging: Collection[str]) -> int:
        """The watermark while these sources have more to read."""
        slowest_ns = min((self.newest_ns_by_source.get(source, 0) for source in lagging), default=self.newest_ns)
        self.front_ns = max(self.front_ns, slowest_ns)
        return self._raise_to(slowest_ns - self.wait_ns)

    def idle(self, elapsed_ns: int, at_pace: bool) -> int:
        """The watermark when every source is read to its end, `elapsed_ns` after the newest record arrived.

        `at_pace`: time advances without new records. Otherwise, as for a recording, it stops at the newest record.
        """
        self.front_ns = max(self.front_ns, self.newest_ns + (elapsed_ns if at_pace else 0))
        beyond_ns = elapsed_ns - self.wait_ns
        return self._raise_to(self.newest_ns + (beyond_ns if at_pace else min(beyond_ns, 0)))

    def _raise_to(self, time_ns: int) -> int:
        self.value_ns = max(self.value_ns, time_ns)
        return self.value_ns
