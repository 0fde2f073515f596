"""Output for a terminal: log text is sanitized, colours and bars appear only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.text import TextLines
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


def watched(batches: Iterable[Batch], paths: Iterable[str]) -> Iterator[Batch]:
    """The same batches, with a progress bar of bytes on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield from batches
        return
    total_bytes = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total_bytes or None)
        for batch in batches:
            bar.update(task, advance=size_bytes(batch.values))
            yield batch


def size_bytes(values: Sequence[bytes]) -> int:
    """The number of bytes of these lines in their file, computed without splitting the text."""
    return len(values.text) if isinstance(values, TextLines) else sum(map(len, values)) + len(values)
