"""Large files through several processes, for `match`: the same matches in the same order.

A file is cut at ends of lines, and a process scans a part as if nothing came before it. That is exact unless the part
before ends within a block or a container's cut line: this process then scans both once more. What `match` prints does
not depend on times, so a part needs nothing else of those before. Processes share the compiled rules by being forks.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from multiprocessing.connection import Connection
from time import time_ns
from typing import Final, NamedTuple, Self

import msgspec

from epicenter.ingest.collect.files import FileSource, Part
from epicenter.ingest.collect.lines import LineCutter
from epicenter.ingest.collect.source import Show, Source, Sources, read_source
from epicenter.rules.model.records import Match, Position
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner, ScanResult

PART_BYTES: Final = 8 << 20
MIN_BYTES: Final = 64 << 20
"""Less than this takes no longer to scan than processes take to start."""

MAX_PROCESSES: Final = 8
AHEAD: Final = 2
"""A process has at most this many parts to do, so that it is not idle while results are printed."""


class _Scanned(NamedTuple):
    """The results of a part whose lines are numbered from 1. `is_whole`: it ends within nothing."""

    results: list[ScanResult]
    lines: int
    is_whole: bool


def processes_for(sources: Sources) -> int:
    """How many processes are worth their start; 0 if none is."""
    sizes = (source.size_bytes() for source in sources.all() if isinstance(source, FileSource) and source.is_plain)
    cores = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    return cores if cores > 1 and sum(sizes) >= MIN_BYTES else 0


def scan_in_parts(sources: Sources, scanner: BatchScanner, processes: int, show: Show) -> Iterator[ScanResult]:
    """What the scanner finds in finished sources, as `BlockBuffer.scan_all`; `show` gets what was read."""
    own = _Own(sources, BlockBuffer(scanner), show)
    for source in sources.all():
        if isinstance(source, FileSource) and source.is_plain:
            source.inspect_ends(time_ns())
    with _Processes(processes, lambda part: _scanned(sources, scanner, part)) as pool:
        for item, scanned in pool.in_order(_parts(sources)):
            yield from own.results(item, scanned)
    yield from (scanned for _, scanned in own.buffer.rest())


def _parts(sources: Sources) -> Iterator[Part | Source]:
    """The parts of plain files; other sources whole."""
    for source in sources.all():
        if isinstance(source, FileSource) and source.is_plain:
            yield from source.parts(PART_BYTES)
        else:
            yield source


def _scanned(sources: Sources, scanner: BatchScanner, part: Part) -> _Scanned:
    """What a process sends back."""
    source = sources.named(part.source)
    assert isinstance(source, FileSource)
    cutter, buffer = LineCutter(lines_before=0 if part.start else None), BlockBuffer(scanner)
    results = [_printed(buffer.scan(batch)) for batch in source.read_part(part, cutter, time_ns())]
    return _Scanned(results, cutter.lines, not (buffer.waiting or cutter.is_waiting))


def _printed(scanned: ScanResult) -> ScanResult:
    """As much of the result as `match` needs."""
    return ScanResult(
        scanned.records, scanned.matched, scanned.dead, scanned.harmless, None, scanned.matches,
        dead_letters=scanned.dead_letters,
    )  # fmt: skip


class _Own:
    """What this process does: it numbers the results of the others, and scans what they can't."""

    def __init__(self, sources: Sources, buffer: BlockBuffer, show: Show):
        self.buffer = buffer
        self._sources = sources
        self._show = show
        self._lines = 0
        self._cutter: LineCutter | None = None

    def results(self, item: Part | Source, scanned: _Scanned | None) -> Iterator[ScanResult]:
        """The results of a part or of a whole source. Without those of a process, this one scans it."""
        if not isinstance(item, Part):
            for batch in read_source(item):
                self._show(batch)
                yield self.buffer.scan(batch)
            return
        if not item.start:
            self._lines, self._cutter = 0, None
        source = self._sources.named(item.source)
        assert isinstance(source, FileSource)
        source.skip_to(item)
        self._show(item)
        if source.fault:
            return
        if self._cutter is None and scanned and scanned.is_whole:
            yield from (_numbered_from(self._lines, result) for result in scanned.results)
            self._lines += scanned.lines
            return
        cutter = self._cutter or LineCutter(lines_before=self._lines if item.start else None)
        try:
            yield from map(self.buffer.scan, source.read_part(item, cutter, time_ns()))
        except OSError as error:
            source.record_fault(error)
        self._lines = cutter.lines
        is_whole = not (cutter.is_waiting or item.source in self.buffer.waiting)
        self._cutter = None if is_whole else cutter


def _numbered_from(lines: int, scanned: ScanResult) -> ScanResult:
    """The results of a part before which there are so many lines."""
    if lines:
        scanned.matches = [_moved(match, lines) for match in scanned.matches]
        scanned.dead_letters = [
            msgspec.structs.replace(dead, position=_later(dead.position, lines)) for dead in scanned.dead_letters
        ]
    return scanned


def _moved(match: Match, lines: int) -> Match:
    event = msgspec.structs.replace(match.event, position=_later(match.event.position, lines))
    return msgspec.structs.replace(match, event=event)


def _later(position: Position, lines: int) -> Position:
    return Position(position.source, position.offset + lines)


class _Processes:
    """Forks that work on parts in turn. They end with this process, however it ends."""

    def __init__(self, count: int, work: Callable[[Part], _Scanned]):
        self._work = work
        self._processes: list[multiprocessing.context.ForkProcess] = []
        self._connections: list[Connection] = []
        self._count = count

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("fork")
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()
        for _ in range(self._count):
            ours, theirs = context.Pipe()
            self._connections.append(ours)
            process = context.Process(target=_serve, args=(theirs, tuple(self._connections), self._work), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
        gc.unfreeze()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.kill()
            process.join()

    def in_order(self, items: Iterator[Part | Source]) -> Iterator[tuple[Part | Source, _Scanned | None]]:
        """Each item with its results, in order; None for other sources than parts, and if the process ended."""
        under_way: deque[tuple[Connection, Part | Source]] = deque()
        for connection, item in zip(cycle(self._connections), items, strict=False):
            if len(under_way) == AHEAD * self._count:
                yield _received(*under_way.popleft())
            if isinstance(item, Part):
                with suppress(OSError):
                    connection.send(item)
            under_way.append((connection, item))
        while under_way:
            yield _received(*under_way.popleft())


def _received(connection: Connection, item: Part | Source) -> tuple[Part | Source, _Scanned | None]:
    try:
        return item, connection.recv() if isinstance(item, Part) else None
    except (EOFError, OSError):
        return item, None


def _serve(connection: Connection, of_parent: tuple[Connection, ...], work: Callable[[Part], _Scanned]) -> None:
    """Work on parts until there are no more. An error is no result: the parent meets it too, and reports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in of_parent:
        other.close()
    with suppress(EOFError, OSError):
        while True:
            part = connection.recv()
            try:
                scanned = work(part)
            except Exception:
                scanned = None
            connection.send(scanned)
