"""Who is missing at the start of a job: the nodes that it should have, without those that have logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from epicenter.rules.liveness.state import JobWatch

MAX_SHOWN: Final = 8


@dataclass(frozen=True)
class RollCall:
    """How many of a job's nodes are missing, and those whose names are known."""

    missing: int
    expected: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`1 of 12 nodes never logged: node0008`."""
        shown = ", ".join(self.names[:MAX_SHOWN]) + (", …" if len(self.names) > MAX_SHOWN else "")
        who = f": {shown}" if self.names else ""
        return f"{self.missing} of {self.expected} nodes never logged{who}"


def roll_call(watch: JobWatch) -> RollCall:
    """The missing nodes by the job's list of hosts; by its number of nodes where no list names them."""
    names = tuple(sorted(watch.listed - watch.nodes))
    if watch.listed and len(names) < len(watch.listed) and watch.node_count <= len(watch.listed):
        return RollCall(len(names), len(watch.listed), names)
    return RollCall(max(0, watch.node_count - len(watch.nodes)), watch.node_count)
