"""From what a person points at to the log files of jobs: a log, a job's folder, a Slurm id, or all of `outputs/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingest.collect.files import log_files
from rules.errors import InputError

LINK: Final = "log"
"""A job's folder has a link of this name to its log; a folder without one holds shared checkpoints."""

_RAY_WORKER_LOGS: Final = ("ray_logs/*/worker*.out", "ray_logs/*/worker*.err", "ray_logs/*/raylet.out")


@dataclass(frozen=True)
class JobLogs:
    """The files of one job: the log itself first, then those of its Ray workers."""

    name: str
    files: tuple[Path, ...]


def jobs_at(given: str, outputs: Path) -> list[JobLogs]:
    """The jobs that a path or a Slurm id stands for; many for a folder of jobs.

    Raises:
        InputError: there is nothing of that name, or no log in it.
    """
    path = Path(given)
    if given == "-":
        return [JobLogs(given, (path,))]
    if given.isascii() and given.isdigit() and not path.exists():
        return _by_slurm_id(given, outputs)
    if not path.exists():
        raise InputError(f"{given}: no such file or folder")
    if not path.is_dir():
        return [JobLogs(given, (path, *_ray_logs(path.with_suffix(""))))]
    if is_job(path):
        return [_job(path, given)]
    if inside := _jobs_in(path):
        return inside
    if files := tuple(log_files(path)):
        return [JobLogs(given, files)]
    raise InputError(f"{given}: no log in this folder")


def is_job(folder: Path) -> bool:
    """Whether the folder is a job's: it has a link to its log."""
    return folder.is_dir() and (folder / LINK).exists()


def _jobs_in(folder: Path) -> list[JobLogs]:
    """Every job of a folder of jobs, by name; empty when it is not one."""
    jobs = {one.name: _job(one, str(one)) for one in sorted(folder.iterdir()) if is_job(one)}
    alone = {file.stem: JobLogs(str(file), (file,)) for file in sorted(folder.glob("*.log"))}
    return [job for _, job in sorted((alone | jobs).items())] if jobs else []


def _job(folder: Path, name: str) -> JobLogs:
    log = folder / LINK
    if not log.is_file():
        raise InputError(f"{log}: leads to no log file")
    return JobLogs(name, (log, *_ray_logs(folder)))


def _ray_logs(folder: Path) -> tuple[Path, ...]:
    return tuple(file for shape in _RAY_WORKER_LOGS for file in sorted(folder.glob(shape)))


def _by_slurm_id(slurm_id: str, outputs: Path) -> list[JobLogs]:
    found = sorted(outputs.glob(f"{slurm_id}-*"))
    folders = [_job(one, slurm_id) for one in found if is_job(one)]
    logs = [JobLogs(slurm_id, (one, *_ray_logs(one.with_suffix("")))) for one in found if one.suffix == ".log"]
    if not folders and not logs:
        raise InputError(f"{slurm_id}: no {outputs}/{slurm_id}-* here: give the path, or --outputs FOLDER")
    return (folders or logs)[:1]
