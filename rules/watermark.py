"""Event-time progress over several sources: the time before which we expect nothing more."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


class Watermark(msgspec.Struct):
    """Never goes back. A source that lags holds time back; one that has nothing more to read does not.

    `newest_ns` of a source is the newest event time read from it. The watermark stays `lateness_ns` behind the slowest
    source that still has something to read; when none has, it goes on at the pace of the elapsed time.
    """

    lateness_ns: int
    newest_ns_by_source: dict[str, int] = {}
    value_ns: int = 0

    def observe(self, source: str, newest_ns: int | None) -> None:
        """Note the newest event time of a batch from one source."""
        if newest_ns is not None:
            self.newest_ns_by_source[source] = max(newest_ns, self.newest_ns_by_source.get(source, 0))

    def hold(self, lagging: Collection[str]) -> int:
        """The watermark while these sources have more to read."""
        slowest_ns = min((self.newest_ns_by_source.get(source, 0) for source in lagging), default=self._newest_ns)
        return self._raise_to(slowest_ns - self.lateness_ns)

    def idle(self, elapsed_ns: int, at_pace: bool) -> int:
        """The watermark when every source is read to its end and `elapsed_ns` have gone by since the newest record.

        `at_pace`: time goes on while nothing comes. Without it, as for a recording, it stops at the newest record.
        """
        beyond_ns = elapsed_ns - self.lateness_ns
        return self._raise_to(self._newest_ns + (beyond_ns if at_pace else min(beyond_ns, 0)))

    @property
    def _newest_ns(self) -> int:
        return max(self.newest_ns_by_source.values(), default=0)

    def _raise_to(self, time_ns: int) -> int:
        self.value_ns = max(self.value_ns, time_ns)
        return self.value_ns
