"""Sample notifications that templates are tested with: each kind, full and sparse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from epicenter.rules.model.incident import BlastRadius, ChainLink, Cost, Evidence, Incident, Progress, RootCause
from epicenter.rules.model.notification import Action, Brief, Notification

KINDS: Final = ("opened", "reopened", "updated", "repeated", "escalated", "acknowledged", "resolved")
_BEGAN: Final = "2026-03-02T09:00:00.000000000Z"
_ENDED: Final = "2026-03-02T10:00:00.000000000Z"
_LINE: Final = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."

_SPARSE: Final = Incident(
    incident_id="00112233445566ff",
    revision=1,
    status="open",
    failure_class="silent-job",
    severity="error",
    title="Job 7 is silent",
    cluster="default",
    jobs=(),
    nodes=(),
    root_cause=RootCause("silent-job", "silence.job", "", None, "", _BEGAN, 0.5, ()),
    chain=(),
    blast_radius=BlastRadius(0, 0, 0),
    progress={},
    first_seen=_BEGAN,
    last_seen=_BEGAN,
    signal_count=1,
    evidence=(),
    next_steps=(),
    action="none",
)
_FULL: Final = replace(
    _SPARSE,
    incident_id="8899aabbccddeeff",
    failure_class="xid-79",
    severity="critical",
    title="GPU has fallen off the bus on node0001, GPU 0000:3b:00",
    jobs=("7801",),
    nodes=("node0001", "node0002"),
    root_cause=RootCause("xid-79", "nvidia.xid_79", "node0001", 3, "0000:3b:00", _BEGAN, 0.93, ("it began first",)),
    chain=(ChainLink(_BEGAN, _BEGAN, "node0001", 3, "xid-79", "root", _LINE),),
    blast_radius=BlastRadius(2, 16, 1, 16),
    progress={"7801": Progress(1200, _BEGAN, 2.5)},
    evidence=(Evidence("kern.log", 12, "node0001", "xid-79", _LINE),),
    next_steps=("Drain the node.", "Power-cycle it."),
    action="drain-node",
    cost=Cost(120, 23.6, 16, 1100),
)
_ACTION: Final = Action(
    "drain-node", ("node0001",), "0000:3b:00", ("7801",), ("node0001",), 1100, why="1 node of 4 an hour"
)


def samples() -> Iterator[Notification]:
    """One of each kind with all fields filled, then one of each kind with all optional fields empty."""
    for incident in (_FULL, _SPARSE):
        for kind in KINDS:
            yield _sample(kind, incident)


def _sample(kind: str, incident: Incident) -> Notification:
    is_full = incident is _FULL
    status = "resolved" if kind == "resolved" else "open"
    return Notification(
        notification_id="a1b2c3d4e5f60718",
        kind=kind,
        event_time=_ENDED if kind == "resolved" else _BEGAN,
        incident=replace(incident, status=status),
        target="sample",
        group="a group",
        reason="the root cause changed" if is_full else "",
        also=(Brief.of(replace(_SPARSE, status=status)),) if is_full else (),
        more=2 if is_full else 0,
        labels={"cluster": ("default",), "job": incident.jobs} if is_full else {},
        action=_ACTION if is_full else Action(),
        link=f"https://epicenter.example/incidents/{incident.incident_id}" if is_full else "",
    )
