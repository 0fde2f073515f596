"""Whose lines the files of a Ray session hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.provenance.path import origin_of
from epicenter.ingest.provenance.ray_logs import is_daemon_of_ray, job_of_ray

SESSION = "session_2026-03-02_09-00-00_1/logs"
WORKER = f"worker-{'5e' * 28}-01000000-4711.err"
DRIVER = "job-driver-raysubmit_Ab12.log"
OTHER_DRIVER = "job-driver-raysubmit_Cd34.log"
DRIVERS = (("n1", WORKER), ("n1", DRIVER), ("head", OTHER_DRIVER))


def written(folder: Path, *names: str) -> Path:
    """The first of these files, which all exist."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder / names[0]


@pytest.mark.parametrize("name", [WORKER, WORKER.replace(".err", ".out")])
@pytest.mark.parametrize(
    ("others", "job"),
    [
        pytest.param([], "ray-01000000", id="no-driver"),
        pytest.param([f"n1/{SESSION}/{DRIVER}"], "raysubmit_Ab12", id="driver-on-its-node"),
        pytest.param([f"head/{SESSION}/{DRIVER}"], "raysubmit_Ab12", id="driver-on-another-node"),
        pytest.param([f"n1/{SESSION}/{DRIVER}", f"head/{SESSION}/{DRIVER}"], "raysubmit_Ab12", id="same-driver-twice"),
        pytest.param([f"n1/{SESSION}/{DRIVER}", f"head/{SESSION}/{OTHER_DRIVER}"], "ray-01000000", id="two-drivers"),
        pytest.param([f"head/session_2/logs/{DRIVER}"], "ray-01000000", id="driver-of-another-session"),
    ],
)
def test_a_worker_is_of_the_only_driver_of_its_session(tmp_path: Path, name: str, others: list[str], job: str) -> None:
    assert job_of_ray(written(tmp_path, f"n1/{SESSION}/{name}", *others)) == job


def test_of_two_drivers_a_worker_is_of_the_one_that_lists_its_process(tmp_path: Path) -> None:
    worker = written(tmp_path, *(f"{place}/{SESSION}/{name}" for place, name in DRIVERS))
    assert job_of_ray(worker) == "ray-01000000"
    (tmp_path / "head" / SESSION / OTHER_DRIVER).write_text(
        "(TrainController pid=9) Started training worker group of size 1: \n"
        "(TrainController pid=9) - (ip=10.1.0.7, pid=4711) world_rank=0, local_rank=0, node_rank=0\n"
    )
    assert job_of_ray(worker) == "raysubmit_Cd34"


def test_a_driver_whose_log_is_gone_lists_no_process(tmp_path: Path) -> None:
    worker = written(tmp_path, f"n1/{SESSION}/{WORKER}", f"n1/{SESSION}/{DRIVER}")
    (worker.parent / OTHER_DRIVER).symlink_to(tmp_path / "gone")
    assert job_of_ray(worker) == "ray-01000000"


@pytest.mark.parametrize("name", ["raylet.out", "raylet.err", "gcs_server.out", "monitor.log"])
@pytest.mark.parametrize(
    ("drivers", "job"),
    [
        pytest.param([DRIVER], "raysubmit_Ab12", id="one-driver"),
        pytest.param([DRIVER, OTHER_DRIVER], "", id="two-drivers"),
        pytest.param([], "", id="no-driver"),
    ],
)
def test_a_daemon_is_of_the_only_driver_of_its_session_else_of_its_machine(
    tmp_path: Path, name: str, drivers: list[str], job: str
) -> None:
    daemon = written(tmp_path, *(f"n1/{SESSION}/{file}" for file in (name, *drivers)))
    found = origin_of(daemon, tmp_path)
    assert is_daemon_of_ray(daemon)
    assert (found.job, found.is_system, found.is_of_a_job) == (job, not job, False)


def test_the_log_of_a_driver_names_its_job_wherever_it_is(tmp_path: Path) -> None:
    origin = origin_of(written(tmp_path, DRIVER), tmp_path)
    assert (origin.job, origin.is_of_a_job) == ("raysubmit_Ab12", False)


@pytest.mark.parametrize("name", [WORKER, "raylet.out", "dashboard.log", "worker-3.err"])
def test_a_file_outside_a_session_is_not_of_ray(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, f"night/logs/{name}", f"night/logs/{DRIVER}")
    assert (job_of_ray(file), is_daemon_of_ray(file)) == ("", False)


def test_a_worker_of_a_session_is_a_part_of_its_job_on_the_node_of_the_folder(tmp_path: Path) -> None:
    origin = origin_of(written(tmp_path, f"gpu-a-12/{SESSION}/{WORKER}", f"gpu-a-13/{SESSION}/{DRIVER}"), tmp_path)
    assert (origin.job, origin.node, origin.is_of_a_job) == ("raysubmit_Ab12", "gpu-a-12", False)
