"""From a log, a folder, a Slurm id or all of outputs/ to the files of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.collect.jobs import JobLogs, is_job, jobs_at
from epicenter.rules.errors import InputError
from tests.support.job_logs import write_job, write_log

NAME = "7877-llama3.1-8b"
LINES = ["a line"]


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Two jobs, one of them with Ray logs, a log without a folder, and a folder of shared checkpoints."""
    folder = tmp_path / "outputs"
    write_job(folder, NAME, LINES)
    write_job(folder, "local_20260302-gemma", LINES)
    write_log(folder / "7900-alone.log", LINES)
    write_log(folder / NAME / "ray_logs" / "node-1" / "worker-a.out", LINES)
    write_log(folder / NAME / "ray_logs" / "node-0" / "worker-b.out", LINES)
    write_log(folder / NAME / "ray_logs" / "node-0" / "gcs.out", LINES)
    write_log(folder / "llama-checkpoints" / "events.out.tfevents", LINES)
    return folder


def names(jobs: list[JobLogs], outputs: Path) -> list[list[str]]:
    return [[str(file.relative_to(outputs)) for file in job.files] for job in jobs]


RAY = [f"{NAME}/ray_logs/node-0/worker-b.out", f"{NAME}/ray_logs/node-1/worker-a.out"]
GIVEN = {
    "folder": (NAME, [f"{NAME}/log", *RAY]),
    "log": (f"{NAME}.log", [f"{NAME}.log", *RAY]),
    "link": (f"{NAME}/log", [f"{NAME}/log", *RAY]),
    "log-without-a-folder": ("7900-alone.log", ["7900-alone.log"]),
}


@pytest.mark.parametrize(("given", "expected"), GIVEN.values(), ids=GIVEN)
def test_a_log_and_its_folder_lead_to_each_other(given: str, expected: list[str], outputs: Path) -> None:
    assert names(jobs_at(str(outputs / given), outputs), outputs) == [expected]


@pytest.mark.parametrize(("slurm_id", "first"), [("7877", f"{NAME}/log"), ("7900", "7900-alone.log")])
def test_a_slurm_id_names_the_job_under_outputs(slurm_id: str, first: str, outputs: Path) -> None:
    (job,) = jobs_at(slurm_id, outputs)
    assert (job.name, str(job.files[0].relative_to(outputs)), job.slurm_id) == (slurm_id, first, slurm_id)


def test_an_array_task_is_found_by_its_id(outputs: Path) -> None:
    write_job(outputs, "7950_3-sweep", LINES)
    assert [job.slurm_id for job in jobs_at("7950_3", outputs)] == ["7950_3"]


def test_an_unknown_id_is_refused_with_the_folders_searched(outputs: Path) -> None:
    with pytest.raises(
        InputError, match=r"^1234: no .*/outputs/1234-\* and no slurm-1234\.out, there or here: give the path"
    ):
        jobs_at("1234", outputs)


def test_a_folder_of_jobs_names_each_of_them_without_shared_checkpoints(outputs: Path) -> None:
    assert [files[0] for files in names(jobs_at(str(outputs), outputs), outputs)] == [
        f"{NAME}/log",
        "7900-alone.log",
        "local_20260302-gemma/log",
    ]


def test_a_folder_without_a_link_is_no_job(outputs: Path) -> None:
    assert [path.name for path in sorted(outputs.iterdir()) if is_job(path)] == [NAME, "local_20260302-gemma"]


def test_a_folder_without_its_link_is_found_by_the_log_next_to_it(outputs: Path) -> None:
    (outputs / NAME / "log").unlink()
    assert names(jobs_at(str(outputs / NAME), outputs), outputs) == [[f"{NAME}.log", *RAY]]


def test_a_dangling_link_is_replaced_by_the_log_next_to_it(outputs: Path) -> None:
    (outputs / NAME / "log").unlink()
    (outputs / NAME / "log").symlink_to("/nowhere/else.log")
    assert names(jobs_at(str(outputs / NAME), outputs), outputs) == [[f"{NAME}.log", *RAY]]


def test_a_job_without_its_log_is_listed_with_the_others(outputs: Path) -> None:
    (outputs / f"{NAME}.log").unlink()
    assert len(jobs_at(str(outputs), outputs)) == 3


def test_a_plain_folder_of_logs_is_one_job(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "rank0.log", LINES)
    write_log(tmp_path / "run" / "rank1.log", LINES)
    (job,) = jobs_at(str(tmp_path / "run"), tmp_path)
    assert [file.name for file in job.files] == ["rank0.log", "rank1.log"]


def test_a_folder_of_logs_named_like_jobs_names_each_of_them(tmp_path: Path) -> None:
    for name in ("7877-llama.log", "7901-gemma.log", "slurm-7950.out"):
        write_log(tmp_path / name, LINES)
    assert [job.slurm_id for job in jobs_at(str(tmp_path), tmp_path)] == ["7877", "7901", "7950"]


def test_a_packed_log_in_a_folder_of_jobs_is_one_of_them(tmp_path: Path) -> None:
    for name in ("7877-a.log", "7878-b.log.gz", "slurm-7879.out.gz"):
        (tmp_path / name).write_text("x\n")
    assert [job.slurm_id for job in jobs_at(str(tmp_path), tmp_path)] == ["7877", "7878", "7879"]


@pytest.mark.parametrize("other", ["kern.log", "slurm-7950.err", "node0001/messages"])
def test_a_log_of_no_job_in_a_folder_of_jobs_is_read_with_them(tmp_path: Path, other: str) -> None:
    write_log(tmp_path / "slurm-7950.out", LINES)
    (tmp_path / other).parent.mkdir(exist_ok=True)
    write_log(tmp_path / other, LINES)
    (job,) = jobs_at(str(tmp_path), tmp_path)
    assert (job.is_plain_folder, {*job.files}) == (True, {tmp_path / "slurm-7950.out", tmp_path / other})


def test_texts_of_a_project_are_no_logs_of_its_jobs(tmp_path: Path) -> None:
    for name in ("slurm-7950.out", "slurm-7951.out", "requirements.txt", "LICENSE", "train.jsonl"):
        write_log(tmp_path / name, LINES)
    assert [job.slurm_id for job in jobs_at(str(tmp_path), tmp_path)] == ["7950", "7951"]


def test_standard_input_is_a_job(tmp_path: Path) -> None:
    assert jobs_at("-", tmp_path) == [JobLogs("-", (Path("-"),))]


WRONG = {
    "missing": ("missing.log", "no such file or folder"),
    "name-too-long": ("x" * 300, "can't be read: File name too long"),
    "empty-folder": ("empty", "no log in this folder"),
}


@pytest.mark.parametrize(("given", "expected"), WRONG.values(), ids=WRONG)
def test_a_missing_path_is_named(given: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as raised:
        jobs_at(str(tmp_path / given), tmp_path)
    assert str(raised.value) == f"{tmp_path / given}: {expected}"


def test_files_next_to_a_log_are_listed(outputs: Path) -> None:
    (outputs / NAME / "prometheus").mkdir()
    (outputs / NAME / "core.4711").touch()
    (outputs / "core.12").touch()
    (job,) = jobs_at(str(outputs / f"{NAME}.log"), outputs)
    assert [str(Path(name).relative_to(outputs)) for name in job.artifacts] == [
        f"{NAME}/prometheus",
        f"{NAME}/core.4711",
        "core.12",
    ]


def test_a_slurm_id_finds_the_log_that_slurm_names_itself(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(outputs.parent)
    for folder in (outputs, outputs.parent):
        log = folder / "slurm-4243.out"
        log.write_text("", "utf-8")
        (job,) = jobs_at("4243", outputs)
        assert (job.files[0].resolve(), job.slurm_id) == (log, "4243")
        log.unlink()
