"""References of the claims in an evidence pack; `epicenter logs` resolves them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.sinks.evidence.untrusted import defused
from epicenter.sinks.text.sanitize import sanitize

MAX_BYTES: Final = 200
"""A line with a longer reference is referred to by its place in the incident."""

FORMS: Final = "write FILE:LINE, TOPIC/PARTITION:OFFSET, incident:ID@REVISION#/chain/0 or signal:ID"

_PART: Final = re.compile(r"incident:([0-9A-Za-z]{1,64})(?:@(\d{1,19}))?(?:#(/[^\s]{0,200})?)?")
_SIGNAL: Final = re.compile(r"signal:([0-9A-Za-z_.-]{1,64})")
_LINE: Final = re.compile(r"(.+):(\d{1,18})", re.DOTALL)
_PARTITION: Final = re.compile(r"(.+)/(\d{1,9})")


class LineReference(msgspec.Struct, frozen=True):
    """A line of a file, counted from 1, or an offset in a Kafka `topic/partition`."""

    source: str
    number: int

    @property
    def partition(self) -> tuple[str, int] | None:
        """Topic and partition, if the source can be a partition."""
        found = _PARTITION.fullmatch(self.source)
        return (found[1], int(found[2])) if found else None


class SignalReference(msgspec.Struct, frozen=True):
    """A stored signal."""

    signal_id: str


class PartReference(msgspec.Struct, frozen=True):
    """A part of an incident at a revision (0: the newest); `path` is a JSON pointer's steps."""

    incident_id: str
    revision: int
    path: tuple[str, ...]


Reference = LineReference | SignalReference | PartReference


def parse(text: str) -> Reference:
    """The parsed reference.

    Raises:
        ValueError: the text is not a reference.
    """
    if part := _PART.fullmatch(text):
        path = tuple(step.replace("~1", "/").replace("~0", "~") for step in (part[3] or "").split("/")[1:])
        return PartReference(part[1], int(part[2] or 0), path)
    if signal := _SIGNAL.fullmatch(text):
        return SignalReference(signal[1])
    if not _has_our_prefix(text) and (line := _LINE.fullmatch(text)):
        return LineReference(line[1], int(line[2]))
    raise ValueError(f"{sanitize(text[:MAX_BYTES])}: not a reference: {FORMS}")


def part_reference(incident: Incident, *path: str | int) -> str:
    """The reference of a part of an incident's JSON."""
    steps = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
    return f"incident:{incident.incident_id}@{incident.revision}" + (f"#{steps}" if steps else "")


def line_reference(source: str, number: int, fallback: str) -> str:
    """The reference of a line; `fallback` if its source has special characters or is very long."""
    text = f"{source}:{number}"
    is_plain = bool(source) and defused(source) == source and not _has_our_prefix(source) and number >= 0
    return text if is_plain and source.strip() == source and len(text.encode()) <= MAX_BYTES else fallback


def part_of(incident: Incident, path: tuple[str, ...]) -> Any:
    """The part of an incident's JSON at a path, in plain lists and mappings.

    Raises:
        KeyError: there is no such part.
    """
    found: Any = msgspec.to_builtins(incident)
    for step in path:
        if isinstance(found, list | tuple) and step.isascii() and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            raise KeyError(step)
    return found


def _has_our_prefix(text: str) -> bool:
    return text.startswith(("incident:", "signal:"))
