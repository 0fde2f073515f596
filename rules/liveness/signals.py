"""Verdict -> Signal, by the rule for the verdict."""

from __future__ import annotations

import msgspec

from epicenter.rules.liveness.verdict import HUNG, Verdict
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import Rule, RuleSet


def rules_by_verdict(rules: RuleSet) -> dict[str, Rule]:
    """The rule of each verdict that makes an incident."""
    found: dict[str, Rule] = {}
    for rule in rules.rules:
        if rule.spec.detect in ("silence", "no-progress"):
            found[rule.spec.verdict or HUNG] = rule
    return found


def liveness_signal(rule: Rule, verdict: Verdict) -> Signal:
    """The signal of a verdict. It comes from no line, so it has no position."""
    return Signal(
        signal_id=stable_id("silence", *msgspec.structs.astuple(verdict)[:7]),
        rule=rule.spec.id,
        failure_class=rule.spec.failure_class,
        severity=rule.spec.severity,
        role=rule.spec.role,
        event_time_ns=verdict.time_ns,
        onset_ns=verdict.onset_ns,
        cluster=verdict.cluster,
        node=verdict.node,
        source="worker",
        job=verdict.job,
        rank=verdict.rank,
        gpu="",
        text=verdict.text,
        position=None,
        fields=verdict.fields,
    )
