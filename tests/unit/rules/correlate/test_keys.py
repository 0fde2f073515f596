"""What joins signals besides a job: servers, many nodes at once, paths; and signals that wait for an incident."""

from __future__ import annotations

import pytest

from epicenter.rules.correlate.correlator import ENDED_FOR_NS, Correlator
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.correlate.unattached import MAX_KEPT_KEYS, MAX_KEPT_PER_KEY, RETENTION_NS, UnattachedSignals
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import at
from tests.support.signals import a_signal, related

RETENTION_S = RETENTION_NS // NS_PER_S


def correlated(*signals: Signal) -> list[IncidentState]:
    correlator = Correlator()
    for signal in signals:
        correlator.on_signal(signal, related)
    return sorted(correlator.open.values(), key=lambda incident: incident.first_onset_ns)


def nfs(second: float, node: str, server: str = "10.1.0.9") -> Signal:
    return a_signal("nfs-server-not-responding", second, node, source="kernel", role="root", fields={"server": server})


def link_down(second: float, node: str) -> Signal:
    return a_signal("ib-link-down", second, node, source="kernel", role="root")


def thermal(second: float, node: str = "n7", job: str = "A") -> Signal:
    return a_signal("gpu-thermal", second, node, job, source="kernel", role="root", severity="warning")


def test_a_server_that_many_nodes_wait_for_is_one_incident_with_all_their_jobs() -> None:
    (incident,) = correlated(nfs(0, "n1"), nfs(900, "n40"), a_signal("hang", 1000, "n40", "B"))
    assert (incident.nodes, incident.jobs) == ({"n1", "n40"}, {"B"})


def test_two_servers_that_fail_hours_apart_are_two_incidents() -> None:
    assert len(correlated(nfs(0, "n1"), nfs(7200, "n40"))) == 2
    assert len(correlated(nfs(0, "n1"), nfs(100, "n40", server="10.1.0.8"))) == 2


@pytest.mark.parametrize(("apart_s", "incidents"), [(20, 1), (90, 3)])
def test_links_that_go_down_on_many_nodes_at_once_have_one_cause(apart_s: int, incidents: int) -> None:
    assert len(correlated(*(link_down(number * apart_s, f"n{number}") for number in range(3)))) == incidents


@pytest.mark.parametrize(("job", "incidents"), [("", 1), ("B", 2)])
def test_hardware_that_broke_before_a_job_began_is_in_its_incident_unless_another_job_reports_it(
    job: str, incidents: int
) -> None:
    broken = a_signal("fabric-manager-error", 0, "n1", job, source="", role="root")
    assert len(correlated(broken, a_signal("fabric-manager-error", 40, "n1", "A", role="root"))) == incidents


def test_a_warning_joins_the_failure_that_it_explains_later() -> None:
    (incident,) = correlated(thermal(0), a_signal("nccl-timeout", 1800, "n1", "A", onset=1200))
    assert set(incident.signals_by_class) == {"gpu-thermal", "nccl-timeout"}
    assert incident.first_onset_ns == at(0)


def test_a_warning_that_is_repeated_began_with_its_first_line() -> None:
    warnings = [thermal(30 * number) for number in range(3 * MAX_KEPT_PER_KEY)]
    (incident,) = correlated(*warnings, a_signal("nccl-timeout", 2400, "n1", "A", onset=1800))
    assert incident.first_onset_ns == at(0)


def test_a_warning_of_long_ago_or_of_another_job_does_not_join() -> None:
    for earlier in (thermal(-RETENTION_S), thermal(0, job="B")):
        (incident,) = correlated(earlier, a_signal("nccl-timeout", 10, "n1", "A"))
        assert set(incident.signals_by_class) == {"nccl-timeout"}


def test_a_warning_that_has_nothing_to_do_with_an_open_failure_stays_out() -> None:
    warning = a_signal("mce-corrected", 5, "n1", source="kernel", role="root", severity="warning")
    (incident,) = correlated(a_signal("oom-gpu", 1, "n1", "A"), warning)
    assert set(incident.signals_by_class) == {"oom-gpu"}


def test_lines_of_a_cancelled_job_while_it_ends_are_no_failure() -> None:
    cancelled = a_signal("slurm-cancelled", 100, "n1", "A", role="teardown")
    exception, reset = a_signal("python-exception", 101, "n1", "A"), a_signal("connection-reset", 99, "n2", "A")
    assert correlated(cancelled, exception, reset) == []
    assert correlated(reset, cancelled, exception) == []


def test_a_scheduler_s_reason_after_its_plain_cancellation_is_a_failure_but_not_long_after_the_end() -> None:
    cancelled = a_signal("slurm-cancelled", 100, "n1", "A", role="teardown")
    assert len(correlated(cancelled, a_signal("slurm-preempted", 103, "n1", "A", role="root"))) == 1
    assert correlated(cancelled, a_signal("slurm-preempted", 160, "n1", "A", role="root")) == []


def test_an_error_well_before_a_cancellation_or_long_after_is_a_failure() -> None:
    cancelled = a_signal("slurm-cancelled", 100, "n1", "A", role="teardown")
    assert len(correlated(a_signal("python-exception", 90, "n1", "A"), cancelled)) == 1
    late_s = 101 + ENDED_FOR_NS // NS_PER_S
    assert len(correlated(cancelled, a_signal("python-exception", late_s, "n1", "A"))) == 1


def test_a_machine_that_fails_during_a_cancellation_is_a_failure() -> None:
    cancelled = a_signal("slurm-cancelled", 100, "n1", "A", role="teardown")
    assert len(correlated(cancelled, a_signal("xid-79", 101, "n1", "A", source="kernel", role="root"))) == 1


def test_a_higher_severity_is_in_the_history_with_its_reason() -> None:
    (incident,) = correlated(
        a_signal("oom-gpu", 1, "n1", "A"), a_signal("xid-79", 2, "n1", "A", source="kernel", severity="critical")
    )
    assert incident.severity == "critical"
    assert [change.what for change in incident.history] == [
        "opened: oom-gpu on n1",
        "severity rose from error to critical: xid-79 on n1",
    ]


def test_a_merge_is_in_both_histories() -> None:
    correlator = Correlator()
    (first,) = correlator.on_signal(a_signal("nccl-timeout", 10, "n1", "A"), related)
    (second,) = correlator.on_signal(a_signal("nccl-timeout", 20, "n3", "B"), related)
    for job in ("A", "B"):
        correlator.on_placement("default", "n2", job, at(0))
    correlator.on_signal(a_signal("kernel-panic", 30, "n2", source="kernel", role="root"), related)
    assert first.history[-1].what == f"merged with incident {second.incident_id}: kernel-panic on n2 affects both"
    assert second.history[-1].what == f"merged into incident {first.incident_id}: kernel-panic on n2 affects both"


def test_unattached_signals_are_bounded_in_keys_and_in_number() -> None:
    unattached = UnattachedSignals()
    for number in range(MAX_KEPT_KEYS + 5):
        unattached.add(thermal(number), [f"job/default/{number}"])
    for number in range(40):
        unattached.add(thermal(number), ["job/default/A"])
    assert len(unattached.by_key) == MAX_KEPT_KEYS
    assert [signal.event_time_ns for signal in unattached.under(["job/default/A"], at(0))] == [
        at(number) for number in (0, *range(41 - MAX_KEPT_PER_KEY, 40))
    ]
