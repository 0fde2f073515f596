"""Match -> Signal: which node, job, rank and GPU a matching line is about."""

from __future__ import annotations

from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec

_DECIDED_BY_A_SCHEDULER = ("slurm-preempted", "slurm-time-limit", "slurm-cancelled", "slurm-dependency-failed")
_GPU_FIELD, _NODE_FIELD, _JOB_FIELD, _RANK_FIELD, _POD_FIELD = "pci", "node", "job", "rank", "pod"


def signal_of(rules: RuleSet, match: Match) -> Signal:
    """The signal of a match."""
    event, fields, rule = match.event, match.fields, rules.of(match)
    if event.pod:
        fields = {_POD_FIELD: event.pod, **fields}
    spec, rank = rule.spec, fields.get(_RANK_FIELD, "")
    return Signal(
        signal_id=match.match_id,
        rule=spec.id,
        failure_class=rule.class_of(fields),
        severity=spec.severity,
        role=spec.role,
        event_time_ns=event.event_time_ns,
        onset_ns=event.event_time_ns - (rule.waited_ns(fields) if event.has_own_time else 0),
        cluster=event.cluster,
        node=fields.get(_NODE_FIELD) or ("" if _is_reported_elsewhere(event, spec) else event.node),
        source=event.source or spec.source,
        job=event.job or fields.get(_JOB_FIELD, ""),
        rank=event.rank if event.rank is not None else _rank(rank),
        gpu=pci_address(fields.get(_GPU_FIELD, "")),
        text=event.text,
        position=event.position,
        fields=fields,
        block=match.block,
        log="" if fields.get(_NODE_FIELD) or fields.get(_JOB_FIELD) else event.log,
    )


def match_of(signal: Signal) -> Match:
    """A window's signal in the form of a match, for the store."""
    position = signal.position or Position("", 0)
    origin = (signal.cluster, signal.node, signal.source, signal.job, signal.rank)
    return Match(
        signal.signal_id,
        signal.rule,
        LogEvent(signal.event_time_ns, signal.text, position, True, *origin),
        signal.fields,
    )


def _is_reported_elsewhere(event: LogEvent, spec: RuleSpec) -> bool:
    """Whether it happened elsewhere than it was logged: a scheduler reports jobs from a separate host."""
    is_of_a_job = event.source == "scheduler" and spec.entity == "job"
    return is_of_a_job or spec.failure_class in _DECIDED_BY_A_SCHEDULER


def pci_address(text: str) -> str:
    """A PCI address as one key: four digits of domain, lower case, no function (`0000:3b:00`)."""
    if not text:
        return ""
    domain, bus, slot = ("", "", *text.lower().split(":"))[-3:]
    return f"{domain.lstrip('0').rjust(4, '0')}:{bus}:{slot.split('.')[0]}"


def _rank(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None
