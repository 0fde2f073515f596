"""Output for a terminal: log text is sanitized, colours and bars appear only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import OfSource, Show, Sources
from epicenter.sinks.text.sanitize import sanitize

SEVERITY_STYLES: Final = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "dim"}
MAX_LINE_LENGTH: Final = 220
PATIENCE_S: Final = 1.0
"""What takes longer shows a progress bar."""


def console() -> Console:
    """Standard output: coloured on a terminal, plain in a pipe, never wrapped there."""
    return Console(highlight=False, emoji=False, soft_wrap=True)


def safe(text: object, longest: int = MAX_LINE_LENGTH) -> str:
    """Log text that is safe to print: sanitized, on one line, not too long."""
    shown = sanitize(str(text))
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


@contextmanager
def reading(sources: Sources) -> Iterator[Show]:
    """A progress bar of the bytes of these files, with rate and time left; it gets each batch or part that is read."""
    read: dict[str, int] = {}
    with _bar("reading", sources.size_bytes()) as advance:

        def show(part: OfSource) -> None:
            before, now = read.get(part.source, 0), sources.read_bytes(part.source)
            read[part.source] = now
            advance(now - before)

        yield show


def watched(batches: Iterable[Batch], sources: Sources) -> Iterator[Batch]:
    """The same batches, with a progress bar."""
    with reading(sources) as show:
        for batch in batches:
            show(batch)
            yield batch


@contextmanager
def unpacking(size_bytes: int) -> Iterator[Callable[[int], None]]:
    """A progress bar of an archive of this size; the function gets how many bytes were read so far."""
    shown_bytes = 0
    with _bar("unpacking", size_bytes) as advance:

        def show(read_bytes: int) -> None:
            nonlocal shown_bytes
            advance(read_bytes - shown_bytes)
            shown_bytes = read_bytes

        yield show


@contextmanager
def _bar(what: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """A function that adds to a progress bar. The bar appears if the work takes longer than a second.

    It is drawn on standard error if that is a terminal, and never on standard output.
    """
    if not sys.stderr.isatty():
        yield lambda size_bytes: None
        return
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    task, begun_s = bar.add_task(what, total=total_bytes), monotonic()

    def advance(size_bytes: int) -> None:
        bar.advance(task, size_bytes)
        if not bar.live.is_started and monotonic() - begun_s > PATIENCE_S:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()
