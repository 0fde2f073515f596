"""How unusual a message is that no rule names."""

from __future__ import annotations

import msgspec


class Unusual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of the message of a line; None is unknown, as is an empty place.

    `lines` is how often it came in the cluster by now. `first_in` is the widest of `cluster`, `job` and `node` in which
    this line was its first, empty if it was in none. `nodes` and `ranks` of the line's job have said it, of `of_nodes`
    and `of_ranks`; a number at its maximum may be larger. `healthy_hours` is in how many earlier hours it came in which
    no incident opened, `stops` how many other jobs stopped soon after it. `until_stop_s` is the time from this line
    until its job stopped.
    """

    lines: int
    first_in: str | None = None
    node: str = ""
    rank: int | None = None
    nodes: int | None = None
    of_nodes: int | None = None
    ranks: int | None = None
    of_ranks: int | None = None
    healthy_hours: int = 0
    stops: int = 0
    until_stop_s: int | None = None

    @property
    def is_alone(self) -> bool:
        """Whether only one rank or node of several says it."""
        is_only_rank = self.ranks == 1 and (self.of_ranks or 0) > 1
        is_only_node = self.nodes == 1 and (self.of_nodes or 0) > 1
        return is_only_rank or (is_only_node and not self.ranks)

    @property
    def order(self) -> tuple[bool, bool, bool, int]:
        """Sorts the most unusual messages first."""
        return self.healthy_hours > 0, not self.is_alone, self.first_in != "cluster", self.lines
