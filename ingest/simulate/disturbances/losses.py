"""Evidence that is missing or mistimed: wrong clocks, dead shippers, lost files and lines."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults import HARDWARE, Case, FaultKind
from epicenter.ingest.simulate.jobs import START_UP_S
from epicenter.ingest.simulate.model import Job, Node, Scenario, ns
from epicenter.rules.model.times import NS_PER_S

KERNEL_FILES: Final = ("kern.log", "journald.jsonl", "journal.jsonl", "kmsg.jsonl")
SKEWED_SHARE: Final = 0.3
SKEW_S: Final = (2.0, 60.0)
MUTE_BEFORE_S: Final = (60.0, 240.0)


def skew(nodes: Iterable[Node], rng: Random) -> None:
    """Set three clocks in ten wrong, ahead or behind."""
    for node in nodes:
        if rng.random() < SKEWED_SHARE:
            node.skew_ns = ns(rng.choice((-1, 1)) * rng.uniform(*SKEW_S))


def mute(cluster: Cluster, job: Job, case: Case | None, rng: Random) -> Process:
    """The shipper of a node dies that neither fails nor prints steps: not the first, not the last."""
    at_fault = [] if case is None else [case.place]
    places = sorted(set(range(1, len(job.nodes) - 1)) - set(at_fault))
    if not places or job.framework == "ray":
        return
    until_s = cluster.scenario.minutes * 30
    if case is not None:
        until_s = (case.onset_ns - cluster.scenario.start_ns) / NS_PER_S - rng.uniform(*MUTE_BEFORE_S)
    yield max(START_UP_S + 15, until_s)
    job.nodes[rng.choice(places)].has_shipper = False


def may_hide(scenario: Scenario, kind: FaultKind) -> bool:
    """Whether the lines that name the fault may be lost."""
    return ("no-kernel-log" if kind.name in HARDWARE else "half") in scenario.disturbances


def is_of_processes(path: str) -> bool:
    """Whether a file holds the lines of jobs' processes."""
    return path.endswith(("worker.jsonl", ".out"))
