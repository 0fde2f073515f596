"""References: where each claim of an evidence pack can be looked up; `epicenter logs` resolves them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.sinks.evidence.untrusted import defused
from epicenter.sinks.text.sanitize import sanitize

MAX_BYTES: Final = 200
"""A line's place that is longer is referred to by its place in the incident."""

FORMS: Final = "write FILE:LINE, TOPIC/PARTITION:OFFSET, incident:ID@REVISION#/chain/0 or signal:ID"

_PART: Final = re.compile(r"incident:([0-9A-Za-z]{1,64})(?:@(\d{1,18}))?(?:#(/[^\s]{0,200})?)?")
_SIGNAL: Final = re.compile(r"signal:([0-9A-Za-z_.-]{1,64})")
_LINE: Final = re.compile(r"(.+):(\d{1,18})", re.DOTALL)
_PARTITION: Final = re.compile(r"(.+)/(\d{1,9})")


class LineReference(msgspec.Struct, frozen=True):
    """A line of a file, from 1, or an offset of a Kafka `topic/partition`."""

    source: str
    number: int

    @property
    def partition(self) -> tuple[str, int] | None:
        """Topic and partition, when the source can be one."""
        found = _PARTITION.fullmatch(self.source)
        return (found[1], int(found[2])) if found else None


class SignalReference(msgspec.Struct, frozen=True):
    """A signal that the store knows."""

    signal_id: str


class PartReference(msgspec.Struct, frozen=True):
    """A part of an incident's document at a revision, 0 for the newest; `path` as a JSON pointer goes."""

    incident_id: str
    revision: int
    path: tuple[str, ...]


Reference = LineReference | SignalReference | PartReference


def parse(text: str) -> Reference:
    """What a reference refers to.

    Raises:
        ValueError: it is none.
    """
    if part := _PART.fullmatch(text):
        path = tuple(step.replace("~1", "/").replace("~0", "~") for step in (part[3] or "").split("/")[1:])
        return PartReference(part[1], int(part[2] or 0), path)
    if signal := _SIGNAL.fullmatch(text):
        return SignalReference(signal[1])
    if not _is_of_ours(text) and (line := _LINE.fullmatch(text)):
        return LineReference(line[1], int(line[2]))
    raise ValueError(f"{sanitize(text[:MAX_BYTES])}: no reference: {FORMS}")


def part_reference(incident: Incident, *path: str | int) -> str:
    """The reference of a part of an incident, as its JSON has it."""
    steps = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
    return f"incident:{incident.incident_id}@{incident.revision}" + (f"#{steps}" if steps else "")


def line_reference(source: str, number: int, otherwise: str) -> str:
    """The reference of a line; `otherwise` where its source can't be written as it is, or is very long."""
    text = f"{source}:{number}"
    is_plain = bool(source) and defused(source) == source and not _is_of_ours(source) and number >= 0
    return text if is_plain and source.strip() == source and len(text.encode()) <= MAX_BYTES else otherwise


def part_of(incident: Incident, path: tuple[str, ...]) -> Any:
    """The part of an incident's JSON that a path leads to, in plain lists and mappings.

    Raises:
        KeyError: it has no such part.
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


def _is_of_ours(text: str) -> bool:
    return text.startswith(("incident:", "signal:"))
