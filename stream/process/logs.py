"""Our own log lines on standard error, as text or as one JSON object a line."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Final, Literal

import click

LogFormat = Literal["text", "json"]

COMMAND_LOGGER: Final = "epicenter"
"""The logger of the commands' messages; as text, such a line has no level in front."""

SILENT_LIBRARIES: Final = ("aiokafka", "clickhouse_connect", "urllib3")
"""Their failures are also exceptions, which epicenter logs once."""


def set_up_logs(log_format: LogFormat, *, lazily: bool = False) -> None:
    """Let every logger of this process, including libraries', write to standard error in this form.

    The renderer is loaded now, so that the last line does not wait for it; with `lazily`, at the first line.
    """
    handler = _ToStandardError(log_format)
    if not lazily:
        handler.load()
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(COMMAND_LOGGER).setLevel(logging.INFO)


def print_message(text: str, level: int = logging.INFO, exc_info: BaseException | None = None) -> None:
    """Print a message of a command on standard error: as JSON if logs are JSON, else as it is."""
    if any(isinstance(handler, _ToStandardError) and handler.log_format == "json" for handler in logging.root.handlers):
        logging.getLogger(COMMAND_LOGGER).log(level, "%s", text, exc_info=exc_info)
        return
    if exc_info:
        from epicenter.stream.process.log_chain import traceback_of

        click.echo(traceback_of(exc_info), err=True)
    click.echo(text, err=True)


class _ToStandardError(logging.Handler):
    """Standard error, as it is at the time of writing."""

    def __init__(self, log_format: LogFormat):
        super().__init__()
        self.log_format = log_format
        self._lines: logging.Formatter | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop lines of silent libraries unless critical. A level is not enough: clickhouse_connect sets its own."""
        return record.levelno >= logging.CRITICAL or record.name.partition(".")[0] not in SILENT_LIBRARIES

    def handle(self, record: logging.LogRecord) -> bool:
        """Write the line. A line that can't be formatted, such as a library's, does not stop the program."""
        try:
            return bool(super().handle(record))
        except Exception as error:
            text = f"a line of {record.pathname}:{record.lineno} can't be written: {type(error).__name__}"
            lost = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, text, (), None)
            with suppress(Exception):
                self.emit(lost)
            return False

    def emit(self, record: logging.LogRecord) -> None:
        """Print it, unless the same was printed within the last minute."""
        from structlog import DropEvent

        with suppress(OSError, DropEvent):  # OSError: no one reads standard error any more
            print(self.format(record), file=sys.stderr, flush=True)

    def format(self, record: logging.LogRecord) -> str:
        """The line; raises DropEvent if the same was printed within the last minute."""
        return self.load().format(record)

    def load(self) -> logging.Formatter:
        """The renderer, loaded once."""
        if self._lines is None:
            from epicenter.stream.process.log_chain import formatter

            self._lines = formatter(self.log_format)
        return self._lines
