"""The identity of the writer of an envelope, and how many are remembered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from epicenter.ingest.parse import identity
from epicenter.ingest.parse.identity import MAX_WRITER_BYTES, MAX_WRITERS, identity_of


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_identity_by_fields", {})


def test_identity_of_a_known_writer_is_the_same_object() -> None:
    fields = {"host": "n1", "rank": "3", "message": "one"}
    assert identity_of(fields) is identity_of(fields | {"message": "two"})
    assert identity_of(fields) is not identity_of(fields | {"host": "n2"})


def test_identity_of_long_fields_is_read_each_time() -> None:
    fields = {"host": "n1", "kubernetes": {"annotations": {"notes": "x" * MAX_WRITER_BYTES}, "pod_name": "p"}}
    assert (identity_of(fields).node, identity_of(fields).is_in_pod) == ("n1", True)
    assert identity._identity_by_fields == {}


def test_identities_are_forgotten_beyond_the_limit() -> None:
    for number in range(MAX_WRITERS + 1):
        identity_of({"host": f"n{number}"})
    assert len(identity._identity_by_fields) == 1


BYTES_A_WRITER = """
from pathlib import Path
from resource import getpagesize
from epicenter.ingest.parse.identity import MAX_WRITERS, identity_of

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

begun = resident_bytes()
for number in range(MAX_WRITERS):
    identity_of({"host": f"n{number}", "job_id": "A"})
print((resident_bytes() - begun) // MAX_WRITERS)
"""


def test_a_remembered_writer_takes_less_than_a_kilobyte() -> None:
    done = subprocess.run([sys.executable, "-c", BYTES_A_WRITER], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 1000


@pytest.mark.parametrize(
    ("attrs", "who"),
    [
        pytest.param({"job_id": "7877"}, ("7877", "", ""), id="job"),
        pytest.param({"SLURM_JOB_ID": "7877"}, ("7877", "", ""), id="slurm"),
        pytest.param({"training.kubeflow.org/job-name": "A"}, ("A", "", ""), id="label"),
        pytest.param(
            {"io.kubernetes.pod.name": "run7-worker-1", "io.kubernetes.container.name": "pytorch"},
            ("", "run7-worker-1", "pytorch"),
            id="pod",
        ),
        pytest.param({"tag": "llama-worker-3|llama"}, ("llama", "llama-worker-3", ""), id="tag"),
        pytest.param({"tag": "llama-worker-3/5e1f/llama"}, ("llama", "llama-worker-3", ""), id="tag-with-an-id"),
        pytest.param({"tag": "llama-worker-3|nvcr.io"}, ("", "llama-worker-3", ""), id="tag-with-an-image"),
        pytest.param(
            {"tag": "llama-raycluster-7b2-head|llama-7b2"},
            ("llama-7b2", "llama-raycluster-7b2-head", ""),
            id="tag-of-ray",
        ),
        pytest.param({"tag": "llama-worker-3|worker-3"}, ("", "llama-worker-3", ""), id="tag-with-another-name"),
        pytest.param({"tag": "llama-worker-3"}, ("", "llama-worker-3", ""), id="tag-of-one-name"),
        pytest.param({"tag": "trainer"}, ("", "", ""), id="tag-of-every-node"),
        pytest.param(
            {"tag": "llama-worker-3|llama", "job_id": "7877"}, ("7877", "llama-worker-3", ""), id="tag-and-job"
        ),
    ],
)
def test_docker_s_attributes_name_the_job_and_the_pod(attrs: dict[str, str], who: tuple[str, str, str]) -> None:
    found = identity_of({"log": "x\n", "stream": "stdout", "attrs": attrs})
    assert (found.job, found.pod, found.container) == who
    assert (found.is_of_docker, found.is_in_pod) == (True, False)


@pytest.mark.parametrize(
    ("fields", "job"),
    [
        pytest.param({"_SYSTEMD_CGROUP": "/system.slice/slurmstepd.scope/job_7877/step_0/user"}, "7877", id="slurm"),
        pytest.param({"_SYSTEMD_CGROUP": "/slurm/uid_1000/job_7877"}, "7877", id="cgroup-version-1"),
        pytest.param({"_SYSTEMD_UNIT": "train-job-7877.service"}, "7877", id="unit"),
        pytest.param({"_SYSTEMD_CGROUP": "/system.slice/job_7877", "job": "A"}, "A", id="stated-job"),
        pytest.param({"_SYSTEMD_CGROUP": "/system.slice/cronjob_7877/x"}, "", id="another-word"),
        pytest.param({"_SYSTEMD_UNIT": "batch-job-7877b.service"}, "", id="no-number"),
        pytest.param({"_SYSTEMD_UNIT": "train-77.service"}, "77", id="unit-of-a-training"),
        pytest.param({"_SYSTEMD_UNIT": "training@llama-7b.service"}, "llama-7b", id="instance-of-a-unit"),
        pytest.param({"_SYSTEMD_CGROUP": "/system.slice/trainer-77.scope"}, "77", id="cgroup-of-a-training"),
        pytest.param({"_SYSTEMD_UNIT": "train.service"}, "", id="unit-without-a-name"),
        pytest.param({"_SYSTEMD_UNIT": "retrain-77.service"}, "", id="unit-of-another-word"),
        pytest.param({"_SYSTEMD_UNIT": "train-77.timer"}, "", id="timer"),
        pytest.param({"_SYSTEMD_UNIT": "sshd.service"}, "", id="daemon"),
    ],
)
def test_a_cgroup_of_systemd_names_the_job(fields: dict[str, str], job: str) -> None:
    assert identity_of({"MESSAGE": "x", "_HOSTNAME": "n1"} | fields).job == job


@pytest.mark.parametrize(
    ("fields", "rank"),
    [
        pytest.param({"SYSLOG_IDENTIFIER": "rank5"}, "5", id="identifier"),
        pytest.param({"SYSLOG_IDENTIFIER": "rank-5"}, "5", id="identifier-with-a-dash"),
        pytest.param({"proc": "rank_12"}, "12", id="proc"),
        pytest.param({"process": "rank5"}, "5", id="process"),
        pytest.param({"SYSLOG_IDENTIFIER": "rank5", "rank": "6"}, "6", id="stated-rank"),
        pytest.param({"SYSLOG_IDENTIFIER": "ranker"}, "", id="another-word"),
        pytest.param({"SYSLOG_IDENTIFIER": "rank5.sh"}, "", id="script"),
        pytest.param({"SYSLOG_IDENTIFIER": "crank5"}, "", id="end-of-another-word"),
        pytest.param({"proc": "python3"}, "", id="program"),
    ],
)
def test_a_process_that_is_named_after_its_rank_is_of_that_rank(fields: dict[str, str], rank: str) -> None:
    assert identity_of({"MESSAGE": "x", "_HOSTNAME": "n1"} | fields).rank == rank


def test_the_writers_of_one_node_whose_processes_differ_are_different_ranks() -> None:
    fields = {"MESSAGE": "x", "_HOSTNAME": "n1", "_SYSTEMD_UNIT": "train-77.service"}
    ranks = [identity_of(fields | {"proc": f"rank{rank}"}).rank for rank in (4, 5)]
    assert ranks == ["4", "5"]


@pytest.mark.parametrize("label", ["job_id", "job-id"])
def test_a_site_s_own_id_of_a_run_is_more_exact_than_the_name_of_its_operator(label: str) -> None:
    labels = {"training.kubeflow.org/job-name": "llama", label: "llama-3f2a"}
    assert identity_of({"kubernetes": {"pod_name": "llama-worker-3", "labels": labels}}).job == "llama-3f2a"
