"""The ranks of a job as a grid: the engine's state of each. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.ledger import JobPhase, JobState
from epicenter.rules.model.times import NS_PER_S

CLOCK_AHEAD_NS: Final = 60 * NS_PER_S
"""A time further ahead of the reader's clock than this comes from a wrong clock."""

MAX_WORST: Final = 40
MAX_CELLS: Final = 65_536

STALLED: Final = "stalled"
LOST: Final = "logs-missing"
BEHIND: Final = "behind"
NO_LOGS: Final = "no-logs"
NO_STEP: Final = "no-step"
LOGS_ONLY: Final = "logs-only"
IN_STEP: Final = "in-step"
ENDED: Final = "ended"
UNKNOWN: Final = "unknown"

STATES: Final = {
    STALLED: ("Stalled", "no further step"),
    LOST: ("Logs missing", "the logs of its node stopped, the job may advance"),
    BEHIND: ("Behind", "advances, at an earlier step"),
    NO_LOGS: ("No logs yet", "no line of this job from it or its node"),
    NO_STEP: ("No step seen", "it or its node logs, but it reports no steps, unlike most ranks"),
    LOGS_ONLY: ("Logs, no steps", "it or its node logs; no line numbers its steps"),
    IN_STEP: ("In step", "at the newest step"),
    ENDED: ("Ended", ""),
    UNKNOWN: ("Not known", ""),
}
"""Each state with its name and meaning, worst first."""

_ORDER: Final = {state: number for number, state in enumerate(STATES)}


class Cell(msgspec.Struct, frozen=True):
    """One rank. `behind` (steps) and `silent_s` (since its last line) are None when unknown.

    `is_node_s`: the last line, at `heard_ns`, is one of its node: no line with a step or a checkpoint names the rank.
    """

    rank: int
    node: str
    gpu: str
    state: str
    step: int | None
    behind: int | None
    heard_ns: int
    silent_s: int | None
    is_node_s: bool = False


class Grid(msgspec.Struct, frozen=True):
    """All ranks of a job in rank order. `newest_ns` is the time of the job's newest line; `counts` is by state."""

    cells: tuple[Cell, ...]
    newest_step: int | None
    newest_ns: int
    counts: dict[str, int]

    @property
    def bad_states(self) -> list[str]:
        """The states that need attention, worst first.

        Ranks without logs need it only while most ranks have some: many frameworks log on one rank only.
        """
        is_exception = 2 * self.counts.get(NO_LOGS, 0) < len(self.cells)
        return [STALLED, LOST, BEHIND, *[NO_LOGS] * is_exception, NO_STEP]

    def shown_states(self) -> Iterator[tuple[str, str, str, int]]:
        """Each state that ranks are in, with its name, meaning and their number."""
        return ((state, *STATES[state], self.counts[state]) for state in STATES if self.counts.get(state))

    def label(self, state: str) -> str:
        """The name of a state."""
        return STATES[state][0]

    def worst(self) -> list[Cell]:
        """The ranks that need attention, worst first, then those furthest behind."""
        bad = set(self.bad_states)
        suspects = [cell for cell in self.cells if cell.state in bad]
        return sorted(suspects, key=lambda cell: (_ORDER[cell.state], -(cell.behind or 0), cell.rank))[:MAX_WORST]

    def columns(self) -> dict[str, Any]:
        """The grid in columns for the browser: each node name once, everything else by rank."""
        nodes = list(dict.fromkeys(cell.node for cell in self.cells))
        numbers = {node: number for number, node in enumerate(nodes)}
        return {
            "nodes": nodes,
            "states": list(STATES),
            "labels": [name for name, _ in STATES.values()],
            "bad": [_ORDER[state] for state in self.bad_states],
            "newest_step": self.newest_step,
            "newest_ms": self.newest_ns // 1_000_000,
            "rank": [cell.rank for cell in self.cells],
            "node": [numbers[cell.node] for cell in self.cells],
            "gpu": [cell.gpu for cell in self.cells],
            "state": [_ORDER[cell.state] for cell in self.cells],
            "step": [cell.step for cell in self.cells],
            "heard_ms": [cell.heard_ns // 1_000_000 for cell in self.cells],
            "heard_of_node": [cell.is_node_s for cell in self.cells],
        }


def grid_of(ranks: Sequence[Mapping[str, Any]], state: JobState | None, now_ns: int) -> Grid:
    """The grid of rows from `sinks.clickhouse.jobs.list_ranks`; rows without a rank get no cell.

    Times ahead of `now_ns` are ignored unless all are: one node with a wrong clock must not change the job's newest.
    """
    newest_step = max((row["step"] for row in ranks if row["step"] is not None), default=None)
    newest_ns = _newest_ns([row[name] for row in ranks for name in ("heard_ns", "node_heard_ns")], now_ns)
    rows = sorted([*(row for row in ranks if row["rank"] >= 0), *_missing(ranks, state)], key=lambda row: row["rank"])
    states = _States(state, rows)
    cells = tuple(_cell(row, states.of(row), newest_step, newest_ns) for row in rows)
    return Grid(cells, newest_step, newest_ns, dict(Counter(cell.state for cell in cells)))


class _States:
    """The state of each rank according to the engine's state of the job."""

    def __init__(self, state: JobState | None, rows: Sequence[Mapping[str, Any]]):
        self._state = state
        self._behind = frozenset(state.behind) if state else frozenset()
        self._quiet = frozenset(state.quiet) if state else frozenset()
        self._lost_nodes = frozenset(state.lost_nodes) if state else frozenset()
        self._without_step = NO_STEP if 2 * sum(map(self._has_step, rows)) > len(rows) else LOGS_ONLY

    def of(self, row: Mapping[str, Any]) -> str:
        """The state of one rank."""
        if self._state is None:
            return UNKNOWN if _heard_ns(row) else NO_LOGS
        if self._state.phase is JobPhase.ENDED:
            return ENDED
        if not _heard_ns(row):
            return NO_LOGS
        return self._of_logged(self._state, row)

    def _has_step(self, row: Mapping[str, Any]) -> bool:
        return row["step"] is not None and row["rank"] not in self._quiet

    def _of_logged(self, state: JobState, row: Mapping[str, Any]) -> str:
        has_step = self._has_step(row)
        is_stalled = state.phase is JobPhase.STALLED
        if is_stalled and _is_named(state, row):
            return STALLED
        if state.phase is JobPhase.LOGS_MISSING or row["node"] in self._lost_nodes:
            return LOST
        if is_stalled and has_step and not (state.node or state.rank is not None):
            return STALLED
        if row["rank"] in self._behind:
            return BEHIND
        return IN_STEP if has_step else self._without_step


def _is_named(state: JobState, row: Mapping[str, Any]) -> bool:
    """Whether the verdict names the rank, or its node alone."""
    return row["rank"] == state.rank if state.rank is not None else bool(state.node) and row["node"] == state.node


def _missing(ranks: Sequence[Mapping[str, Any]], state: JobState | None) -> Iterator[dict[str, Any]]:
    """Rows of the ranks of a job that never started of which no line was seen."""
    if state and state.phase is JobPhase.NEVER_STARTED:
        placed = {row["rank"] for row in ranks}
        for rank in range(min(state.world_size, MAX_CELLS)):
            if rank not in placed:
                yield {"rank": rank, "node": "", "gpu": "", "step": None, "heard_ns": 0, "node_heard_ns": 0}


def _newest_ns(times_ns: Sequence[int], now_ns: int) -> int:
    plausible = [time_ns for time_ns in times_ns if 0 < time_ns <= now_ns + CLOCK_AHEAD_NS]
    return max(plausible or times_ns, default=0)


def _heard_ns(row: Mapping[str, Any]) -> int:
    """The last line of the rank, else of its node."""
    return int(row["heard_ns"] or row["node_heard_ns"])


def _cell(row: Mapping[str, Any], state: str, newest_step: int | None, newest_ns: int) -> Cell:
    heard_ns = _heard_ns(row)
    behind = None if row["step"] is None or newest_step is None else newest_step - row["step"]
    silent_s = max(0, newest_ns - heard_ns) // NS_PER_S if heard_ns else None
    is_node_s = bool(heard_ns and not row["heard_ns"])
    return Cell(row["rank"], row["node"], row["gpu"], state, row["step"], behind, heard_ns, silent_s, is_node_s)
