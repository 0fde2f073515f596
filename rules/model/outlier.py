"""A node that prints something else than the other nodes of its job."""

from __future__ import annotations

import msgspec


class Outlier(msgspec.Struct, frozen=True, order=True):
    """A node whose `value` differs from the `usual` one, which `others` of the job's nodes have."""

    node: str
    fact: str
    value: str
    usual: str
    others: int

    def __str__(self) -> str:
        """`NCCL network Socket, where 15 other nodes have IB`."""
        return f"{self.fact} {self.value}, where {self.others} other nodes have {self.usual}"
