"""A job that never comes together: who is missing, in lines as Slurm, torchrun and their shippers write them."""

from __future__ import annotations

import orjson
import pytest

from epicenter.ingest.simulate.envelopes import event_line, vector_pod_record
from epicenter.rules.model.incident import Incident
from epicenter.rules.placement.hostlist import compress
from epicenter.stream.local.pipeline import Pipeline
from tests.support.logs import at, batch, iso, kernel, rsyslog_line, the_rules, vector

RENDEZVOUS_TIMEOUT = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
LAUNCH_CONFIG = "I0302 09:00:01.200000 201 site-packages/torch/distributed/launcher/api.py:188]   min_nodes        : {}"
CONNECTING = "I0302 09:00:01.200000 14011 distributed.py:149] Connecting to JAX distributed service on 10.0.0.1:1234"
BARRIER_TIMEOUT = (
    "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: "
    "[Init]Wait_for_all_tasks_to_register::0. This usually happens because a task triggered the barrier too early or "
    "too slowly. Please look at the task logs (both timed out and first task) to debug further."
)
SHUTDOWN = (
    "W0302 09:10:03.500000 67693 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death "
    "signal, shutting down workers"
)
CANCELLED = "slurmstepd: error: *** STEP 7801.0 ON {} CANCELLED AT 2026-03-02T09:10:05 ***"


def named(number: int) -> str:
    return f"gpu-a-{number + 1:03}"


def timed_out(nodes: int, missing: set[int], domain: str = "") -> list[bytes]:
    present = [number for number in range(nodes) if number not in missing]
    return [vector(f"{named(n)}{domain}", 600 + n * 0.01, RENDEZVOUS_TIMEOUT, "7801") for n in present]


def srun(nodes: int, missing: set[int]) -> list[bytes]:
    """What srun prints in the batch script's log once the launchers have given up, on the first node."""
    present, killed = ([n for n in range(nodes) if (n in missing) is is_missing] for is_missing in (False, True))
    texts = [
        f"srun: error: {named(present[0])}: task {present[0]}: Exited with exit code 1",
        "srun: Terminating StepId=7801.0",
        CANCELLED.format(named(0)),
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        f"srun: error: {compress(map(named, killed))}: task {killed[0]}: Killed",
    ]
    return [vector(named(0), 603 + 0.1 * n, text, "7801") for n, text in enumerate(texts)]


def head(nodes: int) -> list[bytes]:
    lines = (f"SLURM_JOB_NODELIST={compress(map(named, range(nodes)))}", f"SLURM_NNODES={nodes}")
    return [vector(named(0), 0, line, "7801") for line in lines]


def started(nodes: int, missing: set[int], domain: str = "") -> list[bytes]:
    present = [number for number in range(nodes) if number not in missing]
    return [vector(f"{named(n)}{domain}", 2, LAUNCH_CONFIG.format(nodes), "7801") for n in present]


def incidents(lines: list[bytes]) -> list[Incident]:
    pipeline = Pipeline(the_rules(), "default", 0)
    pipeline.process(batch(lines))
    pipeline.rest()
    newest = {incident.incident_id: incident for incident in pipeline.flush()}
    return [incident for incident in newest.values() if not incident.merged_into]


@pytest.mark.parametrize("nodes", [2, 12, 128, 512])
def test_the_listed_node_that_never_logged_is_missing_although_srun_kills_its_task_later(nodes: int) -> None:
    missing = {1}
    (found,) = incidents([*head(nodes), *started(nodes, missing), *timed_out(nodes, missing), *srun(nodes, missing)])
    assert (found.failure_class, found.verdict) == ("rendezvous-timeout", "never-started")
    assert (found.root_cause.node, found.root_cause.rank) == (named(1), None)
    assert found.title.endswith(f"; {named(1)} did not report it")


@pytest.mark.parametrize("nodes", [2, 12])
def test_the_listed_node_that_logs_only_as_it_is_ended_did_not_come(nodes: int) -> None:
    ended = vector(named(1), 603.5, SHUTDOWN, "7801")
    (found,) = incidents([*head(nodes), *started(nodes, {1}), *timed_out(nodes, {1}), *srun(nodes, {1}), ended])
    assert (found.failure_class, found.root_cause.node, found.verdict) == (
        "rendezvous-timeout",
        named(1),
        "never-started",
    )


def test_a_command_that_a_drive_completed_late_explains_nothing_half_an_hour_later() -> None:
    polled = kernel(named(0), 0, "nvme nvme1: I/O tag 88 (1058) QID 7 timeout, completion polled")
    found = incidents([polled, *head(12), *started(12, {1}), *timed_out(12, {1}), *srun(12, {1})])
    assert [(incident.failure_class, incident.root_cause.node) for incident in found] == [
        ("rendezvous-timeout", named(1))
    ]


def test_nodes_that_log_with_their_domain_are_those_of_the_list() -> None:
    (found,) = incidents([*head(12), *started(12, {7}, ".cluster"), *timed_out(12, {7}, ".cluster"), *srun(12, {7})])
    assert (found.root_cause.node, len(found.nodes)) == (named(7), 12)


def test_several_missing_nodes_are_named_in_the_title() -> None:
    (found,) = incidents([*head(12), *started(12, {3, 7}), *timed_out(12, {3, 7})])
    assert found.root_cause.node == ""
    assert found.title == f"Rendezvous timed out on 10 nodes, job 7801; {named(3)}, {named(7)} had not logged"


def test_without_a_list_of_hosts_the_number_of_missing_nodes_is_known() -> None:
    (found,) = incidents([*started(16, {3, 7}), *timed_out(16, {3, 7})])
    assert found.root_cause.node == ""
    assert found.title == "Rendezvous timed out on 14 nodes, job 7801; 2 of 16 nodes never logged"


def test_the_controller_s_allocation_names_the_missing_node_and_its_host_is_none_of_the_job_s() -> None:
    allocation = f"sched: Allocate JobId=7801 NodeList={compress(map(named, range(12)))} #CPUs=2688 Partition=gpu"
    controller = rsyslog_line("2026-03-02T09:00:00.000000+00:00", "ctl1", "slurmctld[811]:", allocation).encode()
    (found,) = incidents([controller, *started(12, {7}), *timed_out(12, {7})])
    assert (found.root_cause.node, "ctl1" in found.nodes) == (named(7), False)


def test_a_task_that_slurm_kills_first_is_no_consequence() -> None:
    first = vector(named(0), 300, f"srun: error: {named(4)}: task 4: Killed", "7801")
    (found,) = incidents(
        [*head(12), *started(12, set()), first, vector(named(0), 301, CANCELLED.format(named(0)), "7801")]
    )
    assert (found.failure_class, found.root_cause.node, found.root_cause.rank) == ("sigkill", named(4), 4)


def test_a_task_of_srun_is_no_rank_where_torchrun_starts_the_ranks() -> None:
    of_node = (
        "I0302 09:00:01.200000 201 site-packages/torch/distributed/elastic/agent/server/api.py:525]   global_ranks={}"
    )
    ranks = [vector(named(n), 3, of_node.format(list(range(8 * n, 8 * n + 8))), "7801") for n in range(2)]
    killed = vector(named(0), 300, f"srun: error: {named(0)}: task 0: Killed", "7801")
    (found,) = incidents([*head(2), *ranks, killed])
    assert (found.root_cause.node, found.root_cause.rank) == (named(0), None)


def test_a_node_that_slurm_lost_is_named_once() -> None:
    down = "error: Nodes gpu-a-008 not responding, setting DOWN"
    line = rsyslog_line("2026-03-02T09:05:00.000000+00:00", "ctl1", "slurmctld[811]:", down).encode()
    (found,) = incidents([*head(12), *started(12, set()), line])
    assert found.title.count("gpu-a-008") == 1


def pod_line(number: int, second: float, text: str) -> bytes:
    labels = {"training.kubeflow.org/job-name": "llama-7b", "training.kubeflow.org/replica-index": str(number)}
    pod = {"pod_name": f"llama-7b-worker-{number}", "pod_node_name": named(number), "pod_labels": labels}
    return orjson.dumps(vector_pod_record(pod | {"container_name": "pytorch"}, iso(second), "stderr", text))


def pod_event(number: int, second: float, reason: str, text: str) -> bytes:
    return event_line(at(second), "Warning", reason, f"Pod/llama-7b-worker-{number}", text, "", {}).encode()


@pytest.mark.parametrize("nodes", [4, 16, 128])
@pytest.mark.parametrize(
    ("reason", "text", "failure_class"),
    [
        ("FailedScheduling", "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.", "k8s-unschedulable"),
        ("Failed", 'Failed to pull image "registry.site/train:2024.09": rpc error: code = NotFound', "k8s-image-pull"),
    ],
)
def test_the_pod_that_never_ran_is_why_the_others_gave_up(
    nodes: int, reason: str, text: str, failure_class: str
) -> None:
    others = [number for number in range(nodes) if number != 3]
    lines = [pod_line(number, 2, LAUNCH_CONFIG.format(nodes)) for number in others]
    lines += [pod_event(3, 5 + 60 * time, reason, text) for time in range(3)]
    lines += [pod_line(number, 606 + 0.01 * number, RENDEZVOUS_TIMEOUT) for number in others]
    (found,) = incidents(lines)
    assert (found.failure_class, found.root_cause.node) == (failure_class, "")
    assert "llama-7b-worker-3" in found.title


@pytest.mark.parametrize("nodes", [2, 16])
def test_the_node_that_kubernetes_chose_for_a_pod_that_never_logged_is_missing(nodes: int) -> None:
    others = [number for number in range(nodes) if number != 1]
    assigned = "Successfully assigned training/llama-7b-worker-{} to {}"
    lines = [pod_event(number, 0, "Scheduled", assigned.format(number, named(number))) for number in range(nodes)]
    lines += [pod_line(number, 2, LAUNCH_CONFIG.format(nodes)) for number in others]
    lines += [pod_line(number, 606 + 0.01 * number, RENDEZVOUS_TIMEOUT) for number in others]
    (found,) = incidents(lines)
    assert (found.failure_class, found.root_cause.node) == ("rendezvous-timeout", named(1))


@pytest.mark.parametrize("nodes", [2, 8, 128])
def test_the_task_of_jax_that_never_registered_is_on_the_listed_node_that_never_logged(nodes: int) -> None:
    others = [number for number in range(nodes) if number != 1]
    lines = [vector(named(number), 2, CONNECTING, "7801") for number in others]
    lines += [vector(named(number), 302 + 0.01 * number, BARRIER_TIMEOUT, "7801") for number in others]
    (found,) = incidents([*head(nodes), *lines])
    assert (found.failure_class, found.root_cause.node) == ("jax-coordination-error", named(1))
