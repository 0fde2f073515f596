"""The plan of a simulated run: what a scenario asks for, who breaks and when, and the ground truth that follows."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec

from ingest import simulate_lines as lines
from ingest.simulate_lines import BUSES, Host
from rules.errors import ConfigError
from rules.model import NS_PER_S

Fault = Literal["gpu-off-bus", "host-oom", "jax-heartbeat", "none"]
Framework = Literal["megatron", "maxtext"]

START_UP_S: Final = 10.0
"""From the start of the simulation to the start of the first training step."""

_CASCADE: Final = ("nccl-timeout", "sigabrt", "elastic-worker-failed", "slurm-exit-nonzero", "slurm-cancelled")
_CLASSES: Final[dict[Fault, tuple[str, ...]]] = {
    "gpu-off-bus": ("xid-79", "gpu-fallen-off-bus", "pcie-aer-fatal", "xid-154", *_CASCADE),
    "host-oom": ("host-oom-kill", "oom-dataloader-host", "nccl-error", *_CASCADE),
    "jax-heartbeat": ("heartbeat-timeout", "jax-coordination-error", "slurm-exit-nonzero", "slurm-cancelled"),
    "none": (),
}
_FRAMEWORK_OF: Final[dict[Fault, Framework]] = {
    "gpu-off-bus": "megatron",
    "host-oom": "megatron",
    "jax-heartbeat": "maxtext",
}
_ROOT: Final[dict[Fault, tuple[str, tuple[str, ...]]]] = {
    "gpu-off-bus": ("xid-79", ("gpu-fallen-off-bus", "pcie-aer-fatal")),
    "host-oom": ("host-oom-kill", ("oom-dataloader-host",)),
    "jax-heartbeat": ("heartbeat-timeout", ("node-fail",)),
}


class Scenario(msgspec.Struct, frozen=True):
    """One run of one job. `framework` None takes what the fault needs: maxtext for jax-heartbeat, else megatron.

    `fault_at_s` counts from `start_ns`; a healthy run ends after `steps` steps. Noise is counted in happenings a node
    and minute, on the kernel log and on the worker log; a happening is one to six lines.
    """

    nodes: int = 32
    gpus_per_node: int = 8
    job: str = "7877"
    seed: int = 1
    start_ns: int = 1_772_442_000 * NS_PER_S  # 2026-03-02T09:00:00Z
    step_time_s: float = 5.0
    steps: int = 200
    fault: Fault = "gpu-off-bus"
    fault_at_s: float = 60.0
    collective_timeout_s: float = 600.0
    heartbeat_timeout_s: float = 100.0
    framework: Framework | None = None
    kernel_noise_per_minute: float = 1.5
    worker_noise_per_minute: float = 1.5


class RootCause(msgspec.Struct, frozen=True):
    """What broke first. `gpu` is a PCI bus id, None where no GPU is to blame; `rank` is the JAX task under MaxText.

    `event_time` is that of the decisive kernel line, or of the last moment alive where a node just fell silent.
    `also_ok` are classes that name the same event from another line.
    """

    class_: str = msgspec.field(name="class")
    node: str
    gpu: str | None
    rank: int
    event_time: str
    also_ok: tuple[str, ...] = ()


class Truth(msgspec.Struct, frozen=True):
    """What really happened; `root_cause` is None in a healthy run.

    `classes` are the failure classes that lines show; `nodes` and `ranks` are all of the job's, which a fault stops.
    """

    job: str
    healthy: bool
    root_cause: RootCause | None
    classes: tuple[str, ...]
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]


class Plan(msgspec.Struct, frozen=True):
    """A scenario with its dice rolled: who breaks, when, and when training stops."""

    scenario: Scenario
    framework: Framework
    hosts: tuple[Host, ...]
    culprit: Host
    gpu: int
    fault_ns: int | None
    training_ns: int

    @property
    def rank(self) -> int:
        """The rank at fault: of the GPU with torch, of the node's one task with JAX."""
        return self.culprit.ranks[self.gpu] if self.framework == "megatron" else self.culprit.index

    @property
    def stop_ns(self) -> int:
        """When training stops, by the fault or because it is done."""
        if self.fault_ns is not None:
            return self.fault_ns
        return self.training_ns + self.scenario.steps * step_ns(self.scenario)

    @property
    def peers(self) -> list[Host]:
        """The nodes that only suffer."""
        return [host for host in self.hosts if host is not self.culprit]


def plan_of(scenario: Scenario) -> Plan:
    """Roll the dice.

    Raises:
        ConfigError: the scenario contradicts itself; names every problem.
    """
    framework = scenario.framework or ("maxtext" if scenario.fault == "jax-heartbeat" else "megatron")
    problems = _problems(scenario, framework)
    if problems:
        raise ConfigError(problems)
    rng = Random(f"{scenario.seed}/root")
    culprit = rng.randrange(scenario.nodes)
    if scenario.fault == "jax-heartbeat" and culprit == 0:
        culprit = 1  # task 0 leads; were it silent, nobody would name it
    fault_ns = scenario.start_ns + ns(scenario.fault_at_s) + rng.randrange(900_000) * lines.US
    hosts = tuple(
        Host(i, scenario.gpus_per_node, scenario.job, framework, scenario.start_ns - ns(rng.uniform(3e5, 6e6)))
        for i in range(scenario.nodes)
    )
    return Plan(
        scenario=scenario,
        framework=framework,
        hosts=hosts,
        culprit=hosts[culprit],
        gpu=min(3, scenario.gpus_per_node - 1),
        fault_ns=None if scenario.fault == "none" else fault_ns,
        training_ns=scenario.start_ns + ns(START_UP_S),
    )


def _problems(scenario: Scenario, framework: Framework) -> list[str]:
    is_faulty = scenario.fault != "none"
    needed = _FRAMEWORK_OF.get(scenario.fault, framework)
    nodes = {"none": 1, "host-oom": 4}.get(scenario.fault, 2)
    last_s = START_UP_S + scenario.steps * scenario.step_time_s - 1
    gpus, at_s, timeout_s = scenario.gpus_per_node, scenario.fault_at_s, scenario.collective_timeout_s
    checks = (
        (scenario.nodes >= nodes, f"nodes: {scenario.nodes}: fault {scenario.fault} needs {nodes} or more"),
        (1 <= gpus <= len(BUSES), f"gpus_per_node: {gpus}: write 1 to {len(BUSES)}"),
        (scenario.step_time_s >= 0.1, f"step_time_s: {scenario.step_time_s}: write 0.1 or more"),
        (scenario.steps >= 1, f"steps: {scenario.steps}: write 1 or more"),
        (framework == needed, f"framework: {framework}: fault {scenario.fault} needs {needed}"),
        (
            not is_faulty or START_UP_S < at_s < last_s,
            f"fault_at_s: {at_s}: write a time between {START_UP_S:g} and {last_s:g}, while the job trains",
        ),
        (timeout_s >= 10, f"collective_timeout_s: {timeout_s}: write 10 or more"),
        (scenario.heartbeat_timeout_s >= 1, f"heartbeat_timeout_s: {scenario.heartbeat_timeout_s}: write 1 or more"),
    )
    return [problem for is_fine, problem in checks if not is_fine]


def ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NS_PER_S)


def step_ns(scenario: Scenario) -> int:
    """How long a training step takes."""
    return ns(scenario.step_time_s)


def truth_of(scenario: Scenario) -> Truth:
    """The ground truth of the run, known without simulating it."""
    plan = plan_of(scenario)
    return Truth(
        job=scenario.job,
        healthy=plan.fault_ns is None,
        root_cause=None if plan.fault_ns is None else _root_cause(plan, plan.fault_ns),
        classes=_CLASSES[scenario.fault],
        nodes=tuple(host.name for host in plan.hosts),
        ranks=tuple(range(scenario.nodes * (scenario.gpus_per_node if plan.framework == "megatron" else 1))),
    )


def _root_cause(plan: Plan, fault_ns: int) -> RootCause:
    class_, also_ok = _ROOT[plan.scenario.fault]
    return RootCause(
        class_=class_,
        node=plan.culprit.name,
        gpu=lines.bus(plan.gpu) if plan.scenario.fault == "gpu-off-bus" else None,
        rank=plan.rank,
        event_time=lines.rfc3339_us(fault_ns),
        also_ok=also_ok,
    )
