"""Whether two signals are in the scope of a causal edge: same GPU, node, job, switch, storage, or thing they name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from epicenter.rules.model.signals import PEER_FIELD, PEER_NODE_FIELD, Signal
from epicenter.rules.packs.topology import NO_TOPOLOGY, Topology

JobsOf = Callable[[Signal], set[str]]
"""The jobs that a signal affects."""

STORAGE_FIELDS: Final = ("server", "target", "mount", "volume")
ARTEFACT_FIELDS: Final = ("path", "file", "bucket", "credential", "model", "image", "name")
DEPENDENCY_FIELD: Final = "dependency"
MISSING_FIELD: Final = "missing"
"""The path of a file that should have been there."""

PATH_FIELDS: Final = ("path", MISSING_FIELD)
MAX_FOLDERS: Final = 12
"""At most this many folders of a path are compared."""

_NAMED_AS_A_JOB = re.compile(r"(?:slurm|job|run)[-_=]?(?=\d)")
_MIN_JOB_NAME_LENGTH = 3
_PART_OF_LUSTRE = re.compile(r"-(?:OST|MDT|MGT)[0-9a-f]{4}.*$")


def in_scope(cause: Signal, effect: Signal, scope: str, jobs_of: JobsOf, topology: Topology = NO_TOPOLOGY) -> bool:
    """Whether both are within one scope of this kind.

    On the same node, all scopes but `gpu`, `artefact` and `input` hold. For `gpu`, PCI addresses are compared if both
    signals have one. A node that the topology doesn't list shares no switch, rack or rail. An effect of a job whose
    node is not known may be on the node of the cause. A node that a lost connection names is of its job, even if no
    line shows that.
    """
    if cause.cluster != effect.cluster:
        return False
    if scope == "artefact":
        return share_artefact(cause, effect) or bool(jobs_of(cause) & jobs_of(effect))
    if scope == "input":
        return makes_input_of(cause, effect, jobs_of)
    if cause.node == effect.node:
        return scope != "gpu" or not (cause.gpu and effect.gpu) or cause.gpu == effect.gpu
    if scope == "job" or (scope in ("node", "gpu") and effect.job and not effect.node):
        return _is_lost(cause.node, effect) or bool(jobs_of(cause) & jobs_of(effect))
    if scope == "storage":
        return share_storage(cause, effect, topology)
    return scope == "cluster" or topology.shares(cause.node, effect.node, scope)


def _is_lost(node: str, effect: Signal) -> bool:
    """Whether the effect is a lost connection to the node."""
    peer = effect.fields.get(PEER_NODE_FIELD) or effect.fields.get(PEER_FIELD, "").partition(":")[0]
    return peer == node != ""


def share_storage(signal: Signal, other: Signal, topology: Topology = NO_TOPOLOGY) -> bool:
    """Whether both name the same server, file system or volume; if they name none, whether their nodes share one.

    A line of the server itself counts too: of the node that the other signal names.
    """
    if _is_server(signal, other) or _is_server(other, signal):
        return True
    named = [field for field in STORAGE_FIELDS if signal.fields.get(field) and other.fields.get(field)]
    if named:
        return any(_file_system(signal.fields[field]) == _file_system(other.fields[field]) for field in named)
    return topology.shares(signal.node, other.node, "storage")


def share_artefact(cause: Signal, effect: Signal) -> bool:
    """Whether both name the same path, credential or other thing, or the effect's job waits for the cause's job."""
    if cause.job and effect.fields.get(DEPENDENCY_FIELD) == cause.job:
        return True
    named = [field for field in ARTEFACT_FIELDS if cause.fields.get(field) and effect.fields.get(field)]
    return any(_lies_in(cause.fields[field], effect.fields[field]) for field in named)


def makes_input_of(cause: Signal, effect: Signal, jobs_of: JobsOf) -> bool:
    """Whether another job, which the cause affects, was to make a file that the effect misses.

    Its path names that job (`/data/tokenized/7877/part-3`), or the cause is about the same folder.
    """
    jobs = jobs_of(cause)
    if MISSING_FIELD not in effect.fields or not jobs or jobs & jobs_of(effect):
        return False
    return bool(jobs & makers_of(effect)) or not set(folders_of(cause)).isdisjoint(folders_of(effect))


def makers_of(signal: Signal) -> set[str]:
    """The names in the path of a missing file: one may be that of the job that was to make it."""
    parts = signal.fields.get(MISSING_FIELD, "").split("/")[1 : MAX_FOLDERS + 1]
    names = {*parts, *(_NAMED_AS_A_JOB.sub("", part, count=1) for part in parts)}
    return {name for name in names if len(name) >= _MIN_JOB_NAME_LENGTH} - {signal.job}


def folders_of(signal: Signal) -> list[str]:
    """The paths that a signal names and the folder of each, without those at the root of a file system."""
    found = []
    for field in PATH_FIELDS:
        if field in signal.fields and (path := signal.fields[field].rstrip("/")):
            folders = (path, path.rpartition("/")[0])
            found += [folder for folder in folders if folder.startswith("/") and folder.count("/") > 1]
    return found


def _is_server(server: Signal, user: Signal) -> bool:
    return bool(server.node) and user.fields.get("server", "").partition("@")[0] == server.node


def _file_system(name: str) -> str:
    return _PART_OF_LUSTRE.sub("", name)


def _lies_in(path: str, other: str) -> bool:
    """Whether both are the same, or one is a path inside the other."""
    shorter, longer = sorted((path.rstrip("/"), other.rstrip("/")), key=len)
    return shorter == longer or (shorter.count("/") > 1 and longer.startswith(f"{shorter}/"))
