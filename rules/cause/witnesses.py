"""Which node the others name as the peer that went away: a lost connection is the failure of its other end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.model.signals import PEER_FIELD, PEER_NODE_FIELD, Signal
from epicenter.rules.packs.vocabulary import vocabulary

_NAMES_A_PEER: Final = frozenset(
    ("connection-reset", "socket-timeout", "nccl-net-ib-error", "nccl-error", "gloo-error", "heartbeat-timeout")
)
_LOCAL: Final = ("nvidia", "amd", "machine", "kernel", "cuda", "memory", "processes")
"""Families of failures of one node, as opposed to networks, storage and schedulers."""

MAX_PEERS: Final = 4096
"""At most this many named peers of an incident."""

Accusers = Mapping[str, Collection[str]]
"""The nodes that name each peer: a node, or the address of an unknown one."""


class Accused(msgspec.Struct, frozen=True):
    """The node that others lost; `peer` is what these `accusers` call it."""

    node: str
    accusers: frozenset[str]
    peer: str

    def names(self, signal: Signal) -> bool:
        """Whether another node's signal is a lost connection to it."""
        return signal.node != self.node and peer_of(signal) == self.peer

    def is_felt_by(self, signal: Signal) -> bool:
        """Whether the signal is a lost connection of one of those that lost it, whether it names a peer or not."""
        return signal.failure_class in _NAMES_A_PEER and signal.node in self.accusers

    def exonerates(self, cause: Signal, effect: Signal) -> bool:
        """Whether the cause is no cause of the effect: a lost connection explains nothing on the node that was lost.

        Nor does what stays within another node explain the loss.
        """
        if effect.node == self.node and self.is_felt_by(cause):
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


def accused(accusers: Accusers, context: IncidentContext = NO_CONTEXT) -> Accused | None:
    """The node that more nodes name than any other, first among those that name none; None if there is no such node.

    An address that is not known belongs to the only node of the jobs that names no other.
    """
    if not accusers:
        return None
    accusing = {node for nodes in accusers.values() for node in nodes}
    silent = {peer: nodes for peer, nodes in accusers.items() if peer not in accusing}
    most = _most_named(silent, 1) or _most_named(accusers, 2)
    nodes = {node for of_job in context.nodes_by_job.values() for node in of_job}
    if most is None or most.node in nodes:
        return most
    unheard = nodes - accusing
    return structs.replace(most, node=unheard.pop()) if len(unheard) == 1 else None


def _most_named(accusers: Accusers, least: int) -> Accused | None:
    counts = sorted(((len(nodes), peer) for peer, nodes in accusers.items()), reverse=True)
    peer = counts[0][1] if counts else ""
    is_clear = counts and counts[0][0] >= least and (len(counts) == 1 or counts[0][0] > counts[1][0])
    return Accused(peer, frozenset(accusers[peer]), peer) if is_clear else None
