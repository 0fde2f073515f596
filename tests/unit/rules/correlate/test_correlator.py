"""Which signals make one incident."""

from __future__ import annotations

import pytest

from epicenter.rules.correlate.correlator import Correlator
from epicenter.rules.correlate.state import MAX_KEPT_IDS, MAX_KEPT_PER_CLASS, IncidentState
from epicenter.rules.model.signals import Signal
from tests.support.logs import at
from tests.support.signals import a_signal, related


def correlated(*signals: Signal, placed: tuple[tuple[str, str], ...] = (), at_second: float = 0) -> list[IncidentState]:
    correlator = Correlator()
    for node, job in placed:
        correlator.on_placement("default", node, job, at(at_second))
    for signal in signals:
        correlator.on_signal(signal, related)
    return sorted(correlator.open.values(), key=lambda incident: incident.first_onset_ns)


def xid(second: float, node: str = "n1", **more: object) -> Signal:
    return a_signal("xid-79", second, node, source="kernel", role="root", severity="critical", **more)


def test_copies_are_recognized_among_tens_of_thousands_of_signals() -> None:
    incident = IncidentState("one", "default")
    many = [a_signal("nccl-timeout", second, "n1", "A") for second in range(3 * MAX_KEPT_IDS)]
    assert sum(incident.add(signal, {"A"}) for signal in many + many[-MAX_KEPT_IDS:]) == len(many)
    assert incident.signal_count == len(many)
    assert len(incident.seen) + len(incident.seen_before) < 2 * MAX_KEPT_IDS


def test_a_kernel_line_without_job_joins_its_job_s_incident_by_learnt_placement() -> None:
    (incident,) = correlated(a_signal("nccl-timeout", 1, "n2", "A"), xid(2, "n1"), placed=(("n1", "A"),))
    assert (incident.jobs, incident.nodes, incident.signal_count) == ({"A"}, {"n1", "n2"}, 2)


def test_a_kernel_line_of_a_node_without_jobs_stays_alone() -> None:
    assert len(correlated(a_signal("nccl-timeout", 1, "n2", "A"), xid(2, "n1"))) == 2


def test_a_kernel_line_joins_signals_of_its_node() -> None:
    (incident,) = correlated(a_signal("python-exception", 1, "n1", "A"), xid(2, "n1"))
    assert incident.kernel_nodes == {"n1"}


def test_a_worker_line_joins_kernel_signals_of_its_node() -> None:
    (incident,) = correlated(xid(1, "n1"), a_signal("python-exception", 2, "n1", "A"))
    assert incident.jobs == {"A"}


def test_two_jobs_that_share_a_node_as_victims_stay_apart() -> None:
    first, second = correlated(
        a_signal("oom-gpu", 1, "n1", "A"),
        a_signal("cuda-illegal-access", 2, "n3", "B"),
        a_signal("python-exception", 3, "n2", "A"),
        a_signal("python-exception", 4, "n2", "B"),
        placed=(("n2", "A"), ("n2", "B")),
    )
    assert (first.jobs, second.jobs) == ({"A"}, {"B"})


@pytest.mark.parametrize(
    ("first", "incidents"),
    [
        pytest.param(a_signal("disk-full", 0, "n1"), 1, id="same"),
        pytest.param(a_signal("disk-full", 0, "n1", "B"), 2, id="another-job"),
        pytest.param(a_signal("disk-full", 0, "n2"), 2, id="another-node"),
        pytest.param(a_signal("auth-expired", 0, "n1"), 2, id="another-class"),
        pytest.param(a_signal("disk-full", -700, "n1"), 2, id="long-before"),
    ],
)
def test_a_job_s_failure_is_that_which_a_line_without_a_job_reported_at_its_place(
    first: Signal, incidents: int
) -> None:
    assert len(correlated(first, a_signal("disk-full", 1, "n1", "A"))) == incidents


def test_a_node_s_crash_is_one_incident_with_all_its_jobs() -> None:
    (incident,) = correlated(
        xid(1, "n2"),
        a_signal("nccl-timeout", 600, "n1", "A"),
        a_signal("nccl-timeout", 601, "n3", "B"),
        placed=(("n2", "A"), ("n2", "B")),
    )
    assert (incident.jobs, incident.nodes) == ({"A", "B"}, {"n1", "n2", "n3"})


def test_a_signal_that_links_two_incidents_merges_them() -> None:
    correlator = Correlator()
    (first,) = correlator.on_signal(a_signal("nccl-timeout", 10, "n1", "A"), related)
    (second,) = correlator.on_signal(a_signal("nccl-timeout", 20, "n3", "B"), related)
    correlator.on_placement("default", "n2", "A", at(0))
    correlator.on_placement("default", "n2", "B", at(0))
    changed = correlator.on_signal(xid(30, "n2"), related)
    assert changed == [first, second]
    assert (second.status, second.merged_into) == ("resolved", first.incident_id)
    assert list(correlator.open) == [first.incident_id]
    assert (first.signal_count, first.first_onset_ns, first.last_seen_ns) == (3, at(10), at(30))


@pytest.mark.parametrize("role", ["teardown", "advice", "confirmation", "finished"])
def test_a_consequence_opens_no_incident_but_joins_one(role: str) -> None:
    cancelled = a_signal("slurm-cancelled", 2, "n1", "A", role=role, severity="critical")
    assert correlated(cancelled) == []
    (incident,) = correlated(a_signal("cuda-illegal-access", 1, "n1", "A"), cancelled)
    assert incident.signal_count == 2


@pytest.mark.parametrize("severity", ["info", "warning"])
def test_a_signal_that_is_no_error_opens_nothing(severity: str) -> None:
    assert correlated(a_signal("mce-corrected", 1, severity=severity, role="root")) == []


def test_incidents_of_different_clusters_stay_apart() -> None:
    assert len(correlated(a_signal("oom-gpu", 1, "n1", "A"), a_signal("oom-gpu", 2, "n1", "A", cluster="other"))) == 2


def test_a_copy_changes_nothing() -> None:
    correlator = Correlator()
    assert correlator.on_signal(a_signal("oom-gpu", 1, "n1", "A"), related)
    assert correlator.on_signal(a_signal("oom-gpu", 1, "n1", "A"), related) == []
    assert [incident.signal_count for incident in correlator.open.values()] == [1]


def test_many_ranks_are_counted_and_the_earliest_retained() -> None:
    timeouts = [a_signal("nccl-timeout", 600 + rank, "n1", "A", onset=rank, rank=rank) for rank in reversed(range(40))]
    (incident,) = correlated(*timeouts)
    assert (incident.signal_count, len(incident.ranks)) == (40, 40)
    assert [signal.rank for signal in incident.signals()] == list(range(MAX_KEPT_PER_CLASS))


def test_a_job_leaves_its_node_when_only_other_jobs_report_there() -> None:
    correlator = Correlator()
    correlator.on_placement("default", "n1", "old", at(0))
    assert correlator.jobs_of(xid(30_000)) == {"old"}
    correlator.on_placement("default", "n1", "new", at(20_000))
    assert correlator.jobs_of(xid(30_000)) == {"new"}


def test_jobs_that_share_a_node_are_all_placed_there() -> None:
    correlator = Correlator()
    for second in (0, 3000, 6000):
        correlator.on_placement("default", "n1", "A", at(second))
        correlator.on_placement("default", "n1", "B", at(second + 1))
    assert correlator.jobs_of(xid(7000)) == {"A", "B"}
    assert correlator.jobs_of(xid(7000, cluster="other")) == set()


def test_a_placement_learnt_late_merges_both_incidents() -> None:
    correlator = Correlator()
    correlator.on_signal(xid(60, "n1"), related)
    correlator.on_signal(a_signal("nccl-timeout", 660, "n2", "A"), related)
    changed = correlator.on_placement("default", "n1", "A", at(5))
    (incident,) = correlator.open.values()
    assert (incident.jobs, incident.nodes, incident.signal_count) == ({"A"}, {"n1", "n2"}, 2)
    assert [change.merged_into for change in changed] == ["", incident.incident_id]


def test_a_job_that_starts_well_after_the_kernel_s_line_is_not_linked_to_it() -> None:
    correlator = Correlator()
    correlator.on_signal(xid(60, "n1"), related)
    assert correlator.on_placement("default", "n1", "B", at(71)) == []
    assert correlator.on_placement("elsewhere", "n1", "A", at(5)) == []
    (incident,) = correlator.open.values()
    assert incident.jobs == set()
