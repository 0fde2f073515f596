"""Output for a terminal: log text is sanitized, colours and bars appear only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.collect.files import is_packed, log_files
from epicenter.sinks.text.sanitize import sanitize

SEVERITY_STYLES: Final = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "dim"}
MAX_LINE_LENGTH: Final = 220


def console() -> Console:
    """Standard output: coloured on a terminal, plain in a pipe, never wrapped there."""
    return Console(highlight=False, emoji=False, soft_wrap=True)


def safe(text: object, longest: int = MAX_LINE_LENGTH) -> str:
    """Log text that is safe to print: sanitized, on one line, not too long."""
    shown = sanitize(str(text))
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


@contextmanager
def reading(paths: Iterable[str]) -> Iterator[Callable[[Batch], None]]:
    """A progress bar of the bytes of these files and folders, with rate and time left; it gets each batch that is read.

    It is drawn on standard error if that is a terminal, and never on standard output.
    """
    if not sys.stderr.isatty():
        yield lambda batch: None
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    shown = Console(stderr=True)
    with Progress(*columns, console=shown, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("reading", total=_total_bytes(paths))
        yield lambda batch: bar.update(task, advance=size_bytes(batch.values))


def watched(batches: Iterable[Batch], paths: Iterable[str]) -> Iterator[Batch]:
    """The same batches, with a progress bar."""
    with reading(paths) as show:
        for batch in batches:
            show(batch)
            yield batch


def _total_bytes(paths: Iterable[str]) -> int | None:
    """The bytes to read; None if they are not known, as for a pipe or a packed file."""
    names = [Path(path) for path in paths]
    files = [file for name in names for file in (log_files(name) if name.is_dir() else [name])]
    if not files or any(is_packed(file) or not file.is_file() for file in files):
        return None
    return sum(file.stat().st_size for file in files)


def size_bytes(values: Sequence[bytes]) -> int:
    """The number of bytes of these lines in their file, computed without splitting the text."""
    return len(values.text) if isinstance(values, TextLines) else sum(map(len, values)) + len(values)
