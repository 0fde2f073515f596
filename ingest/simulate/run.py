"""A plan played: every line of the run, in the order of writing."""

from __future__ import annotations

from collections.abc import Iterator

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults import Case, FaultKind
from epicenter.ingest.simulate.jobs import live
from epicenter.ingest.simulate.model import Scenario, SimulatedLine, Truth
from epicenter.ingest.simulate.noise import murmur
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
        cluster.start(murmur(cluster, node))
    for job in plan.jobs:
        cluster.start(live(cluster, job), 1.0)
    for kind, case in plan.cases:
        cluster.start(_strike(cluster, kind, case), (case.onset_ns - plan.scenario.start_ns) / NS_PER_S)
    yield from cluster.clockwork.run(plan.end_ns)


def _strike(cluster: Cluster, kind: FaultKind, case: Case) -> Process:
    """The script; where a rank is hit, no further step is done from its beginning on."""
    if kind.reach == "rank":
        case.job.is_stuck = True
    yield from kind.script(cluster, case)
