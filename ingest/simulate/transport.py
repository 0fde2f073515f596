"""What happens to a line between its writing and its file: delay, buffering, loss, doubling, cutting."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from epicenter.ingest.simulate.clockwork import Clockwork
from epicenter.ingest.simulate.model import MS, SimulatedLine, ns
from epicenter.rules.model.times import NS_PER_S

BUFFER_BYTES: Final = 8192
"""What C and Python buffer before they write to a pipe."""
MAX_DELAY_S: Final = 1.5

_LOST, _DOUBLED, _CUT = 0.0001, 0.001, 0.00005
_WINDOW_NS: Final = 5 * NS_PER_S
Wrap = Callable[[int, str], str]


class Channel:
    """One stream of lines of one writer. It keeps their order; its delay changes every five seconds.

    Without `rng` nothing is late, lost, doubled or cut.
    """

    def __init__(self, clockwork: Clockwork, path: str, wrap: Wrap, rng: Random | None):
        self._clockwork = clockwork
        self._path = path
        self._wrap = wrap
        self._rng = rng
        self._window = -1
        self._delay_ns = 0
        self._last_ns = 0
        self._buffered: list[str] = []
        self._buffered_bytes = 0

    def send(self, at_ns: int, text: str) -> None:
        """A line that its writer wrote at once; `at_ns` is true time."""
        rng = self._rng
        if rng is None:
            self._write(at_ns, self._wrap(at_ns, text))
            return
        dice = rng.random()
        if dice < _LOST:
            return
        if dice > 1 - _CUT and len(text) > 40:
            text = text[: rng.randrange(20, len(text))]
        line = self._wrap(at_ns, text)
        self._write(at_ns + self._delay(at_ns, rng), line)
        if _LOST < dice < _LOST + _DOUBLED:
            self._clockwork.write(SimulatedLine(self._last_ns + ns(rng.uniform(0.1, 1)), self._path, line))

    def buffer(self, at_ns: int, text: str) -> None:
        """A line that stays in its writer's buffer until that is full; all its lines get the time of the flush."""
        self._buffered.append(text)
        self._buffered_bytes += len(text) + 1
        if self._buffered_bytes >= BUFFER_BYTES:
            self.release(at_ns)

    def release(self, at_ns: int) -> None:
        """Flush the buffer."""
        for text in self._buffered:
            self.send(at_ns, text)
        self._buffered.clear()
        self._buffered_bytes = 0

    def drop(self) -> None:
        """The writer was killed: its buffer is lost."""
        self._buffered.clear()

    def _write(self, written_ns: int, line: str) -> None:
        self._last_ns = max(self._last_ns, written_ns)
        self._clockwork.write(SimulatedLine(self._last_ns, self._path, line))

    def _delay(self, at_ns: int, rng: Random) -> int:
        if at_ns // _WINDOW_NS != self._window:
            self._window = at_ns // _WINDOW_NS
            self._delay_ns = ns(min(MAX_DELAY_S, rng.lognormvariate(-2.5, 1.0))) + MS
        return self._delay_ns
