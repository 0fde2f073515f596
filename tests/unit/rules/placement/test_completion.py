"""Missing fields of a signal are filled in from the placement."""

from __future__ import annotations

import pytest

from epicenter.rules.model.records import RankPlacement
from epicenter.rules.placement.completion import completed
from epicenter.rules.placement.placement import Placement
from tests.support.logs import at
from tests.support.signals import a_signal


def test_an_event_about_a_pod_belongs_to_the_pod_s_job_by_its_word_or_its_name() -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "7877", "", pod="train-7877-worker-0"))
    event = a_signal("k8s-evicted", 5, "", source="kubernetes")
    assert completed(event, placement, "train-7877-worker-0").job == "7877"
    assert completed(event, placement, "llama-7b-worker-0").job == "llama-7b"
    daemon = a_signal("gpu-thermal", 5, "n1")
    assert completed(daemon, placement, "dcgm-exporter-x7k2p").job == ""


def test_what_a_controller_logs_about_a_job_by_the_name_of_its_pods_is_about_the_id_that_they_log() -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "run-1ff09c", "n1", pod="long-ctx-worker-0"))
    assert completed(a_signal("finished", 5, "", job="long-ctx"), placement).job == "run-1ff09c"
    assert completed(a_signal("k8s-evicted", 5, "", source="kubernetes"), placement, "long-ctx-worker-3").job == (
        "run-1ff09c"
    )
    assert completed(a_signal("finished", 5, "", job="other"), placement).job == "other"


def test_an_id_that_only_an_event_s_label_has_is_the_job_that_logs_under_the_name_of_its_pods() -> None:
    placement = Placement()
    placement.observe("default", "n1", "long-ctx", at(0))
    placement.record_log("default", "long-ctx")
    placement.record(RankPlacement(at(1), "default", "run-1ff09c", "n1", pod="long-ctx-worker-0"))
    event = a_signal("k8s-evicted", 5, "n1", job="run-1ff09c", source="kubernetes")
    assert completed(event, placement, "long-ctx-worker-0").job == "long-ctx"
    assert completed(a_signal("nccl-timeout", 5, "n1", job="long-ctx"), placement).job == "long-ctx"
    placement.record_log("default", "run-1ff09c")
    assert completed(event, placement, "long-ctx-worker-0").job == "run-1ff09c"


@pytest.mark.parametrize(
    ("known", "pod", "job"),
    [
        pytest.param({"run7"}, "run7-workers-0-5-x7k2p", "run7", id="known-job"),
        pytest.param({"run7", "run7-workers"}, "run7-workers-0-5-x7k2p", "run7-workers", id="longest"),
        pytest.param({"run7"}, "run77-workers-0-5-x7k2p", "run77-workers-0", id="part-of-a-word"),
        pytest.param(set(), "run7-workers-0-5-x7k2p", "run7-workers-0", id="unknown-job"),
    ],
)
def test_an_event_about_a_quiet_pod_belongs_to_the_known_job_that_its_name_begins_with(
    known: set[str], pod: str, job: str
) -> None:
    placement = Placement()
    for name in sorted(known):
        placement.observe("default", "n1", name, at(0))
    placement.observe("other", "n1", "run7-workers-0-5", at(0))
    assert completed(a_signal("k8s-evicted", 5, "", source="kubernetes"), placement, pod).job == job


def test_an_event_about_a_pod_happened_on_the_node_that_the_pod_reported() -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "7877", "n3", pod="train-7877-worker-0"))
    placement.record(RankPlacement(at(1), "default", "7877", "", pod="train-7877-worker-0"))
    event = a_signal("k8s-evicted", 5, "", source="kubernetes")
    assert completed(event, placement, "train-7877-worker-0").node == "n3"
    assert completed(event, placement, "train-7877-worker-1").node == ""


def test_every_task_that_jax_declares_dead_is_named() -> None:
    banner = (
        "The following tasks are unhealthy:",
        "/job:jax_worker/replica:0/task:7",
        "/job:jax_worker/replica:0/task:2",
    )
    report = a_signal("heartbeat-timeout", 5, "n1", "A", rank=0, block=banner)
    assert completed(report, Placement()).fields["missing_ranks"] == "2, 7"
    assert "missing_ranks" not in completed(a_signal("heartbeat-timeout", 5, "n1", "A"), Placement()).fields


@pytest.mark.parametrize(
    ("address", "node"),
    [pytest.param("10.1.0.8", "n8", id="known"), pytest.param("10.1.0.9", "10.1.0.9", id="unknown")],
)
def test_ray_s_driver_names_the_node_that_ran_out_of_memory_by_its_address(address: str, node: str) -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "A", "n8", address="10.1.0.8"))
    signal = a_signal("ray-oom-kill", 60, "n1", "A", fields={"node_ip": address})
    assert completed(signal, placement).node == node


def test_an_exception_that_ray_s_driver_prints_happened_at_the_worker() -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "A", "n2", address="10.0.0.2"))
    text = "(TrainController pid=9) ray.exceptions.RayTaskError(KeyError): ray::RayTrainWorker.run() (pid=4016, ip={})"
    for ip, node in (("10.0.0.2", "n2"), ("10.0.0.7", "10.0.0.7")):
        header = text.format(ip)
        assert completed(a_signal("python-exception", 5, "head", "A", text=header), placement).node == node
        inside = a_signal(
            "disk-full", 5, "head", "A", text="OSError: [Errno 28] No space left on device", block=(header,)
        )
        assert completed(inside, placement).node == node


def test_a_host_in_a_line_that_is_a_pod_is_the_node_of_the_pod() -> None:
    placement = Placement()
    placement.record(RankPlacement(at(0), "default", "A", "n3", pod="a-worker-1"))
    named = a_signal("nan-loss", 1, "a-worker-1", "A", fields={"node": "a-worker-1"})
    assert completed(named, placement).node == "n3"


@pytest.mark.parametrize(
    ("fields", "job"),
    [
        pytest.param({"pod": "run7-worker-1"}, "run7", id="known-job"),
        pytest.param({"pod": "ml/run7-worker-1"}, "run7", id="with-its-namespace"),
        pytest.param({"pod": "llama-7b-worker-0"}, "llama-7b", id="unknown-job"),
        pytest.param({}, "", id="no-pod"),
    ],
)
def test_a_line_about_a_pod_belongs_to_the_job_in_the_pod_s_name(fields: dict[str, str], job: str) -> None:
    placement = Placement()
    placement.observe("default", "n1", "run7", at(0))
    assert completed(a_signal("k8s-crashloop", 5, "n1", fields=fields), placement).job == job
