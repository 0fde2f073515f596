"""Lines that belong together become one match: a traceback with its exception, an out-of-memory report, an oops.

A rule with `block` opens one; its `Block` says how far it extends. Lines of other writers in between are skipped. A
block reports each class once, and a fallback only when nothing else matched. Fields of the whole block go to each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import msgspec

from epicenter.ingest.parse.envelope import Parsed
from epicenter.rules.match.bounded import compiled, searched
from epicenter.rules.model.records import Match
from epicenter.rules.packs.precedence import LineHit, named_or_all, without_needless_fallbacks
from epicenter.rules.packs.spec import Block
from epicenter.stream.scan.batch_lines import BatchLines, speaker

MAX_HEAD_LINES = 60
MAX_TAIL_LINES = 60
MAX_LINE_CHARS = 1000
_SKIPPED_PER_LINE = 8

_OPENING = "Traceback (most recent call last)"
_OPENS = rf'^(?:{re.escape(_OPENING)}|  File ")'
"""A new traceback, or what Python prints of a program that it can't parse."""

_TIME = r"\d[\d:.,T/ -]{4,40}\d"


class RecordHits(msgspec.Struct):
    """A record with hits, and the lines of the block that it opens."""

    number: int
    parsed: Parsed
    hits: Sequence[LineHit]
    block: tuple[str, ...] = ()


@dataclass
class _Extent:
    numbers: list[int]
    lines: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    is_complete: bool = True


class _Head(NamedTuple):
    """What a logger of the site's own writes before each line of a block: as much of it, times aside."""

    length: int
    timeless: str

    @classmethod
    def of(cls, opening: str) -> _Head:
        """The head of the line that opens the traceback; empty for other blocks."""
        length = max(0, opening.find(_OPENING))
        return cls(length, _timeless(opening[:length]))

    @classmethod
    def of_both(cls, opening: str, following: str, needed: str) -> _Head:
        """What both lines have before what is `needed` in the second one; empty if they differ there."""
        found = _compiled(needed.removeprefix("^")).search(searched(following))
        length = found.start() if found else 0
        head = cls(length, _timeless(following[:length]))
        return head if head.without(opening) != opening else cls(0, "")

    def without(self, body: str) -> str:
        """The line without the head; as it is if it has another."""
        has_head = self.length and _timeless(body[: self.length]) == self.timeless
        return body[self.length :] if has_head else body


def _timeless(head: str) -> str:
    return _compiled(_TIME).sub("", head)


def join_blocks(hits_by_record: dict[int, RecordHits], lines: BatchLines, is_last: bool) -> int:
    """Join the blocks among the records with hits in a batch, in place.

    Returns the number of the first record of a block that continues beyond the batch. Records from there on wait for
    the next batch, and so do earlier blocks that extend beyond that record. Returns the number of records when there is
    none, or when `is_last`.
    """
    joined: set[int] = set()
    reach: list[tuple[int, int]] = []
    for number in sorted(hits_by_record):
        opener = next((hit for hit in hits_by_record[number].hits if hit.rule.spec.block), None)
        if opener is None or opener.rule.spec.block is None or number in joined:
            continue
        extent = _extent(hits_by_record[number], opener.rule.spec.block, lines)
        if not (extent.is_complete or is_last):
            return _before_all_of(reach, number)
        joined.update(extent.numbers)
        reach.append((number, extent.numbers[-1]))
        _join([hits_by_record[inner] for inner in extent.numbers if inner in hits_by_record], opener, extent)
    return len(lines)


def _before_all_of(reach: Sequence[tuple[int, int]], end: int) -> int:
    """The latest record up to `end` that is in none of these blocks, given by first and last record."""
    for first, last in reversed(reach):
        if last >= end:
            end = first
    return end


def _extent(opening: RecordHits, block: Block, lines: BatchLines) -> _Extent:
    first = opening.number
    head = _Head.of(opening.parsed.body)
    extent = _Extent([first], [opening.parsed.event.text], [head.without(opening.parsed.body)])
    has_last = False
    farthest = first + block.most_lines * _SKIPPED_PER_LINE
    for number, line in lines.following(first, speaker(opening.parsed), min(len(lines), farthest)):
        is_second = len(extent.numbers) == 1
        if is_second and block.only_if_next:
            head = _Head.of_both(opening.parsed.body, line.body, block.only_if_next)
        body = searched(head.without(line.body))
        if is_second and block.only_if_next and not _compiled(block.only_if_next).search(body):
            return extent
        continues = not block.goes_on or _compiled(block.goes_on).search(body) is not None
        begins_anew = has_last and _compiled(_OPENS).search(body)
        if begins_anew or (not continues and (has_last or not block.and_one_more)):
            return _trimmed(extent)
        has_last = not continues or (has_last and not _compiled(_CONNECTS).search(body))
        extent.numbers.append(number)
        extent.lines.append(line.event.text)
        extent.bodies.append(body)
        if block.ends and _compiled(block.ends).search(body):
            return extent
        if len(extent.numbers) >= block.most_lines:
            return extent if block.goes_on else _Extent([first], extent.lines[:1], extent.bodies[:1])
    extent.is_complete = farthest <= len(lines)
    return _trimmed(extent)


_CONNECTS = r"^(?:During handling of the above|The above exception was|Original Traceback)"
"""Lines of Python between the parts of one chained traceback."""


def _trimmed(extent: _Extent) -> _Extent:
    while len(extent.lines) > 1 and not extent.lines[-1].strip():
        extent.lines.pop()
        extent.bodies.pop()
        extent.numbers.pop()
    return extent


def _join(inside: Sequence[RecordHits], opener: LineHit, extent: _Extent) -> None:
    block = opener.rule.spec.block
    if block and block.covers and _is_whole(block, extent):
        for record in inside:
            record.hits = [hit for hit in record.hits if not hit.is_failure]
    if len(inside) > 1:
        _deduplicate(inside)
    else:
        inside[0].hits = without_needless_fallbacks(inside[0].hits)
    lines, fields = _bounded(extent.lines), opener.rule.fields_of_block("\n".join(extent.bodies))
    for record in inside:
        if any(hit.is_failure for hit in record.hits):
            record.block = lines
            record.hits = [_with_fields(hit, fields) for hit in record.hits]


def _is_whole(block: Block, extent: _Extent) -> bool:
    """Whether the block has its last line, or the second line that it needs."""
    if block.only_if_next:
        return len(extent.numbers) > 1
    return not block.ends or _compiled(block.ends).search(extent.bodies[-1]) is not None


def _with_fields(hit: LineHit, fields: Mapping[str, str]) -> LineHit:
    """A failure with the fields of its block, in addition to those of its own line."""
    return msgspec.structs.replace(hit, fields={**fields, **hit.fields}) if fields and hit.is_failure else hit


def _deduplicate(inside: Sequence[RecordHits]) -> None:
    """Keep one hit of each class: root causes before others, and hits inside the block before its opener."""
    failures = named_or_all([hit for record in inside for hit in record.hits if hit.is_failure])
    openers = [hit for hit in failures if hit.rule.spec.fallback and hit.rule.spec.block]
    remaining = without_needless_fallbacks([hit for hit in failures if hit not in openers] or openers)
    chosen: dict[str, LineHit] = {}
    for hit in sorted(remaining, key=lambda hit: (hit.rule.spec.role != "root", hit.rule.spec.block is not None)):
        chosen.setdefault(hit.failure_class, hit)
    for record in inside:
        record.hits = [hit for hit in record.hits if not hit.is_failure or hit is chosen.get(hit.failure_class)]


def _bounded(lines: list[str]) -> tuple[str, ...]:
    if len(lines) > MAX_HEAD_LINES + MAX_TAIL_LINES:
        left_out = len(lines) - MAX_HEAD_LINES - MAX_TAIL_LINES
        lines = [*lines[:MAX_HEAD_LINES], f"[{left_out} lines left out]", *lines[-MAX_TAIL_LINES:]]
    return tuple(lines) if len(lines) > 1 else ()


def with_short_lines(match: Match) -> Match:
    """The match with the lines of its block cut to `MAX_LINE_CHARS`."""
    if all(len(line) <= MAX_LINE_CHARS for line in match.block):
        return match
    return msgspec.structs.replace(match, block=tuple(line[:MAX_LINE_CHARS] for line in match.block))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return compiled(pattern)
