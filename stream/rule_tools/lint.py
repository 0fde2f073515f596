"""What `epicenter rules lint` finds in addition to loading: rules that contradict each other or the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.documents.mistakes import instead
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import ERRORS
from epicenter.rules.packs.precedence import reports_failure
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.stream.scan.scan import BatchScanner

QUIET_CLASSES: Final = ("placement", "progress", "finished", "harmless", "job-fact")
"""Classes of lines that report no failure."""

_DISRUPTIVE: Final = ("reset-gpu", "drain-node", "reboot-node", "replace-hardware")
_MILD: Final = ("none", "restart-app", "resubmit", "debug-app", "change-config")
_CONTRADICTS: Final = {
    "IGNORE": (_DISRUPTIVE, ("critical",)),
    "RESTART_APP": (_DISRUPTIVE, ("info",)),
    "RESET_GPU": (_MILD, ("info",)),
    "RESTART_BM": (_MILD, ("info",)),
    "RESTART_VM": (_MILD, ("info",)),
}
"""Actions and severities that contradict the immediate action of NVIDIA's Xid catalogue, by its bucket."""

_A_TIME_NS: Final = 1_767_225_600_000_000_000


def problems(rules: RuleSet) -> list[str]:
    """Every problem of the rules, each with its file and line."""
    found = [problem for rule in rules.all_rules for problem in (*_words(rule), *_role(rule), *_vendor(rule))]
    return [*found, *_doubles(rules)]


def _words(rule: Rule) -> Iterator[str]:
    name, action = rule.spec.failure_class, rule.spec.action
    if name not in QUIET_CLASSES and not vocabulary().knows(name):
        correction = instead(name, vocabulary().family_by_class, "rules/packs/vocabulary.yaml")
        yield f"{rule.place}: {rule.spec.id}: unknown class {name}: {correction}"
    for cleared in rule.spec.clears:
        if not vocabulary().knows(cleared):
            correction = instead(cleared, vocabulary().family_by_class, "rules/packs/vocabulary.yaml")
            yield f"{rule.place}: {rule.spec.id}: clears: unknown class {cleared}: {correction}"
    if action not in vocabulary().actions:
        known = ", ".join(vocabulary().actions)
        yield f"{rule.place}: {rule.spec.id}: unknown action {action}: write one of {known}"


def _role(rule: Rule) -> Iterator[str]:
    spec = rule.spec
    if (spec.failure_class in QUIET_CLASSES) == reports_failure(spec.role) and spec.role not in ("advice", "context"):
        is_quiet = spec.failure_class in QUIET_CLASSES
        fault = (
            "reports a failure: write its class" if is_quiet else f"reports none: write {' or '.join(QUIET_CLASSES)}"
        )
        yield f"{rule.place}: {spec.id}: class {spec.failure_class}: role {spec.role} {fault}"
    if spec.severity in ERRORS and not (spec.next_steps and spec.references):
        yield f"{rule.place}: {spec.id}: an {spec.severity} rule needs instructions: add next_steps and references"


def _vendor(rule: Rule) -> Iterator[str]:
    bucket, spec = rule.row.get("immediate", ""), rule.spec
    if spec.role == "context" or bucket not in _CONTRADICTS:
        return
    actions, severities = _CONTRADICTS[bucket]
    if spec.action in actions:
        yield f"{rule.place}: {spec.id}: action {spec.action} contradicts NVIDIA's {bucket}"
    if spec.severity in severities:
        yield f"{rule.place}: {spec.id}: severity {spec.severity} contradicts NVIDIA's {bucket}"


def _doubles(rules: RuleSet) -> Iterator[str]:
    """Lines that two rules claim: examples of one rule that another one matches too."""
    scanner = BatchScanner(rules, "lint", keep_all=True, finds_liveness=False)
    for rule in rules.rules:
        for line in rule.spec.examples.matches if rule.spec.examples else ():
            for other in {match.rule: match for match in _matches(scanner, line)}.values():
                if problem := _clash(rule, rules.of(other)):
                    yield f"{rule.place}: {rule.spec.id}: {problem}: {line}"


def _clash(rule: Rule, other: Rule) -> str:
    spec, claimed = rule.spec, other.spec
    is_own = (
        claimed.id == spec.id or claimed.id.startswith(f"{spec.id}_") or spec.failure_class == claimed.failure_class
    )
    is_declared = claimed.id in spec.overlaps or spec.id in claimed.overlaps
    if is_own or is_declared or not reports_failure(claimed.role) or claimed.fallback or spec.fallback:
        return ""
    if spec.role == "harmless":
        return f"{claimed.id} ({other.place}) matches this harmless line as a failure: narrow one of them"
    if not reports_failure(spec.role):
        return ""
    return f"{claimed.id} ({other.place}) matches this line too: narrow one of them, or name it in `overlaps`"


def _matches(scanner: BatchScanner, line: str) -> list[Match]:
    return scanner.scan(Batch("example", [line.encode()], [None], [_A_TIME_NS], [1])).matches
