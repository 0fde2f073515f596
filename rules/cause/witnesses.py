"""Which node the others name as the peer that went away: a lost connection is the failure of its other end."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.model.signals import PEER_FIELD, PEER_NODE_FIELD, Signal
from epicenter.rules.packs.vocabulary import vocabulary

_NAMES_A_PEER: Final = frozenset(
    ("connection-reset", "socket-timeout", "nccl-net-ib-error", "nccl-error", "gloo-error", "heartbeat-timeout")
)
_NAMING_RULES: Final = ("nccl.remote_error", "nccl.peer_gone", "gloo.peer_closed", "mpi.peer_gone")
"""Rules of lines that say so without a peer's name."""

_LOCAL: Final = ("nvidia", "amd", "machine", "kernel", "cuda", "memory", "processes")
"""Families of failures of one node, as opposed to networks, storage and schedulers."""

_HOST_NAME: Final = re.compile(r"(?=[^:]*[A-Za-z])[\w.-]+$", re.ASCII)
"""As opposed to an address."""

_LOCAL_FIELD, _IPV4_AS_GID = "local_gid", "::ffff:"

MIN_CONNECTIONS: Final = 3
"""With fewer lost connections, both ends are alike."""

MAX_PEERS: Final = 4096
"""At most this many named peers of an incident."""

Accusers = Mapping[str, Collection[str]]
"""The nodes that name each peer: a node, or the address of an unknown one."""


class Accused(msgspec.Struct, frozen=True):
    """The node that others lost; `peers` is what these `accusers` call it."""

    node: str
    accusers: frozenset[str]
    peers: frozenset[str]

    def names(self, signal: Signal) -> bool:
        """Whether another node's signal is a lost connection to it."""
        return signal.node != self.node and peer_of(signal) in self.peers

    def is_felt_by(self, signal: Signal) -> bool:
        """Whether the signal is a lost connection of one of those that lost it, whether it names a peer or not."""
        return signal.failure_class in _NAMES_A_PEER and signal.node in self.accusers

    def exonerates(self, cause: Signal, effect: Signal) -> bool:
        """Whether the cause is no cause of the effect: a lost connection explains nothing on the node that was lost.

        Nor does what stays within another node explain the loss.
        """
        is_loss_elsewhere = cause.failure_class in _NAMES_A_PEER and cause.node != self.node
        if effect.node == self.node and is_loss_elsewhere:
            return True
        is_loss = effect.node == self.node or self.names(effect) or self.is_felt_by(effect)
        return is_loss and cause.node not in ("", self.node) and vocabulary().family(cause.failure_class) in _LOCAL

    def culprit_of(self, signal: Signal) -> Signal:
        """The signal; a lost connection to it gets its node, and keeps the rank that has no other node."""
        rank = None if signal.node else signal.rank
        return structs.replace(signal, node=self.node, rank=rank, gpu="") if self.names(signal) else signal


def peer_of(signal: Signal) -> str:
    """The peer that a lost connection names: its node, otherwise its address; empty if none."""
    if signal.failure_class not in _NAMES_A_PEER:
        return ""
    return signal.fields.get(PEER_NODE_FIELD) or signal.fields.get(PEER_FIELD, "")


def names_another_process(signal: Signal, context: IncidentContext = NO_CONTEXT) -> bool:
    """Whether the line itself says that a process elsewhere failed: it names a peer on another node, or its job has
    other nodes.
    """
    if peer := peer_of(signal):
        return peer != signal.node
    return signal.rule in _NAMING_RULES and _has_other_nodes(signal.job, context)


def _has_other_nodes(job: str, context: IncidentContext) -> bool:
    of_ranks = {node for (of_job, _), node in context.node_of_rank.items() if of_job == job and node}
    nodes = of_ranks.union(context.nodes_by_job.get(job, ()))
    return max(len(nodes), context.node_count_by_job.get(job, 0)) > 1


def own_address(signal: Signal) -> str:
    """The address of its own node that a lost connection names, in IPv4; empty if none."""
    return signal.fields.get(_LOCAL_FIELD, "").removeprefix(_IPV4_AS_GID)


def accused(
    accusers: Accusers, context: IncidentContext = NO_CONTEXT, node_by_address: Mapping[str, str] = MappingProxyType({})
) -> Accused | None:
    """The node that is an end of all lost connections; else the one that more nodes name than any other, first among
    those that name none. None if there is no such node.

    An address that is not known belongs to the only node of the jobs that names no other. A name that is not known is
    that of a node without logs, if two lost it.
    """
    if not accusers:
        return None
    by_node: dict[str, set[str]] = {}
    for peer, of_peer in accusers.items():
        by_node.setdefault(node_by_address.get(peer, peer), set()).update(of_peer)
    accusing = {node for of_node in by_node.values() for node in of_node}
    silent = {peer: of_peer for peer, of_peer in by_node.items() if peer not in accusing}
    name = _common_end(by_node) or _most_named(silent, 1) or _most_named(by_node, 2)
    if not name:
        return None
    peers = {name, *(address for address, node in node_by_address.items() if node == name)}
    most = Accused(name, frozenset(by_node[name]), frozenset(peers))
    nodes = {node for of_job in context.nodes_by_job.values() for node in of_job}
    if name in nodes:
        return most if len(most.accusers) > 1 or _is_heard(name, nodes, context) else None
    unheard = nodes - accusing
    if len(unheard) == 1:
        return structs.replace(most, node=unheard.pop())
    return most if len(most.accusers) > 1 and _HOST_NAME.match(name) else None


def _is_heard(name: str, nodes: Collection[str], context: IncidentContext) -> bool:
    """Whether the node would name whom it lost in its turn, or is the only other one.

    Where only some ranks log, the first to go away may itself have lost another.
    """
    unheard = {node for of_job in context.unheard_nodes_by_job.values() for node in of_job}
    return name not in unheard or len(nodes) == 2


def _common_end(accusers: Accusers) -> str:
    """The only node that is an end of each of several lost connections, and that several name; empty if there is none.

    Both ends of a transfer report it, so a node whose port is dead names others too.
    """
    ends = [{peer, node} for peer, nodes in accusers.items() for node in nodes]
    common = set.intersection(*ends) if len(ends) >= MIN_CONNECTIONS else set()
    return next((name for name in common if len(common) == 1 and len(accusers.get(name, ())) > 1), "")


def _most_named(accusers: Accusers, least: int) -> str:
    counts = sorted(((len(nodes), peer) for peer, nodes in accusers.items()), reverse=True)
    is_clear = counts and counts[0][0] >= least and (len(counts) == 1 or counts[0][0] > counts[1][0])
    return counts[0][1] if is_clear else ""
