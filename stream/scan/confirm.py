"""Candidates of one record -> confirmed hits, and the line that they belong to."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.parse.envelope import Parsed, parse_pieces
from epicenter.ingest.parse.pasted import undressed
from epicenter.ingest.parse.pieces import pieces_of
from epicenter.rules.match.bounded import searched
from epicenter.rules.match.hyperscan import Hit, HyperscanScanner, Scanner
from epicenter.rules.model.records import RawRecord
from epicenter.rules.packs.precedence import (
    LineHit,
    first_outside,
    is_harmless,
    reports_failure,
    without_needless_fallbacks,
)
from epicenter.rules.packs.ruleset import Rule, RuleSet

MAX_PLACES: Final = 100
"""At most this many places where a pattern matches a line are checked, to find failures next to harmless text."""
STEP_NAMES: Final = ("step", "step_scaled", "bar_step")
"""Fields with the step of a progress line, exact or rounded, or with what an unnamed bar counts."""

MAX_DRESSES: Final = 4
"""At most this many dresses, one in the other, are taken off a line."""

MAX_STEPS: Final = 8
"""At most this many of a line's last progress bars are read."""


def patterns_by_record(hits: Iterable[Hit]) -> dict[int, list[int]]:
    """The candidate patterns of each record."""
    found: dict[int, list[int]] = {}
    for number, pattern in hits:
        found.setdefault(number, []).append(pattern)
    return found


Confirmed = tuple[Parsed, list[LineHit]]
"""A line, or the piece of it that counts, with its hits."""


class _RulePattern(NamedTuple):
    """A pattern with the properties of its rule that every line needs."""

    rule: Rule
    rule_id: str
    pattern: re.Pattern[bytes]
    is_harmless: bool
    is_for_heartbeats: bool


class _PatternsByNumber(dict[int, _RulePattern]):
    """Patterns by number, compiled on first use."""

    def __init__(self, rules: RuleSet, in_full: Container[str] | None):
        super().__init__()
        self._rules = rules
        self._in_full = in_full

    def __missing__(self, number: int) -> _RulePattern:
        rule = self._rules.rule_of_pattern[number]
        is_for_heartbeats = (
            rule.spec.role == "progress" and self._in_full is not None and rule.spec.id not in self._in_full
        )
        pattern = self._rules.pattern(number)
        rule_pattern = self[number] = _RulePattern(rule, rule.spec.id, pattern, is_harmless(rule), is_for_heartbeats)
        return rule_pattern


class Confirmer:
    """Confirms each candidate on its own line. A line that holds several records is checked piece by piece.

    For progress rules only the fields of heartbeats are read, except for the rules `in_full`; None means all rules.
    With `may_be_pasted`, a line that no rule knows is read again without what people and their tools put around it.
    `shortened` counts the lines of which only both ends were searched.
    """

    def __init__(
        self,
        rules: RuleSet,
        scanner: Scanner,
        cluster: str,
        in_full: Container[str] | None = None,
        may_be_pasted: bool = False,
    ):
        self.shortened = 0
        self._may_be_pasted = may_be_pasted
        self._rules = rules
        self._scanner = scanner
        self._companions = HyperscanScanner(rules.expressions_beside) if rules.expressions_beside else None
        self._cluster = cluster
        self._patterns = _PatternsByNumber(rules, in_full)
        owners = enumerate(rules.rule_of_pattern)
        self._of_failures = {number for number, rule in owners if reports_failure(rule.spec.role)}

    def confirmed(self, record: RawRecord, whole: Parsed, patterns: Sequence[int]) -> Confirmed:
        """The record's line with its hits. Of several pieces, the one that reports a failure, with the hits of all."""
        line, hits = self._as_it_is(record, whole, patterns)
        undressed_line = self._undressed(record, line) if self._may_be_pasted and not is_named(hits) else None
        return undressed_line or (line, hits)

    def _undressed(self, record: RawRecord, line: Parsed) -> Confirmed | None:
        """The line with the hits that it has without some of its outer dresses; None if none of them helps."""
        bodies = {line.body}
        for _ in range(MAX_DRESSES):
            texts = [text for text in dict.fromkeys(chain.from_iterable(map(undressed, bodies))) if text not in bodies]
            candidates = patterns_by_record(self._scanner.scan([_encoded(text) for text in texts]))
            pieces = list(parse_pieces(record, self._cluster, texts))
            for number, patterns in sorted(candidates.items()):
                hits = _without_fallbacks(self._fitting(pieces[number], patterns).values())
                if any(hit.is_failure for hit in hits) and is_named(hits):
                    return pieces[number], hits
            bodies = {piece.body for piece in pieces}
        return None

    def _as_it_is(self, record: RawRecord, whole: Parsed, patterns: Sequence[int]) -> Confirmed:
        pieces = pieces_of(whole.body)
        if len(pieces) == 1:
            return whole, _without_fallbacks(self._fitting(whole, patterns).values())
        in_whole = self._fitting(whole, patterns)
        pieces_with_hits, fitting_ids = [], set[str]()
        candidates = patterns_by_record(self._scanner.scan(list(map(_encoded, pieces))))
        worth_reading = self._worth_reading(candidates)
        parsed_pieces = parse_pieces(record, self._cluster, [pieces[number] for number, _ in worth_reading])
        for parsed, (_, of_piece) in zip(parsed_pieces, worth_reading, strict=True):
            fitting = self._fitting(parsed, of_piece)
            pieces_with_hits.append(
                (parsed, _without_fallbacks(_with_fields_of(in_whole.get(name), hit) for name, hit in fitting.items()))
            )
            fitting_ids.update(fitting)
        pieces_with_hits.append(
            (whole, _without_fallbacks(hit for name, hit in in_whole.items() if name not in fitting_ids))
        )
        return _reporting_piece(pieces_with_hits), _one_per_rule(hit for _, hits in pieces_with_hits for hit in hits)

    def _worth_reading(self, candidates: Mapping[int, list[int]]) -> list[tuple[int, list[int]]]:
        """Pieces in order; of those that can only report a step, the first one and the newest `MAX_STEPS`."""
        quiet = [number for number, found in candidates.items() if all(map(self._is_progress, found))]
        skipped = set(quiet[1:-MAX_STEPS])
        return [(number, found) for number, found in candidates.items() if number not in skipped]

    def _is_progress(self, pattern: int) -> bool:
        return self._rules.rule_of_pattern[pattern].spec.role == "progress"

    def _fitting(self, parsed: Parsed, patterns: Sequence[int]) -> Mapping[str, LineHit | None]:
        """The hit of each matching rule, by its id; None where it matches only within harmless text."""
        whole = _encoded(parsed.body)
        body = searched(whole)
        self.shortened += body is not whole
        companions = self._companions_of(body, patterns)
        numbers = sorted({*patterns, *companions}) if companions else patterns
        candidates = [
            candidate
            for candidate in map(self._patterns.__getitem__, numbers)
            if candidate.rule.applies_to(parsed.event.source) and not candidate.rule.disclaims(body)
        ]
        harmless = [
            place.span()
            for candidate in candidates
            if candidate.is_harmless
            for place in _places(candidate.pattern, body)
        ]
        found: dict[str, LineHit | None] = {}
        for candidate in candidates:
            if found.get(candidate.rule_id):
                continue
            avoided = () if candidate.is_harmless else harmless
            place = (
                first_outside(_places(candidate.pattern, body), avoided) if avoided else candidate.pattern.search(body)
            )
            if place:
                fields = candidate.rule.fields_in(place, candidate.is_for_heartbeats)
                if rule := candidate.rule.for_line(place, fields):
                    found[candidate.rule_id] = LineHit(rule, fields)
            elif harmless and candidate.pattern.search(body):
                found[candidate.rule_id] = None
        return found

    def _companions_of(self, body: bytes, patterns: Sequence[int]) -> list[int]:
        """Candidates among the harmless patterns that are only searched next to failures."""
        rules = self._rules
        if not self._companions or self._of_failures.isdisjoint(patterns):
            return []
        first = len(rules.expressions) + len(rules.expressions_in_triage)
        return [first + number for _, number in self._companions.scan([body])]


def is_named(hits: Iterable[LineHit]) -> bool:
    """Whether a rule knows the line by its words, be it as harmless."""
    return any(not hit.rule.spec.knows_only_structure for hit in hits)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _places(pattern: re.Pattern[bytes], body: bytes) -> Iterator[re.Match[bytes]]:
    return islice(pattern.finditer(body), MAX_PLACES)


def _without_fallbacks(fitting: Iterable[LineHit | None]) -> list[LineHit]:
    """The hits of one line; a fallback that opens a block stays next to other fallbacks, since the block decides."""
    hits = [hit for hit in fitting if hit]
    if len(hits) < 2:
        return hits
    known = without_needless_fallbacks(hits)
    if any(hit.is_failure and not hit.rule.spec.fallback for hit in known):
        return known
    return [hit for hit in hits if hit in known or (hit.rule.spec.fallback and hit.rule.spec.block)]


def _with_fields_of(in_whole: LineHit | None, hit: LineHit | None) -> LineHit | None:
    """A piece's hit with the fields that only the whole line has: the step of the bar in front of it."""
    return msgspec.structs.replace(hit, fields={**in_whole.fields, **hit.fields}) if in_whole and hit else hit


def _reporting_piece(pieces: Sequence[tuple[Parsed, list[LineHit]]]) -> Parsed:
    """The first piece with a failure, else the first with any hit."""
    by_weight = sorted(pieces, key=lambda piece: (not any(hit.is_failure for hit in piece[1]), not piece[1]))
    return by_weight[0][0]


def _since(first: LineHit | None, newest: LineHit) -> LineHit:
    names = ("first_step", *STEP_NAMES)
    step = next((first.fields[name] for name in names if name in first.fields), "") if first else ""
    return msgspec.structs.replace(newest, fields={**newest.fields, "first_step": step}) if step else newest


def _one_per_rule(hits: Iterable[LineHit]) -> list[LineHit]:
    """One hit of each rule: the newest step, with the first one's number, and the first of everything else."""
    by_rule: dict[str, LineHit] = {}
    for hit in hits:
        if hit.rule.spec.role == "progress":
            by_rule[hit.rule.spec.id] = _since(by_rule.get(hit.rule.spec.id), hit)
        else:
            by_rule.setdefault(hit.rule.spec.id, hit)
    return list(by_rule.values())
