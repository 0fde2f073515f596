"""Whether two signals are near enough for a causal edge: by GPU, node, job, switch, storage, or what they name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rules.model import Signal
from rules.topology import NO_TOPOLOGY, Topology

JobsOf = Callable[[Signal], set[str]]
"""The jobs that a signal touches."""

STORAGE_FIELDS: Final = ("server", "target", "mount", "volume")
ARTEFACT_FIELDS: Final = ("path", "file", "bucket", "credential", "model", "image", "name")
DEPENDENCY_FIELD: Final = "dependency"

_PART_OF_LUSTRE = re.compile(r"-(?:OST|MDT|MGT)[0-9a-f]{4}.*$")


def in_scope(cause: Signal, effect: Signal, scope: str, jobs_of: JobsOf, topology: Topology = NO_TOPOLOGY) -> bool:
    """Whether the scope of an edge holds both.

    On the same node every scope but `gpu` and `artefact` holds. For `gpu`, PCI addresses are compared when both
    signals have one. Where the topology doesn't know a node, it shares no switch, rack or rail.
    """
    if cause.cluster != effect.cluster:
        return False
    if scope == "artefact":
        return share_artefact(cause, effect) or bool(jobs_of(cause) & jobs_of(effect))
    if cause.node == effect.node:
        return scope != "gpu" or not (cause.gpu and effect.gpu) or cause.gpu == effect.gpu
    if scope == "job":
        return bool(jobs_of(cause) & jobs_of(effect))
    if scope == "storage":
        return share_storage(cause, effect, topology)
    return scope == "cluster" or topology.shares(cause.node, effect.node, scope)


def share_storage(one: Signal, other: Signal, topology: Topology = NO_TOPOLOGY) -> bool:
    """Whether both name the same server, file system or volume; if they name none alike, whether their nodes use one.

    The server itself counts as well: a line of the node that the other one names.
    """
    if _is_server(one, other) or _is_server(other, one):
        return True
    named = [field for field in STORAGE_FIELDS if one.fields.get(field) and other.fields.get(field)]
    if named:
        return any(_file_system(one.fields[field]) == _file_system(other.fields[field]) for field in named)
    return topology.shares(one.node, other.node, "storage")


def share_artefact(cause: Signal, effect: Signal) -> bool:
    """Whether both name the same path, credential or other thing, or the effect's job waits for the cause's job."""
    if cause.job and effect.fields.get(DEPENDENCY_FIELD) == cause.job:
        return True
    named = [field for field in ARTEFACT_FIELDS if cause.fields.get(field) and effect.fields.get(field)]
    return any(_lies_in(cause.fields[field], effect.fields[field]) for field in named)


def _is_server(server: Signal, user: Signal) -> bool:
    return bool(server.node) and user.fields.get("server", "").partition("@")[0] == server.node


def _file_system(name: str) -> str:
    return _PART_OF_LUSTRE.sub("", name)


def _lies_in(one: str, other: str) -> bool:
    """The same thing, or one of two paths inside the other."""
    shorter, longer = sorted((one.rstrip("/"), other.rstrip("/")), key=len)
    return shorter == longer or (shorter.count("/") > 1 and longer.startswith(f"{shorter}/"))
