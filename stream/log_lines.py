"""Our own log lines, on standard error: for people, or a JSON object a line for whoever collects them.

Text in them may come from logs, brokers and targets: it is made inert, and secrets are taken out.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, Literal

import click
import orjson

from sinks.inert import make_inert

SAID: Final = "epicenter"
"""The logger of what commands say to whoever started them; such a line has no level in front in text."""

FIELDS: Final = ("kind", "group", "topic", "partition", "offset", "incident_id", "target")
"""What a caller may give as `extra`; it stands in JSON beside the message."""

AGAIN_AFTER_S: Final = 60.0
MOST_REMEMBERED: Final = 1_000
LIBRARIES_THAT_WE_SPEAK_FOR: Final = ("aiokafka", "clickhouse_connect", "urllib3")
"""What goes wrong in them comes to us as an error, and is told once, by its name."""


def set_up_logs(log_format: Literal["text", "json"]) -> None:
    """Let every logger of this process, those of libraries too, write its lines to standard error in this form."""
    handler = _ToStandardError()
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    handler.addFilter(NotTooOften())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(SAID).setLevel(logging.INFO)
    hush()


def hush() -> None:
    """Of these libraries nothing but what is critical."""
    for library in LIBRARIES_THAT_WE_SPEAK_FOR:
        logging.getLogger(library).setLevel(logging.CRITICAL)


def say(text: str, level: int = logging.INFO, exc_info: BaseException | None = None) -> None:
    """A message of a command: a line of JSON where that was set up, else the text as it is."""
    if any(isinstance(one.formatter, JsonLines) for one in logging.root.handlers):
        logging.getLogger(SAID).log(level, "%s", text, exc_info=exc_info)
    else:
        if exc_info:
            click.echo(TextLines().trace((type(exc_info), exc_info, exc_info.__traceback__)), err=True)
        click.echo(text, err=True)


class _ToStandardError(logging.Handler):
    """Wherever that leads by then."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write it; who logs is not stopped by a line that can't be put together, such as a library's wrong one."""
        try:
            return bool(super().handle(record))
        except Exception as error:
            told = f"a line of {record.pathname}:{record.lineno} can't be written: {type(error).__name__}"
            lost = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, told, (), None)
            with suppress(OSError, ValueError):
                print(self.format(lost), file=sys.stderr, flush=True)
            return False

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # nobody reads it any more
            print(self.format(record), file=sys.stderr, flush=True)


class _Lines(logging.Formatter):
    """A handler has its formatter alone, so the redactor, which belongs to one thread at a time, is in good hands."""

    def __init__(self) -> None:
        from rules.secret_patterns import load_redactor

        super().__init__()
        self._redactor = load_redactor()

    def _safe(self, text: str, *, multiline: bool = False) -> str:
        redacted = self._redactor.redact(text.encode("utf-8", "replace")).text.decode("utf-8", "replace")
        return make_inert(redacted, multiline=multiline)

    def trace(self, exc_info: Any) -> str:
        """The traceback, if there is one."""
        return self._safe(self.formatException(exc_info), multiline=True) if exc_info and exc_info[0] else ""


class TextLines(_Lines):
    """`2026-03-02T09:00:00.123Z WARNING stream.storing: store is away`, and a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = f"{_time(record)} {record.levelname} {record.name}: {self._safe(record.getMessage())}"
        return "\n".join(filter(None, (line + _times(record), self.trace(record.exc_info))))


class JsonLines(_Lines):
    """The same as an object: time, level, logger, message, what `FIELDS` a caller gave, and a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._safe(record.getMessage()),
        }
        given = {name: value for name in FIELDS if (value := record.__dict__.get(name)) is not None}
        line |= {name: value if isinstance(value, int) else self._safe(str(value)) for name, value in given.items()}
        if repeated := record.__dict__.get("repeated"):
            line["repeated"] = repeated
        if trace := self.trace(record.exc_info):
            line["exception"] = trace
        return orjson.dumps(line).decode()


class NotTooOften(logging.Filter):
    """The same words of one logger come once a minute at most; the next one says how often they were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[tuple[str, str], float] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        words, now_s = (record.name, record.getMessage()), monotonic()
        if record.name != SAID and now_s - self._last_s.get(words, -AGAIN_AFTER_S) < AGAIN_AFTER_S:
            self._left_out[words] = self._left_out.get(words, 0) + 1
            return False
        if len(self._last_s) >= MOST_REMEMBERED:
            self._last_s.clear()
            self._left_out.clear()
        self._last_s[words] = now_s
        record.repeated = self._left_out.pop(words, 0)
        return True


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _times(record: logging.LogRecord) -> str:
    repeated = record.__dict__.get("repeated")
    return f" ({repeated} times more since)" if repeated else ""
