"""A finding: what was checked, what was found, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from epicenter.rules.errors import PipelineError
from epicenter.sinks.text.sanitize import sanitize

Status = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """`name` is what was checked, `found` its state, `fix` what to do unless it is ok."""

    name: str
    status: Status
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(name, "ok", _sanitized(found))


def warning(name: str, found: str, fix: str) -> Finding:
    """It works, but not as well as it could, or not for long."""
    return Finding(name, "warning", _sanitized(found), fix)


def problem(name: str, found: str, fix: str) -> Finding:
    """It does not work, or data is being lost."""
    return Finding(name, "problem", _sanitized(found), fix)


def refused(name: str, error: PipelineError, fix: str = "follow the message") -> Finding:
    """The problem that one of epicenter's errors describes."""
    return problem(name, str(error), fix)


def or_ok(name: str, found: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; without any, one that is ok."""
    is_any = False
    for finding in findings:
        is_any = True
        yield finding
    if not is_any:
        yield ok(name, found)


def _sanitized(text: str) -> str:
    return sanitize(text, multiline=True)
