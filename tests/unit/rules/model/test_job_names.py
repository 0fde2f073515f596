"""Names of jobs, and of logs without a named job."""

from __future__ import annotations

import pytest

from epicenter.rules.model.job_names import is_named_job, job_in_words, jobs_in_words, named_jobs


@pytest.mark.parametrize(("job", "expected"), [("7877", True), ("llama", True), ("log:train", False), ("", False)])
def test_a_log_s_name_in_place_of_a_job_names_none(job: str, expected: bool) -> None:
    assert is_named_job(job) is expected


def test_only_jobs_with_a_name_are_named() -> None:
    assert named_jobs(["7877", "log:train", "llama"]) == ("7877", "llama")


@pytest.mark.parametrize(
    ("jobs", "most", "words"),
    [
        ([], None, ""),
        (["7801"], None, "job 7801"),
        (["log:train"], None, "log train"),
        (["7801", "7802", "log:train"], None, "jobs 7801, 7802, log train"),
        (["1", "2", "3", "4"], 3, "jobs 1, 2, 3 and 1 more"),
        (["1", "2", "3"], 3, "jobs 1, 2, 3"),
    ],
)
def test_jobs_and_logs_have_their_words(jobs: list[str], most: int | None, words: str) -> None:
    assert jobs_in_words(jobs, most) == words
    assert job_in_words("log:train") == "log train"
