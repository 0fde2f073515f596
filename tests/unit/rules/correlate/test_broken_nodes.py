"""Which node a job lacks that stopped, where no line says it."""

from __future__ import annotations

import pytest

from epicenter.rules.correlate.broken_nodes import MAX_AT_ONCE
from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, alive, an_xid

BROKEN = an_xid(79, 12, "n9")


def a_stop(job: str, second: float = 10, cluster: str = "default") -> Match:
    """A rank loses its connection to another one."""
    return a_match("nccl.peer_gone", second, f"node-of-{job}", job, rank=0, cluster=cluster)


def jobs_without_a_gpu(*matches: Match, alive_before: tuple[str, ...] = ("A", "B")) -> list[tuple[str, ...]]:
    """The jobs of each incident in which a GPU is lost; only those `alive_before` may lack a node."""
    engine = Engine(the_rules())
    events = [match.event for match in matches if match.event.job in alive_before]
    engine.add([], [alive(0, event.job, event.node, event.cluster) for event in events])
    engine.add(matches)
    incidents = {incident.incident_id: incident for incident in engine.advance(at(600))}
    return [incident.jobs for incident in incidents.values() if incident.failure_class == "xid-79"]


@pytest.mark.parametrize("matches", [(a_stop("A"), BROKEN), (BROKEN, a_stop("A", 14))])
def test_the_only_node_that_breaks_as_a_job_stops_is_the_one_that_it_lacks(matches: tuple[Match, ...]) -> None:
    assert jobs_without_a_gpu(*matches) == [("A",)]


def test_of_two_jobs_that_stop_no_one_knows_which_lacks_the_node() -> None:
    assert jobs_without_a_gpu(a_stop("A"), a_stop("B", 11), BROKEN) == [()]


def test_of_two_nodes_that_break_no_one_knows_which_the_job_lacks() -> None:
    assert jobs_without_a_gpu(BROKEN, an_xid(79, 13, "n8"), a_stop("A", 14)) == [(), ()]


def test_a_job_of_another_cluster_lacks_no_node_here() -> None:
    assert jobs_without_a_gpu(a_stop("A", cluster="other"), BROKEN) == [()]


@pytest.mark.parametrize(
    ("count", "cluster", "jobs"),
    [
        pytest.param(MAX_AT_ONCE - 1, "default", ("A",), id="few"),
        pytest.param(MAX_AT_ONCE, "default", (), id="many"),
        pytest.param(MAX_AT_ONCE, "other", ("A",), id="many-elsewhere"),
    ],
)
def test_where_very_many_jobs_stop_the_same_moment_shows_nothing(count: int, cluster: str, jobs: tuple[str]) -> None:
    complete = [a_stop(f"complete{number}", 11, cluster) for number in range(count)]
    assert jobs_without_a_gpu(a_stop("A"), *complete, BROKEN) == [jobs]
