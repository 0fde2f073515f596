"""A finding: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from epicenter.rules.errors import PipelineError
from epicenter.sinks.text.sanitize import sanitize

Status = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """`name` says what was looked at, `found` what was there, `fix` what to do unless all is well."""

    name: str
    status: Status
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    """All is well."""
    return Finding(name, "ok", _sanitized(found))


def warning(name: str, found: str, fix: str) -> Finding:
    """It works, and will not for ever, or not as well as it could."""
    return Finding(name, "warning", _sanitized(found), fix)


def problem(name: str, found: str, fix: str) -> Finding:
    """It does not work, or something is being lost."""
    return Finding(name, "problem", _sanitized(found), fix)


def refused(name: str, error: PipelineError, fix: str = "as it says") -> Finding:
    """What an error of ours says; it names what to do itself."""
    return problem(name, str(error), fix)


def or_all_is_well(name: str, found: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; when there are none, that all is well with it."""
    is_any = False
    for finding in findings:
        is_any = True
        yield finding
    if not is_any:
        yield ok(name, found)


def _sanitized(text: str) -> str:
    return sanitize(text, multiline=True)
