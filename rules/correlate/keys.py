"""What signals may share, as text keys: a job, a node's kernel, a server, a path, a class that hits many nodes, or a
file whose lines name neither job nor node.

Signals with a key in common may belong to one incident. A key is `kind/cluster/name`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from epicenter.rules.cause.scope import DEPENDENCY_FIELD, MISSING_FIELD, folders_of, makers_of
from epicenter.rules.cause.survival import is_of_node
from epicenter.rules.model.signals import PEER_FIELD, PEER_NODE_FIELD, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary

JOB: Final = "job"
KERNEL: Final = "kernel"
NODE: Final = "node"
JOBLESS: Final = "jobless"
SERVER: Final = "server"
PATH: Final = "path"
FOLDER: Final = "folder"
MANY: Final = "many"
FILE: Final = "file"

HOLDS_NS: Final = {
    KERNEL: 3600 * NS_PER_S,
    NODE: 3600 * NS_PER_S,
    SERVER: 1800 * NS_PER_S,
    PATH: 24 * 3600 * NS_PER_S,
    MANY: 60 * NS_PER_S,
    FILE: 3600 * NS_PER_S,
}
"""How far apart the onsets of two signals with this kind of key may be; signals of one job always belong together."""

NODE_WIDE: Final = frozenset(("node-fail", "slurm-node-fail", "k8s-node-notready", "node-reboot"))
_HITS_MANY_NODES = (
    "nic-link-down",
    "ib-link-down",
    "efa-error",
    "nfs-server-not-responding",
    "lustre-error",
    "storage-timeout",
    "power-supply-fault",
    "node-fail",
    "slurm-node-fail",
    "k8s-node-notready",
)
_PORT: Final = re.compile(r":\d{1,5}$")
_SERVER_FIELDS = ("server", "target")
_PATH_CLASSES = ("auth-expired", "model-not-found", "sync-fail", "checkpoint-load-fail", "checkpoint-save-fail")
_PATH_FIELDS = ("bucket", "path")


def is_node_wide(signal: Signal) -> bool:
    """Whether it concerns its whole node, and so affects every job there, as hardware that no single job reports."""
    if signal.source == "kernel" or signal.failure_class in NODE_WIDE:
        return True
    return not signal.job and is_of_node(signal.failure_class)


def is_of_lost_pod(signal: Signal) -> bool:
    """Whether it reports that a pod's node is lost, but not which node that is."""
    return signal.failure_class in NODE_WIDE and not signal.node


def keys_of(signal: Signal, jobs: set[str]) -> list[str]:
    """The keys under which other signals find this one."""
    keys = [f"{JOB}/{signal.cluster}/{job}" for job in sorted(jobs)]
    if signal.node:
        keys.append(f"{KERNEL if is_node_wide(signal) else NODE}/{signal.cluster}/{signal.node}")
    elif signal.log:
        keys.append(f"{FILE}/{signal.cluster}/{signal.log}")
    return keys + _shared_keys(signal)


def jobless_keys(signal: Signal, jobs: set[str]) -> list[str]:
    """The key under which a job's signal finds what happened on its node to no job."""
    is_jobless = signal.node and not jobs and not is_node_wide(signal)
    return [f"{JOBLESS}/{signal.cluster}/{signal.node}"] if is_jobless else []


def keys_sought(signal: Signal, jobs: set[str]) -> list[str]:
    """The keys under which to look for others: the signal's own, its node's, its kernel's and those of a lost peer."""
    keys = [f"{JOB}/{signal.cluster}/{job}" for job in sorted(jobs)]
    if signal.node:
        keys.append(f"{KERNEL}/{signal.cluster}/{signal.node}")
        if is_node_wide(signal) or not jobs:
            keys.append(f"{NODE}/{signal.cluster}/{signal.node}")
    elif signal.log:
        keys.append(f"{FILE}/{signal.cluster}/{signal.log}")
    if peer := signal.fields.get(PEER_NODE_FIELD) or signal.fields.get(PEER_FIELD):
        keys.append(f"{KERNEL}/{signal.cluster}/{_PORT.sub('', peer)}")
    if waited_for := signal.fields.get(DEPENDENCY_FIELD):
        keys.append(f"{JOB}/{signal.cluster}/{waited_for}")
    if MISSING_FIELD in signal.fields:
        keys += [f"{JOB}/{signal.cluster}/{maker}" for maker in sorted(makers_of(signal) - jobs)]
    return keys + _shared_keys(signal)


def is_of_a_maker(signal: Signal, key: str) -> bool:
    """Whether it is the key of another job, which the path of a missing file may name."""
    return MISSING_FIELD in signal.fields and key.removeprefix(f"{JOB}/{signal.cluster}/") in makers_of(signal)


def kind_of(key: str) -> str:
    """The kind of a key."""
    return key.partition("/")[0]


def _shared_keys(signal: Signal) -> list[str]:
    of_class = _keys_of_class(signal) if _may_share(signal.failure_class) else []
    folders = folders_of(signal)
    return of_class + [f"{FOLDER}/{signal.cluster}/{folder}" for folder in folders] if folders else of_class


def _keys_of_class(signal: Signal) -> list[str]:
    keys = []
    if _is_about_storage(signal.failure_class):
        keys += [
            f"{SERVER}/{signal.cluster}/{signal.fields[field]}" for field in _SERVER_FIELDS if signal.fields.get(field)
        ]
    if signal.failure_class in _HITS_MANY_NODES:
        keys.append(f"{MANY}/{signal.cluster}/{signal.failure_class}")
    if signal.failure_class in _PATH_CLASSES:
        keys += [
            f"{PATH}/{signal.cluster}/{signal.fields[field]}" for field in _PATH_FIELDS if signal.fields.get(field)
        ]
    return keys


@cache
def _may_share(failure_class: str) -> bool:
    return _is_about_storage(failure_class) or failure_class in (*_HITS_MANY_NODES, *_PATH_CLASSES)


@cache
def _is_about_storage(failure_class: str) -> bool:
    return vocabulary().family(failure_class) == "storage"
