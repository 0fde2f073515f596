"""`epicenter eval`: triages labelled cases like any log, and scores how often the result is right.

A case is one JSON object a line: `id`, `lines`, `expect` (classes), `primary` (class or null), and optionally `layer`,
`also_ok` (classes allowed, not required) and `alt` (classes accepted for an expected one: a mapping, or a list).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.provenance.first_lines import head_time_ns
from epicenter.ingest.provenance.log_file import check_is_log, open_log, read_fault
from epicenter.rules.errors import InputError
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.model.records import Origin
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.report import Circumstances, triage
from epicenter.rules.triage.sections import NODES
from epicenter.rules.triage.story import Story
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.scan.prefilter import scanner_of
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.settings import Settings
from epicenter.stream.triage.reading import read_sections

CASE_TIME_NS: Final = 1_767_225_600_000_000_000
MIN_RECALL: Final = {"kernel": 0.97, "worker": 0.95}
MIN_PRIMARY: Final = 0.93
MAX_BENIGN_FLAGGED: Final = 0.01


class Case(msgspec.Struct):
    """One labelled log."""

    id: str
    lines: list[str]
    expect: list[str]
    primary: str | None = None
    layer: str = "worker"
    also_ok: list[str] = []
    alt: dict[str, list[str] | str] | list[str] | str | None = None


@dataclass
class Score:
    """Counts over the cases of one layer."""

    cases: int = 0
    benign: int = 0
    benign_flagged: int = 0
    with_primary: int = 0
    primary_right: int = 0
    expected: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    extra: Counter[str] = field(default_factory=Counter)
    misses: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, classes: set[str], primary: str | None) -> None:
        """Compare the findings with the labels of a case."""
        expected = {vocabulary().aliases.get(name, name) for name in case.expect}
        missing = {name for name in expected if not _is_shown(name, classes, case)}
        extra = {name for name in classes if not _is_allowed(name, expected, case)}
        is_right = _is_primary(case, primary)
        self.cases += 1
        self.benign += not expected
        self.benign_flagged += bool(extra) and not expected
        self.with_primary += case.primary is not None
        self.primary_right += case.primary is not None and is_right
        self.expected.update(expected)
        self.found.update(expected - missing)
        self.extra.update(extra)
        if missing or extra or not is_right:
            found = {"missing": sorted(missing), "extra": sorted(extra), "primary": primary}
            self.misses.append({"id": case.id, **found, "expected_primary": case.primary})

    def summary(self) -> dict[str, Any]:
        """The figures as shares (0..1), with those of each class."""
        names = sorted(self.expected | self.extra)
        return {
            "cases": self.cases,
            "recall": _share(self.found.total(), self.expected.total()),
            "precision": _share(self.found.total(), self.found.total() + self.extra.total()),
            "primary_accuracy": _share(self.primary_right, self.with_primary),
            "benign": self.benign,
            "benign_flagged": self.benign_flagged,
            "classes": {
                name: {
                    "expected": self.expected[name],
                    "recall": _share(self.found[name], self.expected[name]),
                    "precision": _share(self.found[name], self.found[name] + self.extra[name]),
                }
                for name in names
            },
            "misses": self.misses,
        }

    def falls_short(self, layer: str) -> bool:
        """Whether a figure is below what epicenter promises."""
        return (
            self.found.total() < MIN_RECALL.get(layer, 0.95) * self.expected.total()
            or self.primary_right < MIN_PRIMARY * self.with_primary
            or self.benign_flagged > MAX_BENIGN_FLAGGED * self.benign
        )


def evaluate_files(settings: Settings, paths: list[str], as_json: bool) -> bool:
    """Print the scores of the rules on the cases; true if they fall short."""
    rules = load(settings.rule_packs, settings.topology)
    patterns = scanner_of(rules, in_triage=True)
    scores: dict[str, Score] = {}
    for case in (case for path in paths for case in read_cases(Path(path))):
        classes, primary = judged(case, rules, patterns)
        scores.setdefault(case.layer, Score()).add(case, classes, primary)
    if as_json:
        click.echo(sanitized_json({layer: score.summary() for layer, score in sorted(scores.items())}))
    else:
        for layer, score in sorted(scores.items()):
            _show(layer, score)
    return any(score.falls_short(layer) for layer, score in scores.items())


def read_cases(file: Path) -> list[Case]:
    """The cases of a file.

    Raises:
        InputError: it can't be read, or a line is not a case, with its line number.
    """
    if not check_is_log(file):
        raise InputError(f"{file}: empty: no labelled case in it")
    try:
        with open_log(file) as opened:
            lines = opened.read().splitlines()
    except OSError as error:
        raise InputError(f"{file}: {read_fault(error)}") from error
    cases = []
    for number, line in enumerate(lines, 1):
        try:
            cases += [msgspec.json.decode(line, type=Case)] if line.strip() else []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file}:{number}: not a labelled case: {error}") from error
    return cases


def judged(case: Case, rules: RuleSet, patterns: Scanner) -> tuple[set[str], str | None]:
    """The classes in a case's lines, and the cause: the result of `epicenter triage` for these lines as a log."""
    values = [line.encode("utf-8", "surrogatepass") for line in case.lines]
    count = len(values)
    is_system, head_ns = case.layer == "kernel", head_time_ns(values, CASE_TIME_NS)
    origin = Origin(job="" if is_system else case.id, is_system=is_system, log=case.id, head_time_ns=head_ns)
    received_ns = [CASE_TIME_NS] * count
    batch = Batch(case.id, values, [None] * count, received_ns, range(1, count + 1), True, True, origin, True)
    scanner = BatchScanner(rules, "eval", patterns, keep_all=True, may_be_pasted=True, finds_liveness=False)
    sections = read_sections(
        [batch],
        scanner,
        rules,
        lambda job: Story(case.id, jobs=frozenset({job} - {NODES})),
        Circumstances(),
        is_one_log=True,
    )
    reports = [triage(story, incidents, rules, Circumstances()) for story, incidents in sections]
    shown = {name for report in reports for name in report.classes}
    primary = next((report.primary for report in reports if report.primary in shown), None)
    return shown, primary


def _is_shown(name: str, classes: set[str], case: Case) -> bool:
    accepted = {name, *_alternatives(name, case)}
    return any(vocabulary().counts_as(found) & accepted for found in classes)


def _is_allowed(found: str, expected: set[str], case: Case) -> bool:
    allowed = {*expected, *case.also_ok, *(other for name in expected for other in _alternatives(name, case))}
    return bool(vocabulary().counts_as(found) & {vocabulary().aliases.get(name, name) for name in allowed})


def _is_primary(case: Case, primary: str | None) -> bool:
    if case.primary is None or primary is None:
        return case.primary == primary
    name = vocabulary().aliases.get(case.primary, case.primary)
    return bool(vocabulary().counts_as(primary) & {name, *_alternatives(name, case)})


def _alternatives(name: str, case: Case) -> list[str]:
    alternatives = case.alt.get(name, []) if isinstance(case.alt, dict) else case.alt or []
    return [alternatives] if isinstance(alternatives, str) else alternatives


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _show(layer: str, score: Score) -> None:
    summary = score.summary()
    click.echo(
        f"{layer}: {score.cases} cases, recall {_percent(summary['recall'])}, "
        f"precision {_percent(summary['precision'])}, "
        f"cause right {_percent(summary['primary_accuracy'])} ({score.primary_right} of {score.with_primary}), "
        f"benign flagged {score.benign_flagged} of {score.benign}"
    )
    for name, figures in summary["classes"].items():
        recall, precision = _percent(figures["recall"]), _percent(figures["precision"])
        click.echo(f"  {name:<28} expected {figures['expected']:>3}  recall {recall:>7}  precision {precision:>7}")
    for miss in score.misses:
        missing, extra = ", ".join(miss["missing"]) or "-", ", ".join(miss["extra"]) or "-"
        cause = f"cause {miss['primary']}, expected {miss['expected_primary']}"
        click.echo(f"  miss {miss['id']}: missing {missing}; extra {extra}; {cause}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
