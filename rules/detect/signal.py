"""Match -> Signal: which node, job, rank and GPU a matching line is about."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.rules.model.signals import EVENTS, POD_FIELD, POD_STOPPED_RULE, Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec

_DECIDED_BY_A_SCHEDULER = ("slurm-preempted", "slurm-time-limit", "slurm-cancelled", "slurm-dependency-failed")
_OF_SRUN = "srun: "
_OF_CONTROLLERS = (POD_STOPPED_RULE, "progress.job_completed")
"""Rules of what operators print, in a separate pod, about the pods and jobs that they run."""

_GPU_FIELD, _NODE_FIELD, _JOB_FIELD, _RANK_FIELD = "pci", "node", "job", "rank"
_WRITER_FIELD = "own_host"
"""The host of the writer by its own words, for a line whose envelope names no node: in a pod it is the pod's name."""


def signal_of(rules: RuleSet, match: Match) -> Signal:
    """The signal of a match."""
    event, fields, rule = match.event, match.fields, rules.of(match)
    if _is_of_a_controller(match):
        event = structs.replace(event, job="", node="", rank=None, log="")
    elif event.pod:
        fields = {POD_FIELD: event.pod, **fields}
    spec, failure_class = rule.spec, rule.class_of(fields)
    return Signal(
        signal_id=match.match_id,
        rule=spec.id,
        failure_class=failure_class,
        severity=spec.severity,
        role=spec.role,
        event_time_ns=event.event_time_ns,
        onset_ns=event.event_time_ns - (rule.waited_ns(fields) if event.has_own_time else 0),
        cluster=event.cluster,
        node=_node(event, fields, spec),
        source=event.source or spec.source,
        job=event.job or fields.get(_JOB_FIELD, ""),
        rank=_rank(event, fields),
        gpu=pci_address(fields.get(_GPU_FIELD, "")),
        text=event.text,
        position=event.position,
        fields=fields,
        block=match.block,
        log=event.log if event.log and not (fields.get(_NODE_FIELD) or fields.get(_JOB_FIELD)) else "",
        cleared_ns=event.event_time_ns if failure_class in spec.clears else 0,
    )


def pod_of(match: Match) -> str:
    """The pod that the line comes from and is about; empty if it comes from none, or is about another one."""
    pod = match.event.pod
    return "" if not pod or _is_of_a_controller(match) else pod


def _is_of_a_controller(match: Match) -> bool:
    """Whether a pod of the cluster's own, as an operator's, reports what happened to another pod or job."""
    event, named = match.event, match.fields.get(POD_FIELD, "")
    if named and event.pod:
        return named.rpartition("/")[2] != event.pod.rpartition("/")[2]
    is_reported = match.rule in _OF_CONTROLLERS and event.source != EVENTS
    return is_reported and bool(event.job or event.pod) and bool(named or match.fields.get(_JOB_FIELD))


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
    """Whether it happened elsewhere than it was logged: a scheduler reports jobs from a separate host, and srun what
    happens on any node of its job.
    """
    is_of_a_job = event.source == "scheduler" and spec.entity == "job"
    return is_of_a_job or spec.failure_class in _DECIDED_BY_A_SCHEDULER or _OF_SRUN in event.text


def pci_address(text: str) -> str:
    """A PCI address as one key: four digits of domain, lower case, no function (`0000:3b:00`)."""
    if not text:
        return ""
    domain, bus, slot = ("", "", *text.lower().split(":"))[-3:]
    return f"{domain.lstrip('0').rjust(4, '0')}:{bus}:{slot.split('.')[0]}"


def _node(event: LogEvent, fields: Mapping[str, str], spec: RuleSpec) -> str:
    if named := fields.get(_NODE_FIELD):
        return named
    return "" if _is_reported_elsewhere(event, spec) else event.node or fields.get(_WRITER_FIELD, "")


def _rank(event: LogEvent, fields: Mapping[str, str]) -> int | None:
    """The rank that the line is about: a launcher that names host and rank of a process may have a rank itself."""
    if not (text := fields.get(_RANK_FIELD, "")):
        return event.rank
    stated = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None
    names_process = stated is not None and (_NODE_FIELD in fields or _WRITER_FIELD in fields)
    return stated if names_process or event.rank is None else event.rank
