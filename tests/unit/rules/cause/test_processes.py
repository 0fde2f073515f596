"""Whose process or pod a line is about."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
import pytest

from epicenter.rules.cause.processes import may_be_foreign, serves_the_cluster, with_owner
from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import Signal
from tests.support.logs import a_scanner, batch, iso, kernel, the_rules
from tests.support.signals import a_match, a_signal, alive


def owned(
    signal: Signal, jobs: Collection[str] = (), logged: Collection[str] = (), pids: Collection[int] = (), ranks: int = 0
) -> Signal:
    if not may_be_foreign(signal):
        return signal
    return with_owner(
        signal, lambda _: set(jobs), lambda *_: pids, lambda *_: ranks, lambda cluster, job: job in logged
    )


def of_kernel(failure_class: str, comm: str, **fields: str) -> Signal:
    named = {"comm": comm, "pid": "41220"} if comm else {}
    return a_signal(failure_class, 5, severity="critical", source="kernel", fields=named | fields)


@pytest.mark.parametrize(
    "process",
    [" for process python3 pid 9120 thread python3 pid 9120)", " Process python3 pid 9120 thread python3 pid 9120"],
)
def test_the_line_below_a_page_fault_names_its_process(process: str) -> None:
    driver = "amdgpu 0000:c1:00.0: amdgpu:"
    lines = (f"{driver} [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)", f"{driver} {process}")
    (found,) = a_scanner().scan(batch([kernel("n1", second, line) for second, line in enumerate(lines)])).matches
    assert (found.fields["comm"], found.fields["pid"]) == ("python3", "9120")


@pytest.mark.parametrize("jobs", [set(), {"A"}], ids=["no-job", "job"])
@pytest.mark.parametrize(
    ("failure_class", "comm", "is_foreign"),
    [
        pytest.param("segfault", "rsync", True, id="segfault-of-rsync"),
        pytest.param("host-oom-kill", "node_exporter", True, id="kill-of-an-exporter"),
        pytest.param("xid-31", "jupyter-lab", True, id="xid-31-of-jupyter"),
        pytest.param("amdgpu-page-fault", "glxgears", True, id="page-fault-of-glxgears"),
        pytest.param("amdgpu-page-fault", "pt_main_thread", False, id="page-fault-of-pytorch"),
        pytest.param("segfault", "python3", False, id="segfault-of-python"),
        pytest.param("host-oom-kill", "pt_data_worker", False, id="kill-of-a-data-loader"),
        pytest.param("segfault", "raylet", False, id="segfault-of-a-raylet"),
        pytest.param("segfault", "", False, id="no-name"),
        pytest.param("xid-79", "rsync", False, id="broken-gpu"),
        pytest.param("hung-task", "rsync", True, id="hung-rsync"),
        pytest.param("hung-task", "python3", False, id="hung-python"),
        pytest.param("hung-task", "kworker/3:1", False, id="hung-kworker"),
        pytest.param("hung-task", "jbd2/sda1-8", False, id="hung-journal"),
        pytest.param("hung-task", "nvidia-smi", False, id="hung-nvidia-smi"),
        pytest.param("segfault", "systemd-journal", True, id="segfault-of-a-program-of-the-node"),
    ],
)
def test_a_program_that_is_not_of_training_is_foreign_with_and_without_a_job_on_its_node(
    failure_class: str, comm: str, is_foreign: bool, jobs: set[str]
) -> None:
    found = owned(of_kernel(failure_class, comm), jobs)
    assert (found.is_foreign, found.severity) == (is_foreign, "warning" if is_foreign else "critical")


@pytest.mark.parametrize(
    ("pids", "ranks", "is_foreign"),
    [
        pytest.param({41213, 41214}, 2, True, id="all-ranks-printed-another"),
        pytest.param({41213, 41220}, 2, False, id="a-rank-printed-it"),
        pytest.param({41213}, 2, False, id="one-of-two-ranks-printed"),
        pytest.param({41213}, 0, True, id="unknown-number-of-ranks"),
        pytest.param({13, 14}, 2, False, id="ids-of-a-container"),
    ],
)
def test_a_process_on_a_gpu_is_foreign_if_all_ranks_of_its_node_are_others(
    pids: set[int], ranks: int, is_foreign: bool
) -> None:
    assert owned(of_kernel("xid-31", "python3"), {"A"}, pids=pids, ranks=ranks).is_foreign is is_foreign


SESSION = "/user.slice/user-20073.slice/session-342.scope"


@pytest.mark.parametrize(
    ("jobs", "cgroup", "is_foreign"),
    [({"99"}, SESSION, True), ({"99"}, "/system.slice/docker-7d1f.scope", False), ({"by-hand"}, SESSION, False)],
    ids=["of-slurm", "in-a-container", "started-by-hand"],
)
def test_a_process_of_a_login_session_is_foreign_where_slurm_runs_the_jobs(
    jobs: set[str], cgroup: str, is_foreign: bool
) -> None:
    assert owned(of_kernel("cgroup-oom-kill", "python3", cgroup=cgroup), jobs).is_foreign is is_foreign


@pytest.mark.parametrize(
    ("jobs", "is_foreign"),
    [({"A"}, True), ({"99"}, False), ({"90_4"}, False), ({"90_4", "99"}, False), (set(), False)],
    ids=["another", "this", "array-task", "this-and-an-array-task", "none"],
)
def test_a_process_in_the_cgroup_of_a_job_is_foreign_where_others_are_known(jobs: set[str], is_foreign: bool) -> None:
    killed = of_kernel("cgroup-oom-kill", "python3", cgroup="/slurm/uid_1000/job_99/step_0")
    assert owned(killed, jobs).is_foreign is is_foreign


@pytest.mark.parametrize(("jobs", "is_foreign"), [({"99"}, True), ({"log:train"}, False), (set(), False)], ids=str)
def test_a_process_of_a_session_is_foreign_where_slurm_runs_jobs(jobs: set[str], is_foreign: bool) -> None:
    killed = of_kernel("cgroup-oom-kill", "java", cgroup="/user.slice/user-1003.slice/session-4.scope")
    assert owned(killed, jobs).is_foreign is is_foreign


@pytest.mark.parametrize("logged", [{"A"}, {"B"}, set()], ids=["it", "another", "none"])
@pytest.mark.parametrize("failure_class", ["k8s-evicted", "k8s-oomkilled", "k8s-crashloop"])
def test_an_event_about_a_pod_is_foreign_if_its_job_never_logged(failure_class: str, logged: set[str]) -> None:
    found = owned(a_signal(failure_class, 5, "n1", "A", source="kubernetes"), logged=logged)
    has_logged = "A" in logged
    assert (found.is_foreign, found.severity) == (not has_logged, "error" if has_logged else "warning")


@pytest.mark.parametrize(
    "signal",
    [
        pytest.param(a_signal("k8s-image-pull", 5, "n1", "A", source="kubernetes"), id="another-class"),
        pytest.param(a_signal("k8s-evicted", 5, "n1", "A", source="worker"), id="another-source"),
    ],
)
def test_other_lines_about_pods_keep_their_severity(signal: Signal) -> None:
    assert owned(signal) is signal


POD = {"pod": "grafana-5c9f7d4b6-x2v4q"}


@pytest.mark.parametrize(
    ("failure_class", "more", "expected"),
    [
        pytest.param("segfault", {"source": "kernel"}, True, id="kernel"),
        pytest.param("segfault", {"source": "kernel", "log": "kern.log"}, True, id="kernel-in-a-file"),
        pytest.param("xid-94", {"source": "kernel"}, True, id="contained-memory-error"),
        pytest.param("xid-79", {"source": "kernel"}, False, id="broken-gpu"),
        pytest.param("k8s-evicted", {"source": "kubernetes"}, True, id="event"),
        pytest.param("container-runtime-fail", {"source": "kubernetes"}, True, id="event-about-a-container"),
        pytest.param("k8s-crashloop", {"source": "any", "fields": POD}, True, id="kubelet"),
        pytest.param("k8s-crashloop", {"source": "any"}, False, id="no-pod"),
        pytest.param("k8s-crashloop", {"source": "any", "fields": POD, "log": "train.log"}, False, id="log-of-a-job"),
        pytest.param("slurm-oom", {"source": "scheduler"}, True, id="scheduler"),
        pytest.param("slurm-time-limit", {"source": "any"}, True, id="slurm-elsewhere"),
        pytest.param("slurm-time-limit", {"source": "any", "log": "slurm-7877.out"}, False, id="slurm-in-a-job-s-log"),
        pytest.param("slurm-node-fail", {"source": "scheduler"}, False, id="node"),
        pytest.param("python-exception", {"source": "scheduler"}, False, id="another-class"),
    ],
)
def test_a_line_may_be_foreign_if_its_source_names_processes_pods_or_jobs(
    failure_class: str, more: dict[str, Any], expected: bool
) -> None:
    assert may_be_foreign(a_signal(failure_class, 5, "n1", "A", **more)) is expected


@pytest.mark.parametrize("logged", [{"A"}, {"B"}], ids=["it", "another"])
@pytest.mark.parametrize(
    ("failure_class", "more"),
    [
        pytest.param("slurm-oom", {"source": "scheduler"}, id="slurm"),
        pytest.param("slurm-exit-nonzero", {"source": "any"}, id="slurm-elsewhere"),
        pytest.param("k8s-crashloop", {"source": "any", "fields": POD}, id="pod-in-a-line"),
        pytest.param("cgroup-oom-kill", {"source": "kernel", "fields": POD}, id="pod-in-a-line-of-the-kernel"),
    ],
)
def test_a_line_about_a_job_that_never_logged_is_foreign(
    failure_class: str, more: dict[str, Any], logged: set[str]
) -> None:
    found = owned(a_signal(failure_class, 5, "n1", "A", severity="critical", **more), logged=logged)
    has_logged = "A" in logged
    assert (found.is_foreign, found.severity) == (not has_logged, "critical" if has_logged else "warning")


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("kube-system", True),
        ("kube-public", True),
        ("gpu-operator", True),
        ("longhorn-system", True),
        ("monitoring", True),
        ("ingress-nginx", True),
        ("ml", False),
        ("systems-research", False),
        ("monitoring-models", False),
        ("default", False),
        ("", False),
    ],
)
def test_the_namespace_of_a_pod_shows_whether_it_serves_the_cluster(namespace: str, expected: bool) -> None:
    assert serves_the_cluster(a_signal("k8s-crashloop", 5, fields={"namespace": namespace})) is expected
    assert not serves_the_cluster(a_signal("k8s-crashloop", 5))


def an_event(second: float, reason: str, message: str, about: dict[str, str]) -> bytes:
    """A Kubernetes Event (core/v1) of the kubelet of n1, as the API server has it."""
    fields: dict[str, Any] = {
        "metadata": {"name": f"{about['name']}.18a2c4d1f0b3", "namespace": "ml"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": "n1"},
        "lastTimestamp": f"{iso(second)[:19]}Z",
        "type": "Warning",
    }
    return orjson.dumps(fields)


def evicted(pod: str) -> bytes:
    return an_event(100, "Evicted", "The node was low on resource: memory. ", {"kind": "Pod", "name": pod})


def incidents_of(*lines: bytes, more: list[Match] | None = None) -> list[Incident]:
    """The incidents of these lines, where job `run7` logs on two nodes."""
    scanned, engine = a_scanner().scan(batch(lines)), Engine(the_rules())
    logged = [alive(second, "run7", node) for second in (0, 95) for node in ("n1", "n2")]
    engine.add([*scanned.matches, *(more or [])], logged, scanned.rank_placements)
    return list({incident.incident_id: incident for incident in engine.flush()}.values())


@pytest.mark.parametrize(
    ("pod", "jobs"), [("run7-worker-1", [("run7",)]), ("grafana-5c9f7d4b6-x2v4q", [])], ids=["of-a-job", "of-no-job"]
)
def test_an_eviction_opens_an_incident_if_the_job_of_the_pod_logs(pod: str, jobs: list[tuple[str, ...]]) -> None:
    assert [incident.jobs for incident in incidents_of(evicted(pod))] == jobs


def test_the_eviction_of_another_pod_is_not_the_cause_of_a_failure_on_its_node() -> None:
    failure = a_match("elastic.first_failure", 102, "n1", "run7")
    (incident,) = incidents_of(evicted("grafana-5c9f7d4b6-x2v4q"), more=[failure])
    assert incident.failure_class == "elastic-worker-failed"


def test_an_event_about_a_node_that_ran_out_of_memory_is_of_the_job_on_the_node() -> None:
    message = "System OOM encountered, victim process: python3, pid: 41220"
    failure = a_match("elastic.first_failure", 102, "n1", "run7")
    (incident,) = incidents_of(an_event(100, "SystemOOM", message, {"kind": "Node", "name": "n1"}), more=[failure])
    assert (incident.failure_class, incident.root_cause.node) == ("host-oom-kill", "n1")


OOM = "Out of memory: Killed process 41220 ({}) total-vm:91234kB, anon-rss:66912kB, file-rss:0kB, shmem-rss:0kB"
HUNG = "INFO: task {}:41220 blocked for more than 120 seconds."


@pytest.mark.parametrize(
    ("text", "comm", "opened"),
    [
        pytest.param(HUNG, "rsync", [], id="hung-rsync"),
        pytest.param(HUNG, "jbd2/sda1-8", ["hung-task"], id="hung-journal"),
        pytest.param(OOM, "rsync", [], id="killed-rsync"),
        pytest.param(OOM, "python3", ["host-oom-kill"], id="killed-python"),
    ],
)
def test_a_program_of_no_job_opens_no_incident_on_a_node_without_jobs(text: str, comm: str, opened: list[str]) -> None:
    found = incidents_of(kernel("n9", 100, text.format(comm)))
    assert [incident.failure_class for incident in found] == opened


@pytest.mark.parametrize("has_a_job", [False, True])
def test_a_killed_program_is_foreign_only_where_a_job_is_known(has_a_job: bool) -> None:
    engine = Engine(the_rules())
    engine.add([a_match("memory.host_oom_kill", 10, "n9", "", source="kernel", fields={"comm": "uwsgi"})])
    if has_a_job:
        engine.add([], [alive(1, "A", "n1")])
    found = engine.flush()
    assert [incident.severity for incident in found] == ([] if has_a_job else ["warning"])


@pytest.mark.parametrize(
    ("job", "opened"), [("run7", ["slurm-oom"]), ("7878", [])], ids=["of-a-job-that-logs", "of-another-job"]
)
def test_a_failure_that_slurm_reports_opens_an_incident_only_for_a_job_that_logs(job: str, opened: list[str]) -> None:
    found = incidents_of(more=[a_match("slurm.oom", 100, "n1", job, source="scheduler")])
    assert [incident.failure_class for incident in found] == opened


@pytest.mark.parametrize(
    ("namespace", "opened"), [("ml", ["k8s-crashloop"]), ("kube-system", [])], ids=["of-a-job", "of-the-cluster"]
)
def test_a_pod_of_the_cluster_that_crashes_opens_no_incident_although_no_job_is_known(
    namespace: str, opened: list[str]
) -> None:
    line = f"back-off 5m0s restarting failed container=main pod=p-x7k2p_{namespace}(5e1f)"
    engine = Engine(the_rules())
    engine.add(a_scanner().scan(batch([f"{iso(100)} n1 kubelet[812]: CrashLoopBackOff: {line}".encode()])).matches)
    assert [incident.failure_class for incident in engine.flush()] == opened


def test_a_foreign_line_does_not_place_its_job_on_the_node() -> None:
    found = incidents_of(evicted("grafana-5c9f7d4b6-x2v4q"), more=[a_match("kernel.hard_lockup", 300, "n1")])
    assert [incident.jobs for incident in found] == [("run7",)]
