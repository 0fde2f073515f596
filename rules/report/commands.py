"""Commands that carry out an incident's action, ready to paste: for its culprit node, its jobs and its pod.

Names come from log lines, so a name that is not shaped like one gets no command: quotes alone would still let
`--all` be an option and `ALL` mean every node.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Command
from epicenter.rules.model.job_names import named_jobs
from epicenter.rules.model.signals import Signal

SLURM: Final = "slurm"
KUBERNETES: Final = "kubernetes"
MAX_JOBS: Final = 8
"""At most this many jobs in one command."""

_TAKES_NODE_OUT: Final = ("drain-node", "reboot-node", "replace-hardware", "reset-gpu")
_LOOKS_AT_NODE: Final = ("investigate-node", "investigate-peer", "contact-support")
_JOB_HOLDS_ITS_NODES: Final = ("hung", "rank-dead", "node-dead")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_EVERY_NODE: Final = "all"
_SLURM_JOB: Final = re.compile(r"[1-9]\d{0,9}(?:_\d{1,7})?")


def commands_of(state: IncidentState, culprit: Signal, action: str, verdict: str) -> tuple[Command, ...]:
    """The commands for what the rule's action says about the culprit's node, then those for the jobs and the pod.

    A node is named only if it is the culprit's, a job only by its Slurm id. Where the logs name no scheduler, the
    commands for a node come for both.
    """
    signals = state.signals()
    jobs = named_jobs(sorted(state.jobs))
    schedulers = schedulers_of([culprit, *signals], jobs)
    reason = f"epicenter: {culprit.failure_class}" if _is_name(culprit.failure_class) else "epicenter"
    commands: list[Command] = []
    if is_node(culprit.node) and f"{culprit.failure_class}/{culprit.node}" not in state.cleared:
        commands += _for_node(culprit.node, action, reason, schedulers or {SLURM, KUBERNETES})
    if SLURM in schedulers:
        waiting = named_jobs({signal.job for signal in signals if signal.fields.get("verdict")}) or jobs
        is_held = state.status == "open" and verdict in _JOB_HOLDS_ITS_NODES
        commands += _for_jobs(jobs, waiting if is_held else ())
    if is_node(pod := culprit.fields.get("pod", "")):
        text = f"kubectl get events --all-namespaces --field-selector involvedObject.name={pod}"
        commands.append(Command(f"See the events of pod {pod}", KUBERNETES, text))
    return tuple(commands)


def schedulers_of(signals: Collection[Signal], jobs: Collection[str]) -> set[str]:
    """The schedulers that the logs name: by a rule of their lines, a pod, or a job's id in Slurm's form."""
    is_kubernetes = any(
        signal.source == KUBERNETES or signal.rule.startswith("k8s.") or "pod" in signal.fields for signal in signals
    )
    is_slurm = any(signal.rule.startswith("slurm.") for signal in signals)
    has_slurm_job = not is_kubernetes and any(map(_SLURM_JOB.fullmatch, jobs))
    return {name for name, is_named in ((SLURM, is_slurm or has_slurm_job), (KUBERNETES, is_kubernetes)) if is_named}


def is_node(name: str) -> bool:
    """Whether it is a host's or a pod's name, so that a shell and a scheduler read it as that and nothing else."""
    return _is_name(name) and name.lower() != _EVERY_NODE


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def _for_node(node: str, action: str, reason: str, schedulers: Collection[str]) -> Iterator[Command]:
    if action in _TAKES_NODE_OUT:
        if SLURM in schedulers:
            text = f'scontrol update nodename={node} state=drain reason="{reason}"'
            yield Command(f"Drain {node}", SLURM, text)
        if KUBERNETES in schedulers:
            yield Command(f"Keep new pods off {node}", KUBERNETES, f"kubectl cordon {node}")
    if action in _LOOKS_AT_NODE:
        if SLURM in schedulers:
            yield Command(f"See the state of {node}", SLURM, f"scontrol show node {node}")
        if KUBERNETES in schedulers:
            yield Command(f"See the state of {node}", KUBERNETES, f"kubectl describe node {node}")


def _for_jobs(jobs: Collection[str], waiting: Collection[str]) -> Iterator[Command]:
    if cancelled := _slurm_ids(waiting):
        yield Command(f"Cancel {_jobs(cancelled)}", SLURM, f"scancel {' '.join(cancelled)}")
    if shown := _slurm_ids(jobs):
        text = f"sacct -j {','.join(shown)} -o JobID,State,ExitCode,Reason,NodeList"
        yield Command(f"See {_jobs(shown)} in the accounts", SLURM, text)


def _slurm_ids(jobs: Collection[str]) -> list[str]:
    return sorted(filter(_SLURM_JOB.fullmatch, jobs))[:MAX_JOBS]


def _jobs(ids: Collection[str]) -> str:
    return f"job{'s' * (len(ids) > 1)} {', '.join(ids)}"
