"""What one job's log holds, gathered match by match in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rules.model import Match, Signal
from rules.ruleset import RuleSet
from rules.signal import signal_of
from rules.triage.steps import Steps

KEPT_PER_CLASS: Final = 6
ADVICE: Final = "advice "
"""In front of a class whose lines only advise, so that they are told apart from its failures."""

FACT_ROLES: Final = ("context", "placement", "finished")


@dataclass
class Finding:
    """All signals of one class: the first ones word for word, and how many there were."""

    failure_class: str
    severity: str
    role: str
    count: int = 0
    weak: int = 0
    signals: list[Signal] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)

    @property
    def first(self) -> Signal:
        """The earliest one."""
        return self.signals[0]


@dataclass
class Fact:
    """The first and newest match of a quiet rule, and how many there were."""

    first: Match
    newest: Match
    count: int = 1


@dataclass
class Story:
    """A job's log (or several files of one job) as it was read."""

    path: str
    files: tuple[str, ...] = ("",)
    lines: int = 0
    newest_ns: int | None = None
    is_cut_off: bool = False
    steps: Steps = field(default_factory=Steps)
    findings: dict[str, Finding] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    progress_rules: set[str] = field(default_factory=set)
    tail: tuple[str, ...] = ()

    def note(self, match: Match, rules: RuleSet) -> None:
        """Take in a match; all of a log's in the order of its lines."""
        spec = rules.spec_of(match)
        if match.event.has_own_time:
            self.newest_ns = max(self.newest_ns or 0, match.event.event_time_ns)
        if spec.role == "progress":
            self.progress_rules.add(match.rule)
            self.steps.note(match.fields, match.event)
        elif spec.role in FACT_ROLES:
            self._note_fact(match)
        elif spec.role != "harmless":
            signal = signal_of(rules, match)
            self._note_finding(signal, is_weak=spec.fallback and spec.block is not None and _is_cut(signal))

    def fact(self, rule: str, name: str) -> str:
        """The newest content of a field that a quiet rule found; empty when there is none."""
        found = self.facts.get(rule)
        return found.newest.fields.get(name, "") if found else ""

    def failures(self) -> list[Finding]:
        """Findings that say that something failed, in the order of their first lines; advice says no such thing.

        A traceback whose exception is cut off counts only when nothing else failed.
        """
        told = [finding for finding in self.findings.values() if finding.role not in ("advice", "finished")]
        strong = [finding for finding in told if finding.count > finding.weak]
        return strong or told

    def signals(self) -> Iterator[Signal]:
        """The kept signals of all failures."""
        return (signal for finding in self.failures() for signal in finding.signals)

    def _note_fact(self, match: Match) -> None:
        fact = self.facts.get(match.rule)
        if fact is None:
            self.facts[match.rule] = Fact(match, match)
        else:
            fact.newest, fact.count = match, fact.count + 1

    def _note_finding(self, signal: Signal, is_weak: bool) -> None:
        key = ADVICE + signal.failure_class if signal.role == "advice" else signal.failure_class
        finding = self.findings.setdefault(key, Finding(signal.failure_class, signal.severity, signal.role))
        finding.count += 1
        finding.weak += is_weak
        if len(finding.signals) < KEPT_PER_CLASS:
            finding.signals.append(signal)
        if signal.node:
            finding.nodes.add(signal.node)
        if signal.rank is not None:
            finding.ranks.add(signal.rank)


def _is_cut(signal: Signal) -> bool:
    """Whether a block ends before the line that would say what happened."""
    return not signal.block or signal.block[-1].rpartition(": ")[2][:1].isspace() or signal.block[-1][:1].isspace()
