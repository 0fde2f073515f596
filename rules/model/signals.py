"""Signals: a rule's condition holds."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S

CLOCK_SKEW_NS: Final = 5 * NS_PER_S
"""How far the clocks of two nodes may differ."""

EVENTS: Final = "kubernetes"
"""The source of Kubernetes' events."""

SEVERITIES: Final = ("info", "warning", "error", "critical")
"""From least to most severe."""

ERRORS: Final = SEVERITIES[SEVERITIES.index("error") :]
"""Those that open incidents."""

_ANNOUNCES_A_TRACEBACK: Final = ("(most recent call last):", "Unhandled error (suppress with ")
"""In the line before a traceback: Python's, and that of Ray's workers."""

_LABELS: Final = re.compile(r"^(?: {0,6}\d{1,7}: ?)?(?:\[[^\]\n]{1,40}\]:? ?)?(?:\([^()\n]{1,160}\) ?)?")
"""Whose line it is: srun's task, torch's rank, Ray's process."""

BOOT_RULE: Final = "machine.boot"
"""The rule for the first lines of a kernel."""

POD_STOPPED_RULE: Final = "k8s.container_stopped"
"""The rule for Kubernetes' events that a pod was deleted."""

POD_ASSIGNED_RULE: Final = "k8s.assigned"
"""The rule for Kubernetes' scheduler that puts a pod on a node."""

HANDLED_RULE: Final = "workers.handled"
"""The rule for lines in which a program says that it continues after an error."""

UNKNOWN_FAILURE_RULE: Final = "kernel.device_error"
"""The rule for a driver's messages of failure that no other rule knows."""

SHELL_RULE: Final = "slurm.shell"
"""The rule for a job in which a person works at a shell."""

MAY_PASS_FIELD: Final = "may_pass"
"""The field of what missing or slow steps show, while most jobs get over it: it pages no person."""

POD_FIELD: Final = "pod"
"""The pod that a line comes from, or that an event of Kubernetes is about."""

UNNAMED: Final = "unnamed-failure"
"""The class of lines that no rule names, but that call themselves a failure."""

UNNAMED_RULES: Final = "unnamed."
"""What the ids of the rules for such lines begin with."""

TEMPLATE_FIELD: Final = "template"
"""The field with what stays the same in a line that no rule names when it is printed again."""

BLAMED_FIELD: Final = "blamed_rank"
"""The rank that a line blames."""

PEER_FIELD: Final = "peer"
"""The other end of a connection, by name or address."""

PEER_NODE_FIELD: Final = "peer_node"
"""The node that `peer` is, where it is known."""

QUIET_ROLES: Final = ("context", "placement", "progress", "harmless")
"""Roles without a failure: facts about a job, where it runs, completed steps, known noise."""

ENDS: Final = frozenset(
    (
        *("slurm-exit-nonzero", "slurm-time-limit", "slurm-cancelled", "slurm-preempted", "train-timeout"),
        *("stage-fail", "elastic-worker-failed", "mpi-abort", "sigterm-cancelled", "cancelled"),
        *("k8s-evicted", "k8s-preempted"),
    )
)
"""Classes that report the end of the job or its launcher: missing logs after them mean nothing."""


class Signal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rule's condition holds, for a line, a window or missing logs. `onset_ns` is when it began, as far as known.

    `log` is the plain file of a line that names neither node nor job. `is_foreign`: it is about a process on the node
    that is none of a job's. `cleared_ns` is when a line reported that it was over, 0 if none did.
    """

    signal_id: str
    rule: str
    failure_class: str
    severity: str
    role: str
    event_time_ns: int
    onset_ns: int
    cluster: str
    node: str
    source: str
    job: str
    rank: int | None
    gpu: str
    text: str
    position: Position | None
    fields: dict[str, str]
    block: tuple[str, ...] = ()
    log: str = ""
    is_foreign: bool = False
    cleared_ns: int = 0


def is_unnamed(signal: Signal) -> bool:
    """Whether no rule names the line: its class is `UNNAMED`, or what its words suggest."""
    return signal.rule.startswith(UNNAMED_RULES)


def without_suggestion(signal: Signal) -> Signal:
    """An unnamed line's signal with the class `UNNAMED`: incidents don't rest on what words suggest. Others as is."""
    return msgspec.structs.replace(signal, failure_class=UNNAMED) if is_unnamed(signal) else signal


def is_cut_traceback(signal: Signal) -> bool:
    """Whether it is a Python traceback that ends before the line with its exception, so that it names no failure."""
    if signal.failure_class != "python-exception" or signal.fields.get("exception"):
        return False
    last = _LABELS.sub("", signal.block[-1] if signal.block else signal.text, count=1)
    has_words = any(map(str.isalnum, last))
    return last[:1].isspace() or not has_words or any(words in last for words in _ANNOUNCES_A_TRACEBACK)
