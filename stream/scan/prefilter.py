"""One pass over a batch's bytes that finds candidates before any record is parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from epicenter.ingest.batch.clean import UNCLEAN
from epicenter.ingest.batch.records import Records
from epicenter.ingest.batch.text import TextLines
from epicenter.rules.match.fixed_text import quoted
from epicenter.rules.match.hyperscan import GroupedScanner, Hit, HyperscanScanner, Scanner
from epicenter.rules.packs.ruleset import RuleSet

_OF_KERNEL: Final = (" kernel: ", '"kernel"', '"kmsg"', '"imkmsg"', '"imklog"', '"source"\\s*:\\s*"kern', '"syslog"')
"""Marks of lines of the host itself: its kernel and its services."""

_NOT_AS_WRITTEN: Final = ('"MESSAGE"\\s*:\\s*\\[', *(quoted(text.encode()).decode() for text in UNCLEAN))
"""Journald's byte arrays, colours between the words, NULs, HTML entities: the text differs from the raw bytes."""

MARKS: Final = (*_OF_KERNEL, *_NOT_AS_WRITTEN)


@dataclass(frozen=True)
class Prefiltered:
    """Candidates, and numbers of records: those of a kernel, those whose raw bytes differ from their text, and
    suspicious ones: envelopes with the text in an unusual place or without an end, and records that begin like binary.
    """

    candidates: Sequence[Hit]
    of_kernel: Sequence[int]
    escaped: Sequence[int]
    suspicious: Sequence[int]


def scanner_of(rules: RuleSet, in_triage: bool) -> Scanner:
    """Searches for the patterns of a worker, or for those of a triage."""
    usual = HyperscanScanner(rules.expressions, rules.marks)
    return GroupedScanner(usual, rules.expressions_in_triage) if in_triage and rules.expressions_in_triage else usual


class Prefilter:
    """Use one for each thread: it owns a scratch space. A scanner that includes the marks saves a second pass."""

    def __init__(self, scanner: Scanner):
        self._scanner = scanner
        if isinstance(scanner, HyperscanScanner) and scanner.has_marks:
            self._scan_with_marks = scanner.scan_with_marks
        else:
            marks = HyperscanScanner(MARKS)
            self._scan_with_marks = lambda values: (scanner.scan(values), marks.scan(values))

    def prefiltered(self, values: Records | TextLines) -> Prefiltered:
        """Find candidates. Lines of a plain text have one writer, so kernel marks are not searched."""
        if isinstance(values, TextLines):
            return Prefiltered(self._scanner.scan(values), (), values.cleaned_differently(), ())
        candidates, marks = self._scan_with_marks(values)
        of_kernel, escaped = set[int](), set(values.escaped())
        for number, mark in marks:
            (of_kernel if mark < len(_OF_KERNEL) else escaped).add(number)
        suspicious = sorted({*values.suspicious_envelopes(), *values.begun_in_binary()})
        return Prefiltered(candidates, sorted(of_kernel), sorted(escaped), suspicious)
