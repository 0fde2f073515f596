"""Our own log lines on standard error, as text or as one JSON object a line."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Final, Literal

import click

LogFormat = Literal["text", "json"]

COMMAND_LOGGER: Final = "epicenter"
"""The logger of what commands say to whoever started them; such a line has no level in front in text."""

SILENT_LIBRARIES: Final = ("aiokafka", "clickhouse_connect", "urllib3")
"""Their failures reach us as exceptions, which we log once."""


def set_up_logs(log_format: LogFormat, *, lazily: bool = False) -> None:
    """Let every logger of this process, those of libraries too, write its lines to standard error in this form.

    What renders them is loaded now, so that the last line of all does not wait for it; lazily: with the first.
    """
    handler = _ToStandardError(log_format)
    if not lazily:
        handler.load()
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(COMMAND_LOGGER).setLevel(logging.INFO)


def say(text: str, level: int = logging.INFO, exc_info: BaseException | None = None) -> None:
    """A message of a command: a line of JSON where that was set up, else the text as it is."""
    if any(isinstance(handler, _ToStandardError) and handler.log_format == "json" for handler in logging.root.handlers):
        logging.getLogger(COMMAND_LOGGER).log(level, "%s", text, exc_info=exc_info)
        return
    if exc_info:
        from epicenter.stream.process.log_chain import traceback_of

        click.echo(traceback_of(exc_info), err=True)
    click.echo(text, err=True)


class _ToStandardError(logging.Handler):
    """Wherever that leads by then."""

    def __init__(self, log_format: LogFormat):
        super().__init__()
        self.log_format = log_format
        self._lines: logging.Formatter | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Of silent libraries only what is critical; a level would not do, since clickhouse_connect sets its own."""
        return record.levelno >= logging.CRITICAL or record.name.partition(".")[0] not in SILENT_LIBRARIES

    def handle(self, record: logging.LogRecord) -> bool:
        """Write it; who logs is not stopped by a line that can't be put together, such as a library's wrong one."""
        try:
            return bool(super().handle(record))
        except Exception as error:
            text = f"a line of {record.pathname}:{record.lineno} can't be written: {type(error).__name__}"
            lost = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, text, (), None)
            with suppress(Exception):
                self.emit(lost)
            return False

    def emit(self, record: logging.LogRecord) -> None:
        """Print it, unless the same was printed a moment ago."""
        from structlog import DropEvent

        with suppress(OSError, DropEvent):  # OSError: the reader is gone
            print(self.format(record), file=sys.stderr, flush=True)

    def format(self, record: logging.LogRecord) -> str:
        """The line; raises DropEvent for one that was printed a moment ago."""
        return self.load().format(record)

    def load(self) -> logging.Formatter:
        """What renders lines, loaded once."""
        if self._lines is None:
            from epicenter.stream.process.log_chain import formatter

            self._lines = formatter(self.log_format)
        return self._lines
