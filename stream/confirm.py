"""Candidates of one record -> what really stands in it, and who says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from ingest.parse.envelope import Parsed, parse
from ingest.parse.pieces import pieces_of
from rules.match.hyperscan import Hit
from rules.model import RawRecord
from rules.ruleset import RuleSet
from rules.standing import LineHit, standing

KEPT_STEPS: Final = 8
"""So many of a line's last progress bars are looked at."""


class Scanner(Protocol):
    """Finds candidates: which record may fit which pattern."""

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """(record, pattern) pairs, in order."""


def patterns_by_record(hits: Iterable[Hit]) -> dict[int, list[int]]:
    """The patterns that each record may fit."""
    found: dict[int, list[int]] = {}
    for number, pattern in hits:
        found.setdefault(number, []).append(pattern)
    return found


class Confirmer:
    """Holds each candidate against its own line. A line that holds several records is looked at piece by piece."""

    def __init__(self, rules: RuleSet, scanner: Scanner, cluster: str):
        self._rules = rules
        self._scanner = scanner
        self._cluster = cluster

    def confirmed(self, record: RawRecord, patterns: Sequence[int]) -> tuple[Parsed, list[LineHit]]:
        """The line with what stands in it; of several pieces, the one that speaks, with the hits of all.

        Raises:
            RecordError: an envelope whose text is no text.
        """
        whole = parse(record, self._cluster)
        pieces = pieces_of(whole.body)
        if len(pieces) == 1:
            return whole, standing(list(self._fitting(whole, patterns).values()))
        in_whole = self._fitting(whole, patterns)
        told, fitting_ids = [], set[str]()
        candidates = patterns_by_record(
            self._scanner.scan([piece.encode("utf-8", "surrogatepass") for piece in pieces])
        )
        for number, of_piece in self._worth_a_look(candidates):
            parsed = parse(record, self._cluster, pieces[number])
            fitting = self._fitting(parsed, of_piece)
            told.append((parsed, standing([_with_fields_of(in_whole, *item) for item in fitting.items()])))
            fitting_ids.update(fitting)
        told.append((whole, standing([hit for rule_id, hit in in_whole.items() if rule_id not in fitting_ids])))
        return _speaking(told), _each_once(hit for _, hits in told for hit in hits)

    def _worth_a_look(self, candidates: Mapping[int, list[int]]) -> list[tuple[int, list[int]]]:
        """Pieces in order; of those that can only tell a step, the newest few."""
        quiet = [number for number, found in candidates.items() if all(map(self._is_progress, found))]
        passed_over = set(quiet[:-KEPT_STEPS])
        return [(number, found) for number, found in candidates.items() if number not in passed_over]

    def _is_progress(self, pattern: int) -> bool:
        return self._rules.rule_of_pattern[pattern].spec.role == "progress"

    def _fitting(self, parsed: Parsed, patterns: Sequence[int]) -> Mapping[str, LineHit]:
        body = parsed.body.encode("utf-8", "surrogatepass")
        found: dict[str, LineHit] = {}
        for pattern in patterns:
            rule = self._rules.rule_of_pattern[pattern]
            if rule.spec.id in found or not rule.applies_to(parsed.event.source):
                continue
            if hit := self._rules.pattern(pattern).search(body):
                fields = rule.fields_in(hit)
                found[rule.spec.id] = LineHit(rule.for_fields(fields), fields, hit.span())
        return found


def _with_fields_of(in_whole: Mapping[str, LineHit], rule_id: str, hit: LineHit) -> LineHit:
    """A piece's hit with the fields that only the whole line tells: the step of the bar in front of it."""
    more = in_whole.get(rule_id)
    return replace(hit, fields={**more.fields, **hit.fields}) if more else hit


def _speaking(told: Sequence[tuple[Parsed, list[LineHit]]]) -> Parsed:
    """The first piece that says that something failed, else the first that says anything."""
    by_weight = sorted(told, key=lambda one: (not any(hit.is_failure for hit in one[1]), not one[1]))
    return by_weight[0][0]


def _each_once(hits: Iterable[LineHit]) -> list[LineHit]:
    """One hit of each rule: the newest step, and the first of everything else."""
    by_rule: dict[str, LineHit] = {}
    for hit in hits:
        if hit.rule.spec.role == "progress":
            by_rule[hit.rule.spec.id] = hit
        else:
            by_rule.setdefault(hit.rule.spec.id, hit)
    return list(by_rule.values())
