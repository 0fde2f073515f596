"""Jobs × ranks: how far each rank is behind the newest step, and how long it has said nothing; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.times import NS_PER_S

SILENT_AFTER_NS: Final = 120 * NS_PER_S
"""A rank is silent when the job's newest line is so much newer than its own."""

CLOCK_AHEAD_NS: Final = 60 * NS_PER_S
"""What is later than the asker's clock by more than this comes from a clock that is wrong."""

STEPS_OF_JITTER: Final = 1
WORST_SHOWN: Final = 40

STATES: Final = ("level", "behind", "silent", "unheard")
"""With the newest step, at an earlier one, no longer heard, or never heard at all."""


class Cell(msgspec.Struct, frozen=True):
    """One rank; `behind` in steps and `silent_s` since it was heard are None when it is not known."""

    rank: int
    node: str
    gpu: str
    state: str
    step: int | None
    behind: int | None
    heard_ns: int
    silent_s: int | None


class Grid(msgspec.Struct, frozen=True):
    """All ranks of a job in their order; `newest_ns` is the job's newest line, `counts` by state."""

    cells: tuple[Cell, ...]
    newest_step: int | None
    newest_ns: int
    counts: dict[str, int]

    def worst(self) -> list[Cell]:
        """The ranks to look at first: silent and unheard ones, then those furthest behind."""
        odd = [cell for cell in self.cells if cell.state != "level"]
        order = {"silent": 0, "unheard": 1, "behind": 2}
        return sorted(odd, key=lambda cell: (order[cell.state], -(cell.behind or 0), cell.rank))[:WORST_SHOWN]

    def columns(self) -> dict[str, Any]:
        """For the browser, as short as can be: each node's name once, states and numbers by rank."""
        nodes = list(dict.fromkeys(cell.node for cell in self.cells))
        numbers = {node: number for number, node in enumerate(nodes)}
        return {
            "nodes": nodes,
            "states": list(STATES),
            "newest_step": self.newest_step,
            "newest_ms": self.newest_ns // 1_000_000,
            "rank": [cell.rank for cell in self.cells],
            "node": [numbers[cell.node] for cell in self.cells],
            "gpu": [cell.gpu for cell in self.cells],
            "state": [STATES.index(cell.state) for cell in self.cells],
            "step": [cell.step for cell in self.cells],
            "heard_ms": [cell.heard_ns // 1_000_000 for cell in self.cells],
        }


def grid_of(ranks: Sequence[Mapping[str, Any]], now_ns: int) -> Grid:
    """The grid of rows as `sinks.clickhouse.jobs.list_ranks` gives them; lines that named no rank are no cell.

    A rank that tells no steps itself is as alive as its node. Times ahead of the clock (`now_ns`) are not the newest,
    unless all are: one node with a wrong clock makes no other silent.
    """
    newest_step = max((row["step"] for row in ranks if row["step"] is not None), default=None)
    newest_ns = _newest_ns([row[name] for row in ranks for name in ("heard_ns", "node_heard_ns")], now_ns)
    cells = tuple(_cell(row, newest_step, newest_ns) for row in ranks if row["rank"] >= 0)
    return Grid(cells, newest_step, newest_ns, dict(Counter(cell.state for cell in cells)))


def _newest_ns(times_ns: Sequence[int], now_ns: int) -> int:
    believable = [time_ns for time_ns in times_ns if 0 < time_ns <= now_ns + CLOCK_AHEAD_NS]
    return max(believable or times_ns, default=0)


def _cell(row: Mapping[str, Any], newest_step: int | None, newest_ns: int) -> Cell:
    heard_ns = row["heard_ns"] or row["node_heard_ns"]
    behind = None if row["step"] is None or newest_step is None else newest_step - row["step"]
    if not heard_ns:
        state = "unheard"
    elif newest_ns - heard_ns > SILENT_AFTER_NS:
        state = "silent"
    else:
        state = "behind" if (behind or 0) > STEPS_OF_JITTER else "level"
    silent_s = max(0, newest_ns - heard_ns) // NS_PER_S if heard_ns else None
    return Cell(row["rank"], row["node"], row["gpu"], state, row["step"], behind, heard_ns, silent_s)
