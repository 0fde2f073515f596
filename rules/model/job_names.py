"""The names of jobs: the scheduler's id or name, or `log:NAME` for the lines of a log that names no job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

OF_A_LOG: Final = "log:"
"""Begins the name that the lines of a log have in place of a job's, where nothing names their job."""


def is_named_job(job: str) -> bool:
    """Whether a line, an envelope, a path or the user names this job."""
    return bool(job) and not job.startswith(OF_A_LOG)


def named_jobs(jobs: Collection[str]) -> tuple[str, ...]:
    """Those of the jobs that are named, in their order."""
    return tuple(filter(is_named_job, jobs))


def job_in_words(job: str) -> str:
    """`job 7801`, or `log train` where only a log is known; empty without either."""
    return job.replace(OF_A_LOG, "log ", 1) if job.startswith(OF_A_LOG) else f"job {job}" if job else ""


def jobs_in_words(jobs: Sequence[str], most: int | None = None) -> str:
    """`jobs 7801, 7802 and 3 more`, at most `most` by name; logs without a named job as `log train`. Empty for none."""
    known, rest = named_jobs(jobs[:most]), len(jobs[most:]) if most is not None else 0
    words = [f"job{'s' * (len(known) > 1)} {', '.join(known)}"] if known else []
    words += [job_in_words(job) for job in jobs[:most] if not is_named_job(job)]
    return ", ".join(words) + f" and {rest:,} more" * bool(rest)
