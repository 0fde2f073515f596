"""The plan of a run: which job runs where, what breaks and when, and the ground truth that follows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, get_args

import msgspec

from epicenter.ingest.simulate.disturbances import disturb, may_hide
from epicenter.ingest.simulate.disturbances.attempts import LASTS_S
from epicenter.ingest.simulate.faults import KINDS, Case, FaultKind
from epicenter.ingest.simulate.headers import rfc3339_us
from epicenter.ingest.simulate.jobs import START_UP_S
from epicenter.ingest.simulate.model import (
    BUSES,
    Disturbance,
    Framework,
    Job,
    KernelShipper,
    Node,
    Platform,
    Scenario,
    TrueFault,
    TrueJob,
    Truth,
    ns,
)
from epicenter.rules.errors import ConfigError

MAX_NODES: Final = 2048
MIN_STEPS: Final = 25
"""Steps of a job before something happens to it, so that its cadence can be learnt."""

SWITCH_NODES: Final = 16
"""Nodes behind one leaf switch."""

_SHIPPERS: Final[tuple[KernelShipper, ...]] = ("rsyslog", "vector", "journal", "kmsg")
_PLATFORMS: Final[dict[Framework, tuple[Platform, ...]]] = {
    "megatron": ("slurm", "kubernetes"),
    "maxtext": ("kubernetes",),
    "hf": ("kubernetes",),
    "ray": ("kubernetes",),
}
_EARLY_S: Final = 2.0


class Plan(msgspec.Struct):
    """A scenario with its dice rolled."""

    scenario: Scenario
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    cases: tuple[tuple[FaultKind, Case], ...]
    end_ns: int

    def truth(self) -> Truth:
        """What really happens."""
        return Truth(
            seed=self.scenario.seed,
            nodes=self.scenario.nodes,
            start=rfc3339_us(self.scenario.start_ns),
            end=rfc3339_us(self.end_ns),
            jobs=tuple(
                TrueJob(job.job_id, job.framework, tuple(node.name for node in job.nodes), job.world_size)
                for job in self.jobs
            ),
            faults=tuple(self._true_fault(kind, case) for kind, case in self.cases),
            gpus_per_node=self.scenario.gpus_per_node,
            disturbances=self.scenario.disturbances,
        )

    def _true_fault(self, kind: FaultKind, case: Case) -> TrueFault:
        is_hidden = may_hide(self.scenario, kind)
        hit = [job for job in self.jobs if _is_hit(kind, case, job)]
        nodes = {node.index: node.name for job in hit for node in job.nodes}
        nodes |= {node.index: node.name for node in case.others}
        return TrueFault(
            fault=kind.name,
            failure_class=kind.failure_class,
            also_ok=kind.also_ok,
            node=case.node.name if "node" in kind.names else "",
            gpu=case.bus if "gpu" in kind.names else "",
            rank=case.rank if "rank" in kind.names else None,
            onset=rfc3339_us(case.onset_ns),
            jobs=tuple(job.job_id for job in hit),
            nodes=tuple(name for _, name in sorted(nodes.items())),
            verdict=kind.verdict,
            incident=kind.incident,
            names_node=kind.names_node and not is_hidden,
            names_class=kind.names_class and not is_hidden,
        )


def _is_hit(kind: FaultKind, case: Case, job: Job) -> bool:
    if kind.reach in ("rank", "job"):
        return job is case.job
    reached = {node.index for node in (case.node, *case.others)}
    return any(node.index in reached for node in job.nodes)


def plan_of(scenario: Scenario) -> Plan:
    """Roll the dice.

    Raises:
        ConfigError: the scenario contradicts itself; names every problem.
    """
    if problems := _problems(scenario):
        raise ConfigError(problems)
    rng = Random(f"{scenario.seed}/plan")
    first = scenario.first_node
    nodes = tuple(_node(scenario, index, rng) for index in range(first, first + scenario.nodes))
    kinds = [KINDS[name] for name in scenario.faults]
    jobs = _jobs(scenario, nodes, kinds, rng)
    cases = [(kind, _case(scenario, kind, job, nodes, rng)) for kind, job in zip(kinds, jobs, strict=False)]
    disturb(scenario, nodes, jobs, [case for _, case in cases])
    for kind, case in cases:
        if kind.prepare is not None:
            kind.prepare(case)
    planned_ns = scenario.start_ns + ns(scenario.minutes * 60)
    end_ns = max((planned_ns, *(_end_ns(scenario, kind, case) for kind, case in cases)))
    return Plan(scenario, nodes, jobs, tuple(cases), end_ns)


def mixed(seed: int, count: int) -> tuple[str, ...]:
    """So many kinds of fault, drawn by their weights."""
    rng, names = Random(f"{seed}/mix"), sorted(KINDS)
    return tuple(rng.choices(names, weights=[KINDS[name].weight for name in names], k=count))


def _node(scenario: Scenario, index: int, rng: Random) -> Node:
    skew_s = rng.gauss(0, 0.005) if rng.random() > 0.03 else rng.uniform(-2, 2)
    shipper = rng.choices(_SHIPPERS, weights=(5, 2, 1, 1))[0]
    booted_ns = scenario.start_ns - ns(rng.uniform(3e5, 6e6))
    if scenario.is_tidy:
        return Node(index, booted_ns, 0, "rsyslog")
    return Node(index, booted_ns, ns(skew_s), shipper)


# ---- jobs ------------------------------------------------------------------------------------------------------------


def _jobs(scenario: Scenario, nodes: tuple[Node, ...], kinds: list[FaultKind], rng: Random) -> tuple[Job, ...]:
    """The jobs side by side; of three and more the last two share their nodes, each with half of the GPUs."""
    shares = scenario.jobs >= 3 and scenario.gpus_per_node >= 2
    groups = _groups(nodes, scenario.jobs - shares, rng)
    half = scenario.gpus_per_node // 2
    slots = [(group, 0, scenario.gpus_per_node) for group in groups]
    if shares:
        slots[-1:] = [(groups[-1], 0, half), (groups[-1], half, half)]
    first_id = 7800 + scenario.seed % 1000
    jobs = []
    for i, (group, first_gpu, gpus) in enumerate(slots):
        kind = kinds[i] if i < len(kinds) else None
        jobs.append(_job(scenario, str(first_id + 11 * i), group, first_gpu, gpus, kind, rng))
    return tuple(jobs)


def _groups(nodes: tuple[Node, ...], count: int, rng: Random) -> list[tuple[Node, ...]]:
    """The nodes in as many groups of two or more."""
    spare = len(nodes) - 2 * count
    cuts = sorted(rng.randrange(spare + 1) for _ in range(count - 1))
    sizes = [2 + b - a for a, b in zip([0, *cuts], [*cuts, spare], strict=True)]
    starts = [sum(sizes[:i]) for i in range(count)]
    return [nodes[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def _job(
    scenario: Scenario,
    job_id: str,
    nodes: tuple[Node, ...],
    first_gpu: int,
    gpus: int,
    kind: FaultKind | None,
    rng: Random,
) -> Job:
    choices = (
        [name for name in kind.frameworks if name in scenario.frameworks or not scenario.frameworks] if kind else []
    )
    framework = rng.choice(choices or scenario.frameworks or ("megatron", "maxtext", "hf", "ray"))
    platforms = [name for name in _PLATFORMS[framework] if kind is None or name in kind.platforms]
    platform = rng.choice(platforms)
    step_time_s = scenario.step_time_s or round(rng.choice((1.5, 2.5, 4.0, 6.0, 9.0)) * rng.uniform(0.9, 1.1), 2)
    return Job(
        job_id=job_id,
        framework=framework,
        platform="kubernetes" if scenario.is_tidy else platform,
        nodes=nodes,
        gpus=gpus,
        first_gpu=first_gpu,
        step_time_s=step_time_s,
        timeout_s=scenario.collective_timeout_s or (1800.0 if framework == "ray" else 600.0),
        first_step=rng.choice((0, 0, 1000, 4000)),
        checkpoint_every=rng.choice((20, 50, 100)),
        is_announced=rng.random() < 0.6,
        has_plain_log=rng.random() < 0.3,
        pod_shipper=rng.choice(("vector", "fluent-bit")),
    )


# ---- faults ----------------------------------------------------------------------------------------------------------


def _case(scenario: Scenario, kind: FaultKind, job: Job, nodes: tuple[Node, ...], rng: Random) -> Case:
    place = rng.randrange(len(job.nodes))
    gpu = job.first_gpu + rng.randrange(job.gpus)
    ready_s = START_UP_S + 3 + MIN_STEPS * job.step_time_s * 1.1 + 10
    onset_s = max(ready_s, scenario.minutes * 60 * rng.uniform(0.2, 0.5)) + rng.random()
    if scenario.fault_at_s is not None:
        onset_s = scenario.fault_at_s
    if kind.begins == "before its job":
        onset_s = _EARLY_S
    others = _others(kind, nodes, job.nodes[place])
    return Case(job, place, gpu, scenario.start_ns + ns(onset_s), others)


def _others(kind: FaultKind, nodes: tuple[Node, ...], first: Node) -> tuple[Node, ...]:
    """The other nodes behind the same switch, sixteen in a row, or on the same file server, which is all."""
    if kind.reach == "storage":
        return tuple(node for node in nodes if node is not first)
    if kind.reach != "switch":
        return ()
    leaf = next(leaf for leaf in leaves(nodes) if first in leaf)
    return tuple(node for node in leaf if node is not first)


def leaves(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """The nodes behind each leaf switch."""
    size = min(SWITCH_NODES, max(2, len(nodes) // 2))
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def _end_ns(scenario: Scenario, kind: FaultKind, case: Case) -> int:
    waits_s = case.job.timeout_s if case.job.framework != "maxtext" else 150
    lasts_s = kind.lasts_s if scenario.after_fault_s is None else scenario.after_fault_s
    restarts_s = LASTS_S if "restart" in scenario.disturbances else 0.0
    return case.onset_ns + ns(lasts_s + waits_s + restarts_s)


def _problems(scenario: Scenario) -> list[str]:
    least = 2 * max(1, scenario.jobs - (scenario.jobs >= 3))
    unknown = [name for name in scenario.faults if name not in KINDS]
    strange = [name for name in scenario.disturbances if name not in get_args(Disturbance)]
    checks = (
        (2 <= scenario.nodes <= MAX_NODES, f"nodes: {scenario.nodes}: write 2 to {MAX_NODES}"),
        (scenario.jobs >= 1, f"jobs: {scenario.jobs}: write 1 or more"),
        (scenario.nodes >= least or scenario.jobs < 1, f"jobs: {scenario.jobs}: need {least} nodes or more"),
        (scenario.minutes > 0, f"minutes: {scenario.minutes}: must be above 0"),
        (
            1 <= scenario.gpus_per_node <= len(BUSES),
            f"gpus_per_node: {scenario.gpus_per_node}: write 1 to {len(BUSES)}",
        ),
        (not unknown, f"faults: {', '.join(unknown)}: unknown; write one of {', '.join(sorted(KINDS))}"),
        (
            not strange,
            f"disturbances: {', '.join(strange)}: unknown; write one of {', '.join(sorted(get_args(Disturbance)))}",
        ),
        (len(scenario.faults) <= max(1, scenario.jobs), f"faults: {len(scenario.faults)}: one a job at most"),
        (
            scenario.fault_at_s is None or scenario.fault_at_s > START_UP_S,
            f"fault_at_s: {scenario.fault_at_s}: write a time after {START_UP_S:g}, while the job trains",
        ),
    )
    return [problem for is_fine, problem in checks if not is_fine] + _unsuited(scenario)


def _unsuited(scenario: Scenario) -> list[str]:
    """Faults that none of the wanted frameworks can have."""
    known = [KINDS[name] for name in scenario.faults if name in KINDS]
    wrong = [kind for kind in known if scenario.frameworks and not set(kind.frameworks) & set(scenario.frameworks)]
    wanted = ", ".join(scenario.frameworks)
    return [f"frameworks: {wanted}: fault {kind.name} needs {' or '.join(kind.frameworks)}" for kind in wrong]
