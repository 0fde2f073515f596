"""The past of the demo's cluster: a week of failures to compare the incident with."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from epicenter.ingest.simulate import Scenario, truth_of, write_all
from epicenter.rules.model.times import NS_PER_S

NODES: Final = 8
SEEDS: Final = 200
HOUR_NS: Final = 3600 * NS_PER_S


class Past(NamedTuple):
    """A failure some hours ago; `same_node`: on the node that fails again in the demo."""

    fault: str
    hours_ago: int
    same_node: bool = False


WEEK: Final = (
    Past("gpu-memory-error", 151, same_node=True),
    Past("host-oom", 122),
    Past("link-down", 98),
    Past("gpu-out-of-memory", 71),
    Past("nvlink-lost", 47),
    Past("gpu-off-bus", 26, same_node=True),
)


def write_history(folder: Path, now_ns: int, node: str) -> None:
    """Write the logs of a week, a folder for each failure; two of them hit `node`, if one of the seeds allows it."""
    for past in WEEK:
        write_all(_scenario(past, now_ns, node), folder / past.fault)


def _scenario(past: Past, now_ns: int, node: str) -> Scenario:
    possible = [_with_seed(past, now_ns, seed) for seed in range(100, 100 + SEEDS)]
    fitting = (scenario for scenario in possible if (truth_of(scenario).faults[0].node == node) == past.same_node)
    return next(fitting, possible[0])


def _with_seed(past: Past, now_ns: int, seed: int) -> Scenario:
    return Scenario(
        nodes=NODES,
        faults=(past.fault,),
        frameworks=("megatron",),
        minutes=0.1,
        seed=seed,
        start_ns=now_ns - past.hours_ago * HOUR_NS,
        step_time_s=4.0,
        fault_at_s=180.0,
        after_fault_s=50.0,
        is_tidy=True,
    )
