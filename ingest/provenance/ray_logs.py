"""Whose lines the files of a Ray session hold: `session_*/logs/worker-…-01000000-4711.err`, `job-driver-….log`.

Source: Ray python/ray/_private/node.py, src/ray/core_worker, python/ray/dashboard/modules/job.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

_WORKER: Final = re.compile(r"worker-[0-9a-f]{56}-(?P<job>[0-9a-f]{8})-(?P<pid>\d{1,10})\.(?:out|err)$")
_DAEMON: Final = re.compile(r"(?:raylet|gcs_server|monitor)\.(?:out|err|log)$")
_DRIVER: Final = re.compile(r"job-driver-(?P<id>[\w.-]{1,100})\.log$")
_SESSION: Final = re.compile(r"session_")
_STARTED: Final = re.compile(r"- \(ip=[\da-f.:]{3,45}, pid=(\d{1,10})\) world_rank=\d")
MAX_LINES: Final = 20_000
"""A driver lists the processes that it starts among its first lines; one may have thousands."""

MAX_NODES: Final = 1024
"""In the sessions of at most this many nodes, drivers are looked for."""


def job_of_ray(file: Path) -> str:
    """The job of a driver, worker or daemon of Ray; empty if the file is of none.

    Workers know only the number that their cluster gave the job: its name is that of the only driver in the cluster,
    or of the only one that lists their process as it starts them, if its log is in the session of this node or of a
    neighbour. Daemons are of the only driver.
    """
    if driver := _DRIVER.match(file.name):
        return driver["id"]
    worker = _WORKER.match(file.name)
    if not (worker or is_daemon_of_ray(file)) or not _is_in_session(file):
        return ""
    drivers = _drivers(file.parent)
    names = {_name(driver) for driver in drivers}
    if worker and len(names) > 1:
        names = {_name(driver) for driver in drivers if worker["pid"] in _started_by(driver)}
    if len(names) == 1:
        return names.pop()
    return f"ray-{worker['job']}" if worker else ""


def is_daemon_of_ray(file: Path) -> bool:
    """Whether it is the log of a service of Ray on a node, in the folder of its session."""
    return bool(_DAEMON.match(file.name)) and _is_in_session(file)


def _is_in_session(file: Path) -> bool:
    return bool(_SESSION.match(file.parent.parent.name))


def _drivers(logs: Path) -> list[Path]:
    """The logs of the jobs' drivers in the same folders of this node, or of others."""
    session = Path(logs.parent.name, logs.name)
    nodes = [logs.parent.parent, *_neighbours(logs.parent.parent)]
    try:
        return [file for node in nodes for file in (node / session).glob("job-driver-*.log") if _name(file)]
    except OSError:
        return []


def _name(driver: Path) -> str:
    found = _DRIVER.match(driver.name)
    return found["id"] if found else ""


def _started_by(driver: Path) -> frozenset[str]:
    """The processes that a driver starts, as its log lists them; none if it can't be read."""
    try:
        return _listed_in(driver, driver.stat().st_size)
    except OSError:
        return frozenset()


@lru_cache
def _listed_in(driver: Path, size_bytes: int) -> frozenset[str]:
    """The processes that a log of this size lists (Ray python/ray/train: WorkerGroup)."""
    with driver.open(errors="replace") as log:
        return frozenset(found[1] for line in islice(log, MAX_LINES) for found in _STARTED.finditer(line))


def _neighbours(folder: Path) -> list[Path]:
    try:
        return sorted(folder.parent.iterdir())[:MAX_NODES]
    except OSError:
        return []
