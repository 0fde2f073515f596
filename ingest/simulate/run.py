"""Plays a plan: every line of the run, in the order of writing."""

from __future__ import annotations

from collections.abc import Iterator

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.disturbances import processes, survives
from epicenter.ingest.simulate.faults import Case, FaultKind
from epicenter.ingest.simulate.jobs import live
from epicenter.ingest.simulate.model import Scenario, SimulatedLine, Truth
from epicenter.ingest.simulate.noise import chatter
from epicenter.ingest.simulate.plan import Plan, plan_of
from epicenter.rules.model.times import NS_PER_S


def simulate(scenario: Scenario) -> Iterator[SimulatedLine]:
    """Every line of the run, in the order of writing. Memory does not grow with the length of the run.

    Raises:
        ConfigError: the scenario contradicts itself; names every problem.
    """
    return _play(plan_of(scenario))


def truth_of(scenario: Scenario) -> Truth:
    """The ground truth of the run, known without simulating it."""
    return plan_of(scenario).truth()


def _play(plan: Plan) -> Iterator[SimulatedLine]:
    cluster = Cluster(plan.scenario, plan.nodes, plan.jobs)
    for node in plan.nodes:
        cluster.start(chatter(cluster, node))
    for job in plan.jobs:
        cluster.start(live(cluster, job), 1.0)
    for kind, case in plan.cases:
        cluster.start(_inject(cluster, kind, case), (case.onset_ns - plan.scenario.start_ns) / NS_PER_S)
    for process in processes(cluster, [case for _, case in plan.cases]):
        cluster.start(process)
    yield from filter(survives(plan.scenario), cluster.clockwork.run(plan.end_ns))


def _inject(cluster: Cluster, kind: FaultKind, case: Case) -> Process:
    """Run the script. Where a rank is hit, its job completes no further step."""
    if kind.reach == "rank":
        case.job.is_stalled = True
    yield from kind.script(cluster, case)
