"""A pod's job, reported or read from its name."""

from __future__ import annotations

import pytest

from epicenter.rules.placement.pods import MAX_KEPT_OF_NODE, MAX_KEPT_PODS, Pods, job_in_name


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("llama-7b-a6eb-worker-3", "llama-7b-a6eb"),
        ("llama-7b-master-0", "llama-7b"),
        ("llama-7b-launcher-x7k2p", "llama-7b"),
        ("llama-7b-0-x7k2p", "llama-7b"),
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


def test_pods_are_assigned_to_a_node_of_their_cluster_once_each() -> None:
    pods = Pods()
    for pod in ("train-0", "train-1", "train-0"):
        pods.assign("c", pod, "n1")
    assert pods.assigned_to("c", "n1") == ["train-0", "train-1"]
    assert pods.assigned_to("c", "n2") == pods.assigned_to("other", "n1") == []


def test_assigned_pods_of_a_node_are_bounded() -> None:
    pods = Pods()
    for number in range(MAX_KEPT_OF_NODE + 2):
        pods.assign("c", f"p{number}", "n1")
    assert pods.assigned_to("c", "n1") == [f"p{number}" for number in range(2, MAX_KEPT_OF_NODE + 2)]


def test_nodes_with_assigned_pods_are_bounded() -> None:
    pods = Pods()
    for number in range(MAX_KEPT_PODS + 2):
        pods.assign("c", "p", f"n{number}")
    assert len(pods.assigned) == MAX_KEPT_PODS
    assert pods.assigned_to("c", "n1") == []
