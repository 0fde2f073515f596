"""The steps of a log line, ours or a library's: limited, redacted, sanitized, rendered.

Each step is a structlog processor. Text in lines may come from logs, brokers and targets.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

import orjson
import structlog
from structlog.processors import LogfmtRenderer
from structlog.typing import EventDict, Processor

from epicenter.rules.redact.load import load_redactor
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.process.logs import COMMAND_LOGGER, LogFormat

AGAIN_AFTER_S: Final = 60.0
MAX_REMEMBERED: Final = 1_000

_logfmt: Final = LogfmtRenderer()


def formatter(log_format: LogFormat) -> logging.Formatter:
    """A formatter for one handler. It holds a redactor, which belongs to one thread at a time, as handlers do.

    `format` raises `structlog.DropEvent` for a line that was logged within the last minute.
    """
    traceback = structlog.processors.format_exc_info
    steps: list[Processor] = [RepeatLimiter(), add_origin, name_bad_request, traceback, Sanitizer()]
    return structlog.stdlib.ProcessorFormatter(processors=[*steps, RENDERERS[log_format]])


class RepeatLimiter:
    """Drops a line if one with the same fields came within the last minute; the next has their number (`repeated`)."""

    def __init__(self) -> None:
        self._last_s: dict[tuple[str, str], float] = {}
        self._dropped: dict[tuple[str, str], int] = {}

    def __call__(self, logger: Any, method: str, line: EventDict) -> EventDict:
        """The line, or DropEvent."""
        record: logging.LogRecord = line["_record"]
        if record.name == COMMAND_LOGGER:
            return line
        key = record.name, repr(sorted((name, str(line[name])) for name in line if name not in NOT_TEXT))
        now_s = monotonic()
        if now_s - self._last_s.get(key, -AGAIN_AFTER_S) < AGAIN_AFTER_S:
            self._dropped[key] = self._dropped.get(key, 0) + 1
            raise structlog.DropEvent
        if len(self._last_s) >= MAX_REMEMBERED:
            self._last_s.clear()
            self._dropped.clear()
        self._last_s[key] = now_s
        repeated = self._dropped.pop(key, 0)
        return {**line, "repeated": repeated} if repeated else line


HTTP_MISTAKES: Final = "aiohttp.http_exceptions"
"""The module of what aiohttp finds wrong with a request; most commands never load it."""

NOT_TEXT: Final = {"_record", "_from_structlog", "exc_info", "stack_info"}


def add_origin(logger: Any, method: str, line: EventDict) -> EventDict:
    """With time (UTC), level and logger in front; a library's text becomes `message`, our event name stays `event`."""
    record: logging.LogRecord = line.pop("_record")
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if not line.pop("_from_structlog"):
        line = {"message": line.pop("event"), **line}
    line.pop("stack_info", None)
    return {"time": time, "level": record.levelname.lower(), "logger": record.name, **line}


def name_bad_request(logger: Any, method: str, line: EventDict) -> EventDict:
    """A malformed HTTP request is its sender's mistake: a warning with its reason, and no traceback."""
    error = line["exc_info"][1] if isinstance(line.get("exc_info"), tuple) else None
    if type(error).__module__ != HTTP_MISTAKES:
        return line
    del line["exc_info"]
    return {**line, "level": "warning", "message": f"{line['message']}: {str(error).strip()}"}


class Sanitizer:
    """Removes secrets and control characters from every value; a traceback keeps its lines."""

    def __init__(self) -> None:
        self._redactor = load_redactor()

    def __call__(self, logger: Any, method: str, line: EventDict) -> EventDict:
        """The line, with numbers as they are and everything else as text."""
        return {
            name: value if isinstance(value, int | float) else self._safe(str(value), multiline=name == "exception")
            for name, value in line.items()
            if value is not None
        }

    def _safe(self, text: str, *, multiline: bool) -> str:
        redacted = self._redactor.redact(text.encode("utf-8", "replace")).text.decode("utf-8", "replace")
        return sanitize(redacted, multiline=multiline)


def as_json(logger: Any, method: str, line: EventDict) -> str:
    """One object; our events have a `message` too, for people."""
    head = {name: line.pop(name) for name in ("time", "level", "logger")}
    event = {"event": line["event"]} if "event" in line else {}
    return orjson.dumps({**head, "message": _sentence(line), **event, **line}).decode()


def as_text(logger: Any, method: str, line: EventDict) -> str:
    """`2026-03-02T09:00:00.123Z WARNING epicenter.stream.app: rules_reloaded error="…"`, and a traceback below it."""
    times = f" ({line['repeated']} times more since)" if "repeated" in line else ""
    head = f"{line.pop('time')} {line.pop('level').upper()} {line.pop('logger')}: "
    trace = f"\n{line['exception']}" if "exception" in line else ""
    return head + _sentence(line) + times + trace


def traceback_of(error: BaseException) -> str:
    """The traceback as sanitized text."""
    line = structlog.processors.format_exc_info(None, "error", {"exc_info": error})
    return str(Sanitizer()(None, "error", line)["exception"])


def _sentence(line: EventDict) -> str:
    """The text of a library's line, or our event with its fields in logfmt."""
    if "message" in line:
        return str(line["message"])
    fields = {name: value for name, value in line.items() if name not in ("event", "exception", "repeated")}
    return f"{line['event']} {_logfmt(None, '', fields)}".rstrip()


RENDERERS: Final = {"json": as_json, "text": as_text}
