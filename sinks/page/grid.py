"""The ranks of a job as a grid: how many steps each lags behind, and how long it has been silent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.times import NS_PER_S

SILENT_AFTER_NS: Final = 120 * NS_PER_S
"""A rank is silent once the job's newest line is this much newer than its own."""

CLOCK_AHEAD_NS: Final = 60 * NS_PER_S
"""A time further ahead of the reader's clock than this comes from a wrong clock."""

MAX_STEP_JITTER: Final = 1
MAX_WORST: Final = 40

STATES: Final = ("level", "behind", "silent", "unheard")
"""At the newest step, at an earlier step, no log lines lately, no log lines ever."""


class Cell(msgspec.Struct, frozen=True):
    """One rank. `behind` (steps) and `silent_s` (since its last line) are None when unknown."""

    rank: int
    node: str
    gpu: str
    state: str
    step: int | None
    behind: int | None
    heard_ns: int
    silent_s: int | None


class Grid(msgspec.Struct, frozen=True):
    """All ranks of a job in rank order. `newest_ns` is the time of the job's newest line; `counts` is by state."""

    cells: tuple[Cell, ...]
    newest_step: int | None
    newest_ns: int
    counts: dict[str, int]

    def worst(self) -> list[Cell]:
        """The ranks that need attention: silent, then never heard, then those furthest behind."""
        suspects = [cell for cell in self.cells if cell.state != "level"]
        order = {"silent": 0, "unheard": 1, "behind": 2}
        return sorted(suspects, key=lambda cell: (order[cell.state], -(cell.behind or 0), cell.rank))[:MAX_WORST]

    def columns(self) -> dict[str, Any]:
        """The grid in columns for the browser: each node name once, everything else by rank."""
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
    """The grid of rows from `sinks.clickhouse.jobs.list_ranks`; rows without a rank get no cell.

    A rank without heartbeats of its own counts as alive while its node is. Times ahead of `now_ns` are ignored
    unless all times are: one node with a wrong clock must not make the other ranks look silent.
    """
    newest_step = max((row["step"] for row in ranks if row["step"] is not None), default=None)
    newest_ns = _newest_ns([row[name] for row in ranks for name in ("heard_ns", "node_heard_ns")], now_ns)
    cells = tuple(_cell(row, newest_step, newest_ns) for row in ranks if row["rank"] >= 0)
    return Grid(cells, newest_step, newest_ns, dict(Counter(cell.state for cell in cells)))


def _newest_ns(times_ns: Sequence[int], now_ns: int) -> int:
    plausible = [time_ns for time_ns in times_ns if 0 < time_ns <= now_ns + CLOCK_AHEAD_NS]
    return max(plausible or times_ns, default=0)


def _cell(row: Mapping[str, Any], newest_step: int | None, newest_ns: int) -> Cell:
    heard_ns = row["heard_ns"] or row["node_heard_ns"]
    behind = None if row["step"] is None or newest_step is None else newest_step - row["step"]
    if not heard_ns:
        state = "unheard"
    elif newest_ns - heard_ns > SILENT_AFTER_NS:
        state = "silent"
    else:
        state = "behind" if (behind or 0) > MAX_STEP_JITTER else "level"
    silent_s = max(0, newest_ns - heard_ns) // NS_PER_S if heard_ns else None
    return Cell(row["rank"], row["node"], row["gpu"], state, row["step"], behind, heard_ns, silent_s)
