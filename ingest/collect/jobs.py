"""A command's argument -> the log files of jobs: a log, a job's folder, a Slurm id, or all of `outputs/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from epicenter.ingest.collect.listing import log_files
from epicenter.ingest.collect.rotation import unpacked_name, unrotated
from epicenter.ingest.provenance.log_names import LogName
from epicenter.ingest.provenance.path import NAMED, slurm_id_in
from epicenter.rules.errors import InputError

LINK: Final = "log"
"""A job's folder has a link of this name to its log; a folder without one holds shared checkpoints."""

MAX_CORES: Final = 20
_LOGS: Final = (".log", ".out")
_SYSTEM_LOGS: Final = ("messages", "syslog", "dmesg")
_RAY_LOGS: Final = ("ray_logs/*/worker*.out", "ray_logs/*/worker*.err", "ray_logs/*/raylet.out")
_SLURM_ID: Final = re.compile(r"\d+(?:_\d+)?")


@dataclass(frozen=True)
class JobLogs:
    """The files of one job: the log itself first, then those of its Ray workers. `name` is the argument.

    `is_plain_folder`: all files of a folder that is not a job's, so that none is the main log.
    """

    name: str
    files: tuple[Path, ...]
    folder: Path | None = None
    is_plain_folder: bool = False

    @property
    def slurm_id(self) -> str:
        """The id in its name, as in `7877-llama.log` or `slurm-7877.out`; empty when there is none."""
        return slurm_id_in(self.folder.name if self.folder else self.files[0].name)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Other files next to the log: the metrics, and core files."""
        if self.folder is None:
            return ()
        metrics = [self.folder / "prometheus"] if (self.folder / "prometheus").is_dir() else []
        cores = [*sorted(self.folder.glob("core.*")), *sorted(self.folder.parent.glob("core.*"))]
        return tuple(map(str, [*metrics, *cores[:MAX_CORES]]))


def jobs_at(argument: str, outputs: Path, log_names: tuple[LogName, ...] = ()) -> list[JobLogs]:
    """The jobs at a path or of an id; many for a folder of jobs. `log_names` say where else the logs of an id are.

    A job whose log is missing is among them, so that the others can still be opened.

    Raises:
        InputError: no such path or id, it can't be read, or it has no log.
    """
    try:
        return _jobs_at(argument, outputs, log_names)
    except OSError as error:
        raise InputError(f"{argument}: can't be read: {error.strerror}") from error


def is_job(folder: Path) -> bool:
    """Whether the folder is a job's: it has a link to its log, even a broken one."""
    link = folder / LINK
    return folder.is_dir() and (link.is_symlink() or link.is_file())


def _jobs_at(argument: str, outputs: Path, log_names: tuple[LogName, ...]) -> list[JobLogs]:
    path = Path(argument)
    if argument == "-":
        return [JobLogs(argument, (path,))]
    is_path = path.is_symlink() or path.exists()
    if not is_path and (files := _named_files(argument, outputs, log_names)):
        return [JobLogs(argument, files)]
    if not is_path and _SLURM_ID.fullmatch(argument):
        return _by_slurm_id(argument, outputs)
    if not is_path:
        raise InputError(f"{argument}: no such file or folder")
    if not path.is_dir():
        return [_of_log(path, argument)]
    if is_job(path) or _sibling_log(path).is_file():
        return [_of_folder(path, argument)]
    jobs = list(_jobs_in(path))
    if any(job.folder for job in jobs):
        return jobs
    if files := tuple(log_files(path)):
        others = {*files} - {file for job in jobs for file in job.files}
        is_folder_of_jobs = jobs and not any(map(_is_surely_log, others))
        return jobs if is_folder_of_jobs else [JobLogs(argument, files, path, is_plain_folder=True)]
    raise InputError(f"{argument}: no log in this folder")


def _jobs_in(folder: Path) -> Iterator[JobLogs]:
    """Every job in a folder of jobs, by name; none if it is not such a folder."""
    folders = {path.name: _of_folder(path, str(path)) for path in folder.iterdir() if is_job(path)}
    logs = [file for file in folder.iterdir() if unpacked_name(file.name).endswith(_LOGS) and file.is_file()]
    alone = {log.stem: _of_log(log, str(log)) for log in logs if NAMED.match(log.name) or folders}
    for _, job in sorted((alone | folders).items()):
        yield job


def _is_surely_log(file: Path) -> bool:
    """Whether the name is a log's, and not that of any text of a project, as `requirements.txt` or `LICENSE`."""
    name = unrotated(file).name
    return name.endswith((*_LOGS, ".err")) or name in _SYSTEM_LOGS


def _of_folder(folder: Path, name: str) -> JobLogs:
    """The log that the folder's link leads to; if that is broken, the one next to the folder."""
    link, sibling = folder / LINK, _sibling_log(folder)
    log = sibling if not link.is_file() and sibling.is_file() else link
    return JobLogs(name, (log, *_ray_logs(folder)), folder)


def _of_log(log: Path, name: str) -> JobLogs:
    folder = log.parent if log.name == LINK and log.is_symlink() else log.with_suffix("")
    is_folder = log.suffix == ".log" or folder == log.parent
    if not is_folder or not folder.is_dir():
        return JobLogs(name, (log,))
    return JobLogs(name, (log, *_ray_logs(folder)), folder)


def _sibling_log(folder: Path) -> Path:
    """`outputs/7877-llama.log` for `outputs/7877-llama`."""
    whole = folder if folder.name not in ("", "..") else folder.resolve()
    return whole.with_name(f"{whole.name}.log") if whole.name else whole / LINK


def _ray_logs(folder: Path) -> tuple[Path, ...]:
    return tuple(file for shape in _RAY_LOGS for file in sorted(folder.glob(shape)))


def _named_files(job: str, outputs: Path, log_names: tuple[LogName, ...]) -> tuple[Path, ...]:
    """The files that the patterns say are this job's, there or here."""
    found = (name.files_of(job, folder) for name in log_names for folder in (outputs, Path()))
    return tuple(dict.fromkeys(chain.from_iterable(found)))


def _by_slurm_id(slurm_id: str, outputs: Path) -> list[JobLogs]:
    found = sorted(outputs.glob(f"{slurm_id}-*"))
    folders = {path.name: _of_folder(path, slurm_id) for path in found if is_job(path)}
    logs = {path.stem: _of_log(path, slurm_id) for path in found if path.suffix == ".log" and path.is_file()}
    by_slurm = [folder / f"slurm-{slurm_id}.out" for folder in (outputs, Path())]
    logs |= {path.stem: _of_log(path, slurm_id) for path in by_slurm if path.is_file()}
    if not folders and not logs:
        raise InputError(
            f"{slurm_id}: no {outputs}/{slurm_id}-* and no slurm-{slurm_id}.out, there or here: "
            "give the path, or --outputs FOLDER, or set log_names"
        )
    return [job for _, job in sorted((logs | folders).items())]
