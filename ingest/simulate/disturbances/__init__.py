"""What messy clusters have in addition to a failure, or without one. Each kind is on or off for a whole run.

| name | what it does |
|---|---|
| `at-once` | all faults begin within a minute |
| `decoy` | lasting trouble on another node of the job: corrected errors, heat, a row to remap |
| `foreign` | failures of other programs on the job's nodes |
| `half` | every other line of the jobs' processes is lost |
| `healed` | errors that recover while the job trains |
| `in-house` | jobs under torchrun print steps in unknown formats |
| `mute` | a shipper dies before the fault, on a node that is not at fault |
| `no-kernel-log` | no kernel log is shipped |
| `restart` | a failed job starts again |
| `skew` | three nodes in ten have wrong clocks |
| `topology` | `topology.yaml` tells switches and racks |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.disturbances.attempts import restarted
from epicenter.ingest.simulate.disturbances.bystanders import DECOYS, FOREIGN, HEALED, happening
from epicenter.ingest.simulate.disturbances.losses import KERNEL_FILES, is_of_processes, may_hide, mute, skew
from epicenter.ingest.simulate.faults import Case
from epicenter.ingest.simulate.frameworks.in_house import FORMATS
from epicenter.ingest.simulate.model import Job, Node, Scenario, SimulatedLine, ns

__all__ = ["disturb", "may_hide", "processes", "survives"]

AT_ONCE_S: Final = (5.0, 55.0)


def disturb(scenario: Scenario, nodes: Sequence[Node], jobs: Sequence[Job], cases: Sequence[Case]) -> None:
    """Change what is planned: clocks, formats, onsets. The same scenario without disturbances stays as it was."""
    rng = Random(f"{scenario.seed}/disturb")
    if "skew" in scenario.disturbances:
        skew(nodes, rng)
    if "in-house" in scenario.disturbances:
        for job in jobs:
            job.step_format = rng.randrange(len(FORMATS)) if job.framework in ("megatron", "hf") else None
    if "at-once" in scenario.disturbances:
        for case in cases[1:]:
            case.onset_ns = cases[0].onset_ns + ns(rng.uniform(*AT_ONCE_S))


def processes(cluster: Cluster, cases: Sequence[Case]) -> Iterator[Process]:
    """What happens in addition, from the start of the run."""
    wanted = cluster.scenario.disturbances
    for number, job in enumerate(cluster.jobs):
        case = next((case for case in cases if case.job is job), None)
        for name, kinds in (("decoy", DECOYS), ("foreign", FOREIGN), ("healed", HEALED)):
            if name in wanted:
                yield from happening(cluster, job, case, kinds, cluster.rng(f"{name}/{number}"))
        if "mute" in wanted:
            yield mute(cluster, job, case, cluster.rng(f"mute/{number}"))
        if "restart" in wanted and case is not None:
            yield restarted(cluster, job, case, cluster.rng(f"restart/{number}"))


def survives(scenario: Scenario) -> Callable[[SimulatedLine], bool]:
    """Which lines are not lost."""
    rng, wanted = Random(f"{scenario.seed}/losses"), scenario.disturbances

    def is_kept(line: SimulatedLine) -> bool:
        if "no-kernel-log" in wanted and line.path.endswith(KERNEL_FILES):
            return False
        return not ("half" in wanted and is_of_processes(line.path) and rng.random() < 0.5)

    return is_kept
