"""The grid of a job's ranks: each rank's state from the engine's state of the job."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.model.ledger import JobEnd, JobPhase, JobState
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.page.grid import STATES, Grid, grid_of
from epicenter.sinks.text import job_state

NOW_NS = 1_772_442_000 * NS_PER_S


def a_rank(rank: int, step: int | None, ago_s: float, node_ago_s: float = 0, node: str = "n1") -> dict[str, Any]:
    heard_ns = 0 if ago_s == -1 else NOW_NS - round(ago_s * NS_PER_S)
    node_heard_ns = 0 if node_ago_s == -1 else NOW_NS - round(node_ago_s * NS_PER_S)
    return {"rank": rank, "node": node, "gpu": "", "step": step, "heard_ns": heard_ns, "node_heard_ns": node_heard_ns}


def a_state(phase: JobPhase = JobPhase.IN_STEP, **more: Any) -> JobState:
    return JobState("default", "A", NOW_NS, phase, NOW_NS, 0, **more)


def states(grid: Grid) -> list[str]:
    return [cell.state for cell in grid.cells]


FOUR = [
    a_rank(0, 100, 0),
    a_rank(1, 98, 500),
    a_rank(2, None, -1, node="n2"),
    a_rank(3, None, -1, -1, node="n3"),
    a_rank(-1, 7, 0),
]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (a_state(), ["in-step", "in-step", "logs-only", "no-logs"]),
        (a_state(JobPhase.NO_STEP), ["in-step", "in-step", "logs-only", "no-logs"]),
        (a_state(JobPhase.BEHIND, behind=(1,)), ["in-step", "behind", "logs-only", "no-logs"]),
        (a_state(quiet=(1,)), ["in-step", "logs-only", "logs-only", "no-logs"]),
        (a_state(lost_nodes=("n2",)), ["in-step", "in-step", "logs-missing", "no-logs"]),
        (a_state(JobPhase.LOGS_MISSING), ["logs-missing", "logs-missing", "logs-missing", "no-logs"]),
        (a_state(JobPhase.STALLED, verdict="hung"), ["stalled", "stalled", "logs-only", "no-logs"]),
        (a_state(JobPhase.STALLED, node="n1", rank=1), ["in-step", "stalled", "logs-only", "no-logs"]),
        (a_state(JobPhase.STALLED, node="n2"), ["in-step", "in-step", "stalled", "no-logs"]),
        (a_state(JobPhase.STALLED, node="n2", behind=(1,)), ["in-step", "behind", "stalled", "no-logs"]),
        (a_state(JobPhase.ENDED, end=JobEnd.FAILED), ["ended"] * 4),
        (None, ["unknown", "unknown", "unknown", "no-logs"]),
    ],
)
def test_the_state_of_each_rank_is_the_engine_s(state: JobState | None, shown: list[str]) -> None:
    grid = grid_of(FOUR, state, NOW_NS)
    assert states(grid) == shown
    assert grid.newest_step == 100


def test_missing_lines_of_a_rank_change_nothing_until_the_engine_decides() -> None:
    ranks = [a_rank(0, 100, 0), a_rank(1, 100, 86_000, 86_000)]
    assert states(grid_of(ranks, a_state(), NOW_NS)) == ["in-step", "in-step"]


def test_the_worst_ranks_are_listed_first() -> None:
    ranks = [a_rank(0, 100, 0), a_rank(1, 90, 0), a_rank(2, 50, 0), a_rank(3, 99, 300), *(a_rank(4, None, -1, -1),)]
    state = a_state(JobPhase.STALLED, node="n1", rank=3, behind=(1, 2))
    assert [cell.rank for cell in grid_of(ranks, state, NOW_NS).worst()] == [3, 2, 1, 4]


@pytest.mark.parametrize(("with_steps", "bad"), [(1, []), (2, []), (3, [3])])
def test_ranks_without_steps_need_attention_only_if_most_ranks_report_them(with_steps: int, bad: list[int]) -> None:
    ranks = [a_rank(rank, 100 if rank < with_steps else None, 0) for rank in range(4)]
    grid = grid_of(ranks, a_state(), NOW_NS)
    assert [cell.rank for cell in grid.worst()] == bad
    assert states(grid)[3] == ("no-step" if bad else "logs-only")


def test_ranks_without_steps_are_neutral_while_the_others_have_no_logs() -> None:
    ranks = [a_rank(rank, None, 0 if rank < 2 else -1, node_ago_s=-1) for rank in range(8)]
    grid = grid_of(ranks, a_state(JobPhase.STALLED, verdict="hung"), NOW_NS)
    assert (grid.counts, grid.worst()) == ({"logs-only": 2, "no-logs": 6}, [])


def test_a_rank_that_logs_without_steps_has_the_time_of_its_node_s_newest_line() -> None:
    ranks = [a_rank(0, None, -1, 30), a_rank(1, None, -1, 0, node="n2"), a_rank(2, 7, 5, 0), a_rank(3, None, -1, -1)]
    grid = grid_of(ranks, a_state(), NOW_NS)
    assert states(grid) == ["logs-only", "logs-only", "in-step", "no-logs"]
    assert [(cell.is_node_s, cell.silent_s) for cell in grid.cells] == [
        (True, 30),
        (True, 0),
        (False, 5),
        (False, None),
    ]
    assert grid.columns()["heard_of_node"] == [True, True, False, False]


def test_ranks_that_never_started_get_a_cell() -> None:
    ranks = [a_rank(0, None, 0), a_rank(1, None, 0), a_rank(3, None, 0)]
    grid = grid_of(ranks, a_state(JobPhase.NEVER_STARTED, world_size=5), NOW_NS)
    assert [(cell.rank, cell.state) for cell in grid.cells] == [
        *((0, "logs-only"), (1, "logs-only"), (2, "no-logs"), (3, "logs-only"), (4, "no-logs"))
    ]


def test_a_grid_for_the_browser_names_each_node_once() -> None:
    ranks = [a_rank(0, 5, 0), a_rank(1, 5, 0), a_rank(2, 5, 0, node="n2")]
    columns = grid_of(ranks, a_state(), NOW_NS).columns()
    assert (columns["nodes"], columns["node"]) == (["n1", "n2"], [0, 0, 1])
    assert [columns["states"][number] for number in columns["state"]] == ["in-step"] * 3
    assert len(columns["labels"]) == len(columns["states"]) == len(STATES)


def test_a_job_without_data_has_an_empty_grid() -> None:
    grid = grid_of([], None, NOW_NS)
    assert (grid.cells, grid.newest_step, grid.newest_ns, grid.counts) == ((), None, 0, {})


def test_a_clock_that_is_ahead_does_not_set_the_newest_line() -> None:
    ranks = [a_rank(rank, 100, 5, 5, f"n{rank // 8}") for rank in range(16)]
    ranks[3] = a_rank(3, 100, -600, -600, "n0")
    grid = grid_of(ranks, a_state(), NOW_NS)
    assert grid.counts == {"in-step": 16}
    assert grid.newest_ns == NOW_NS - 5 * NS_PER_S
    assert grid.cells[3].silent_s == 0


@pytest.mark.parametrize("phase", list(JobPhase))
@pytest.mark.parametrize("end", list(JobEnd))
def test_every_state_of_a_job_has_words(phase: JobPhase, end: JobEnd) -> None:
    assert job_state.label(phase, end) != job_state.NOT_KNOWN
    assert job_state.meaning(phase, "n1", 3).startswith("rank 3 on n1 ")


def test_a_state_of_a_newer_version_is_not_known() -> None:
    assert job_state.label("levitating") == job_state.label("") == "Not known"
    assert job_state.label("ended", "abducted") == "Ended: how is not known"
