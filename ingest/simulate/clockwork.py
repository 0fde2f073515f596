"""Simulated time: processes that wait and resume, and lines in the order of their writing.

A process is a generator that yields the seconds it waits. It may only write lines of now or later.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import heappop, heappush

from epicenter.ingest.simulate.model import SimulatedLine, ns

Process = Generator[float, None, None]


class Clockwork:
    """Runs processes in the order of their time; equal times keep the order of their calls."""

    def __init__(self, start_ns: int):
        self.now_ns = start_ns
        self._waiting: list[tuple[int, int, Process]] = []
        self._lines: list[tuple[int, int, SimulatedLine]] = []
        self._count = 0

    def start(self, process: Process, after_s: float = 0.0) -> None:
        """Start a process this many seconds from now."""
        self._wait(process, self.now_ns + ns(after_s))

    def write(self, line: SimulatedLine) -> None:
        """Queue a line until its time."""
        self._count += 1
        heappush(self._lines, (line.written_ns, self._count, line))

    def run(self, end_ns: int) -> Iterator[SimulatedLine]:
        """All lines up to the end, in the order of their writing."""
        while self._waiting and self._waiting[0][0] < end_ns:
            self.now_ns, _, process = heappop(self._waiting)
            yield from self._written_before(self.now_ns)
            wait_s = next(process, None)
            if wait_s is not None:
                self._wait(process, self.now_ns + ns(wait_s))
        yield from self._written_before(end_ns)

    def _wait(self, process: Process, until_ns: int) -> None:
        self._count += 1
        heappush(self._waiting, (until_ns, self._count, process))

    def _written_before(self, time_ns: int) -> Iterator[SimulatedLine]:
        while self._lines and self._lines[0][0] < time_ns:
            yield heappop(self._lines)[2]
