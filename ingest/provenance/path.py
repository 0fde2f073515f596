"""Whose lines a plain file holds, by its path: `slurm-7877.out`, `job-7877/rank3.log`, `kern-node17.log`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

import msgspec

from epicenter.ingest.parse.node_names import DOMAIN, NODE, is_node_name
from epicenter.ingest.provenance.log_names import PACKED, ROTATION, LogName, named_by
from epicenter.ingest.provenance.ray_logs import is_daemon_of_ray, job_of_ray
from epicenter.rules.model.job_names import OF_A_LOG
from epicenter.rules.model.records import Origin
from epicenter.rules.placement.pods import job_in_name

MAX_COMPARED: Final = 4
"""At most this many other folders of ranks are looked into."""

MAX_FOLDERS: Final = 4
"""At most this many folders above a file count, when the user named the file itself."""

NAMED: Final = re.compile(
    r"(?:(?!20\d\d-[01]\d|20\d{6}-)(?P<id>\d{3,10}(?:_\d+)?)|local_\w+)-|slurm-(?P<of_out>\d+(?:_\d+)?)\."
)
"""The name of a job's log or folder, as opposed to one of many logs of the same job."""

_DATE = re.compile(r"(?:19|20)\d\d(?:-?[01]\d-?[0-3]\d.*)?$")
_ID = re.compile(r"(?P<id>[1-9]\d{2,9}(?:_\d{1,6})?)(?:[.]\d{1,6})?$")
_ENDING = re.compile(rf"(?:\.(?:log|out|err|txt))?{ROTATION}?(?:{PACKED})?$")
_JOB = re.compile(r"(?:job|slurm)[-_]?(?P<id>\d{1,10}(?:_\d{1,6})?)(?=$|[-_.])", re.IGNORECASE)
_NAME_AND_ID = re.compile(r"[A-Za-z][\w.-]*?[-_.](?P<id>\d{4,10}(?:_\d{1,6})?)$", re.ASCII)
_NAME_AND_RANDOM_ID = re.compile(r"[A-Za-z][\w.-]*[-.](?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{4,12}$", re.ASCII)
"""`pretrain-7b-3f2a91`: the folder of one run."""

_NAME_ID_AND_NODE = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*?[-_.](?P<id>[1-9]\d{3,9}(?:_\d{1,6})?))[-_.](?P<node>[A-Za-z][\w.-]*\d)$", re.ASCII
)
"""`llama-7877-gpu-a-12.out`: one of several files of the job, or the node has a usual name."""

_TORCHRUN_ID = re.compile(r"(?:(?!none_)[A-Za-z][\w.-]*?[-_.])?(?P<id>\d{3,10})_[a-z0-9_]{8}$", re.ASCII)
"""The folder of a run: `torchrun --rdzv-id`, then eight random characters (torch elastic/agent/server/api.py)."""

_NODE_AND_PROCESS = re.compile(
    r"(?P<node>[A-Za-z][\w.-]*?)[-_.](?:r(?:ank[-_]?)?(?P<rank>\d{3,7})|launcher|agent|torchrun|trainer|worker|console"
    r"|std(?:out|err))$",
    re.ASCII,
)
"""`node0007.r00012.log`, `node0007.launcher.log`."""

_ATTEMPT = re.compile(r"attempt_\d{1,6}$")
_POD_FOLDER = re.compile(r"[a-z0-9-]{1,63}_(?P<pod>[a-z0-9][a-z0-9.-]{0,252})_[0-9a-f-]{32,36}$")
_POD_FILE = re.compile(r"(?P<pod>[a-z0-9][a-z0-9.-]{0,252})_[a-z0-9-]{1,63}_[a-z0-9-]{1,63}-[0-9a-f]{64}$")
_RANK = re.compile(r"(?:^|(?<!local)[-_.])rank[-_]?(?P<rank>\d{1,7})(?=$|[-_.])", re.IGNORECASE)
_PROCESS = re.compile(r"(?:worker|trainer)(?:[-_]?[a-z]{1,2})?(?:[-_]?\d{1,6}){1,3}$", re.IGNORECASE | re.ASCII)
_SYSTEM_WORDS = (
    r"kern(?:el)?|kmsg|dmesg|syslog|messages|journal(?:d|ctl)?|slurm(?:ctl|db)?d|kubelet|containerd|daemon|auth|boot"
    r"|events?|sched(?:uler)?|fabricmanager|nvidia"
)
_SYSTEM = re.compile(rf"(?:^|[-_.])(?:{_SYSTEM_WORDS})(?=$|[-_.])", re.IGNORECASE)
_KERNEL_MARK = re.compile(r"[-_.]?(?:kern(?:el)?|kmsg|dmesg|syslog|messages|journal)[-_.]?", re.IGNORECASE)
_NUMBERED = re.compile(r"(?=[\w.-]*\d)[A-Za-z][\w.-]*$", re.ASCII)
_LAST_PART = re.compile(r"(?:\d+|(?<=[-_.])[a-z0-9]{3,8})$")
_NO_NODE = re.compile(
    r"(?:^|[-_.])(?:rank|worker|trainer|task|part|chunk|shard|attempt|restart|run|exp|epoch|step|log|output|driver|stage)"
    r"(?:[-_.]|\d|$)",
    re.IGNORECASE,
)
_OF_A_PROCESS = ("stdout", "stderr", "worker", "output", "console")
_IN_VAR = ("log", "lib")
_COLLECTIONS_OF_NODES = ("nodes", "hosts")
_COLLECTIONS = (*_COLLECTIONS_OF_NODES, "logs", "log", "workers", "ranks")
_NAME_NO_NODE = (
    str.isdigit,
    _DATE.match,
    _ID.match,
    _JOB.match,
    _NAME_AND_ID.match,
    NAMED.match,
    _ATTEMPT.match,
    _RANK.search,
    _PROCESS.match,
)


def slurm_id_in(name: str) -> str:
    """The Slurm id that the name of a job's log or folder begins with; empty when there is none."""
    found = NAMED.match(name)
    return found["id"] or found["of_out"] or "" if found else ""


def origin_of(file: Path, root: Path, log_names: tuple[LogName, ...] = ()) -> Origin:
    """The origin that the path names: as the site's patterns say, else by usual forms of names.

    `root` is what the user named: the file itself or a folder above it.
    """
    origin, named = _by_usual_names(file, root), named_by(log_names, file)
    if "job" not in named:
        return msgspec.structs.replace(origin, **named)
    is_part = "node" in named or "rank" in named
    return msgspec.structs.replace(origin, **named, is_system=False, is_of_a_job=not is_part)


def _by_usual_names(file: Path, root: Path) -> Origin:
    """The origin by the usual forms of names.

    The nearest name decides. Folders above the root don't count. Where none names a job, it is `log:` and
    the name of the file, or of the folder with the files of one job's processes, see `rules.model.job_names`.
    """
    stem, folders = _stem(file), _folders(file, root)
    if parts := _job_and_node(file, stem):
        return Origin(job=parts["id"], node=parts["node"], rank=None, log=str(file))
    of_ray = job_of_ray(file)
    is_system = bool(_SYSTEM.search(stem)) or (is_daemon_of_ray(file) and not of_ray)
    of_pod, of_file = _job_of_pod(stem, folders), _job_of_file(file, stem) or _job_known_elsewhere(file, root, stem)
    job = "" if is_system else of_ray or of_pod or of_file or _job_of_folders(folders)
    node, rank = _node(stem, folders, is_system), _rank(stem, folders)
    if not node and rank is None and job and not of_file and _is_one_per_node(file):
        node = stem
    is_part_of_node = is_system or of_file or (rank is not None and _job_of_folders(folders[:-1]))
    if not node and is_part_of_node and _is_in_folder_of_node(file, root):
        node = file.parent.name
    if not node and rank is None and job:
        node = _node_of_launcher(file, root)
    is_process = any(map(_PROCESS.match, (stem, *folders)))
    is_part = (
        node != "" or rank is not None or _attempt_rank(folders) is not None or is_process or bool(of_pod or of_ray)
    )
    origin = Origin(job=job, node=node, rank=rank, is_system=is_system, log=str(file))
    if origin.rank is None and not node:
        origin = msgspec.structs.replace(origin, rank=_attempt_rank(folders))
    if is_system or job:
        return msgspec.structs.replace(origin, is_of_a_job=bool(job) and not is_part)
    family = _family(file, stem, folders, is_part)
    is_run = is_part and _NAME_AND_RANDOM_ID.match(family)
    return msgspec.structs.replace(origin, job=family if is_run else OF_A_LOG + family)


def _job_and_node(file: Path, stem: str) -> re.Match[str] | None:
    """The name of the file if it holds both, as a job has one such file for each node."""
    found = _NAME_ID_AND_NODE.match(stem)
    if not found or _SYSTEM.search(stem) or _NO_NODE.search(found["node"]) or _DATE.match(found["id"]):
        return None
    if is_node_name(found["node"]):
        return found
    return found if file.with_name(f"{found['name']}{file.suffix}").exists() else None


def _stem(file: Path) -> str:
    return _ENDING.sub("", file.name, count=1) or file.name


def _folders(file: Path, root: Path) -> tuple[str, ...]:
    """The names of the folders that count, the outermost first."""
    if root == file:
        return tuple(part for part in file.parent.parts[-MAX_FOLDERS:] if part not in ("/", "..", "."))
    return (root.resolve().name, *file.relative_to(root).parent.parts)


def _job_of_pod(stem: str, folders: Sequence[str]) -> str:
    """The job of a pod whose log kubelet (`/var/log/pods`) or its links (`/var/log/containers`) name; else empty."""
    found = _POD_FILE.match(stem) or next(filter(None, map(_POD_FOLDER.match, reversed(folders))), None)
    return job_in_name(found["pod"]) if found else ""


def _job_of_file(file: Path, stem: str) -> str:
    if _DATE.match(stem):
        return ""
    if found := _ID.match(stem):
        return found["id"]
    if found := _JOB.match(stem):
        return found["id"]
    if slurm_id := slurm_id_in(stem + "."):
        return slurm_id
    found = _NAME_AND_ID.match(stem) if {".out", ".err"} & set(file.suffixes) and not _is_one_of_many(stem) else None
    return found["id"] if found and not _DATE.match(found["id"]) else ""


def _job_known_elsewhere(file: Path, root: Path, stem: str) -> str:
    """The id in `node0007/train-7877.log` if another node has that file, or a folder above `slurm-7877.out`.

    Alone it may be a process id.
    """
    found = None if _is_one_of_many(stem) else _NAME_AND_ID.match(stem)
    if not found or _DATE.match(found["id"]):
        return ""
    above = (folder for folder in file.parents[1:] if folder.is_relative_to(root))
    is_known = _is_in_folder_of_node(file, root) or any(
        (folder / f"slurm-{found['id']}.out").exists() for folder in above
    )
    return found["id"] if is_known else ""


def _job_of_folders(folders: Sequence[str]) -> str:
    for depth, name in reversed(list(enumerate(folders))):
        is_id = _ID.match(name) and not (depth and _ATTEMPT.match(folders[depth - 1]))
        if _DATE.match(name):
            continue
        if is_id:
            return name
        if found := _JOB.match(name) or _TORCHRUN_ID.match(name):
            return found["id"]
        if slurm_id := slurm_id_in(name):
            return slurm_id
        if depth and not _is_one_of_many(name) and (found := _NAME_AND_ID.match(name)):
            return _job_of_folders(folders[:depth][-1:]) or found["id"]
    return ""


def _is_one_of_many(name: str) -> bool:
    """Whether it is the name of a node, or of one process of a job."""
    return is_node_name(name) or bool(_PROCESS.match(name))


def _node(stem: str, folders: Sequence[str], is_system: bool) -> str:
    own = _KERNEL_MARK.sub("", stem, count=1) if is_system else stem
    is_named_first = is_system and stem.startswith(own) and bool(_NUMBERED.match(own))
    is_machine = is_named_first and not (_SYSTEM.search(own) or _DATE.search(own))
    if NODE.match(own) or is_machine:
        return own
    if (of_process := _NODE_AND_PROCESS.match(own)) and is_node_name(of_process["node"]):
        return of_process["node"]
    if is_node_name(own) and not _NODE_AND_PROCESS.match(own):
        return own
    of_nodes = (name for above, name in pairwise(folders) if above in _COLLECTIONS_OF_NODES and not _is_no_node(name))
    return next(filter(is_node_name, reversed(folders)), "") or next(of_nodes, "") or _root_of_a_machine(folders[1:])


def _root_of_a_machine(folders: Sequence[str]) -> str:
    """The folder that holds a machine's `/var/log` or `/var/lib`, if its name has a number as those of nodes do."""
    in_a_row = zip(folders, folders[1:], folders[2:], strict=False)
    roots = (above for above, name, inner in in_a_row if name == "var" and inner in _IN_VAR)
    return next((root for root in roots if _NUMBERED.match(root) and not _is_no_node(root)), "")


def _is_no_node(name: str) -> bool:
    return name in _COLLECTIONS or bool(_NO_NODE.search(name)) or any(of(name) for of in _NAME_NO_NODE)


def _is_one_per_node(path: Path) -> bool:
    """Whether there is one such file or folder for each node: names that differ only in the last part before their
    domain.
    """
    name = DOMAIN.sub("", _stem(path))
    shared = _LAST_PART.sub("", name)
    if not _NUMBERED.match(name) or shared == name or _is_no_node(name):
        return False
    try:
        others = (other for other in path.parent.iterdir() if other.suffix == path.suffix and other != path)
        return any(_LAST_PART.sub("", DOMAIN.sub("", _stem(other))) == shared for other in others)
    except OSError:
        return False


def _node_of_launcher(file: Path, root: Path) -> str:
    """The node whose launcher wrote the file, where the folder with its `attempt_0` is one of several; else empty."""
    above = (folder for folder in file.parents if folder != root and folder.is_relative_to(root))
    launcher = next((folder.parent for folder in above if _ATTEMPT.match(folder.name)), None)
    if launcher is None and root != file and any(file.parent.glob("attempt_*")):
        launcher = file.parent
    return launcher.name if launcher and launcher != root and _is_one_per_node(launcher) else ""


def _is_in_folder_of_node(file: Path, root: Path) -> bool:
    """Whether the folder is one of several for the same job's log, the same system log, or other ranks of the job: then
    it names the node.
    """
    folder = file.parent
    if root in (file, folder) or _is_no_node(folder.name):
        return False
    try:
        others = [other for other in folder.parent.iterdir() if other.name != folder.name]
        if not _RANK.search(_stem(file)):
            return any((other / file.name).is_file() for other in others)
        folders = [other for other in islice(others, MAX_COMPARED) if other.is_dir()]
        return any(map(_has_a_rank, folders)) and not any((other / file.name).exists() for other in folders)
    except OSError:
        return False


def _has_a_rank(folder: Path) -> bool:
    return any(_RANK.search(_stem(file)) for file in folder.iterdir())


def _rank(stem: str, folders: Sequence[str]) -> int | None:
    if (of_process := _NODE_AND_PROCESS.match(stem)) and of_process["rank"] and is_node_name(of_process["node"]):
        return int(of_process["rank"])
    for name in (stem, *reversed(folders)):
        if found := _RANK.search(name):
            return int(found["rank"])
    return None


def _attempt_rank(folders: Sequence[str]) -> int | None:
    """The local rank in torchrun's folders, `attempt_0/3/stderr.log` (torch elastic/multiprocessing/api.py)."""
    return next((int(name) for above, name in pairwise(folders) if _ATTEMPT.match(above) and name.isdigit()), None)


def _family(file: Path, stem: str, folders: Sequence[str], is_part: bool) -> str:
    """The file's name; for one process of many, that of the nearest folder that belongs to no single process."""
    if not is_part and stem not in _OF_A_PROCESS:
        return stem
    names = folders or (file.absolute().parent.name,)
    for name in reversed(names):
        is_own = name.isdigit() or _is_one_of_many(name) or _RANK.search(name) or _ATTEMPT.match(name)
        if not is_own and name not in _COLLECTIONS:
            return name
    return stem if not is_part else names[0]
