"""A pod's job, reported or read from its name."""

from __future__ import annotations

import pytest

from epicenter.rules.placement.pods import MAX_KEPT_PODS, Pods, job_in_name


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("llama-7b-a6eb-worker-3", "llama-7b-a6eb"),
        ("llama-7b-master-0", "llama-7b"),
        ("llama-7b-launcher-x7k2p", "llama-7b"),
        ("llama-7b-0-x7k2p", "llama-7b"),
        ("llama-7b-0-xkjpw", "llama-7b"),
        ("llama-7b-12-3e0a1", "llama-7b"),
        ("llama-3-instr", "llama-3-instr"),
        ("llama-7b-slice-job-0-3-x7k2p", "llama-7b"),
        ("llama-7b-x7k2p", "llama-7b"),
        ("llama-7b-0", "llama-7b"),
        ("llama-7b-0-3", "llama-7b"),
        ("llama-7b", "llama-7b"),
        ("", ""),
    ],
)
def test_the_name_of_a_pod_holds_that_of_its_job(pod: str, job: str) -> None:
    assert job_in_name(pod) == job


def test_a_pod_s_job_is_the_one_it_reported() -> None:
    pods = Pods()
    pods.observe("c", "train-7877-worker-0", "7877")
    assert pods.job_of("c", "train-7877-worker-0") == "7877"
    assert pods.job_of("other", "train-7877-worker-0") == ""


def test_a_pod_s_node_is_the_one_it_reported() -> None:
    pods = Pods()
    pods.observe("c", "train-7877-worker-0", "7877", "n1")
    pods.observe("c", "train-7877-worker-0", "7877")
    assert pods.node_of("c", "train-7877-worker-0") == "n1"
    assert pods.node_of("other", "train-7877-worker-0") == ""


def test_remembered_pods_are_bounded() -> None:
    pods = Pods()
    for number in range(MAX_KEPT_PODS + 2):
        pods.observe("c", f"p{number}", "J", "n1")
    assert len(pods.job_by_pod) == len(pods.node_by_pod) == MAX_KEPT_PODS
    assert pods.job_of("c", "p0") == ""


def test_the_nodes_of_a_job_are_those_of_the_pods_that_are_its_replicas_by_name() -> None:
    pods = Pods()
    for number, pod in enumerate(("run7-worker-0", "run7-0-x7k2p", "run7-worker-0", "run7-eval-0", "run71-0")):
        pods.assign("c", pod, f"n{number}")
    assert pods.nodes_assigned_to("c", "run7") == ["n2", "n1"]
    assert pods.nodes_assigned_to("other", "run7") == []


def test_assigned_pods_are_bounded() -> None:
    pods = Pods()
    for number in range(MAX_KEPT_PODS + 2):
        pods.assign("c", f"run7-{number}", f"n{number}")
    assert len(pods.nodes_assigned_to("c", "run7")) == MAX_KEPT_PODS
    assert "n1" not in pods.nodes_assigned_to("c", "run7")
