"""Steps of a log: first and last, the time that one takes, restarts, epochs, ranks and further files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from epicenter.rules.model.records import LogEvent, Position
from epicenter.rules.triage.steps import SLOW_STEPS, Steps
from tests.support.logs import at

Line = tuple[Mapping[str, str], LogEvent]


def line(step: int, second: float | None = None, *, rank: int | None = None, file: str = "log", **fields: str) -> Line:
    """A progress line; without a second it has no time."""
    when = at(second or 0)
    event = LogEvent(when, "", Position(file, step + 1), has_own_time=second is not None, rank=rank)
    return {"step": str(step), **fields}, event


def steps_of(lines: Iterable[Line]) -> Steps:
    steps = Steps()
    for fields, event in lines:
        steps.note(fields, event)
    return steps


def test_the_first_and_last_step_and_the_time_of_the_last() -> None:
    steps = steps_of(line(step, step * 2) for step in range(3, 20))
    assert (steps.first, steps.last, steps.last_line) == (3, 19, 20)
    assert (steps.last_time_ns, steps.is_time_estimated) == (at(38), False)


def test_a_line_without_a_number_counts_for_nothing() -> None:
    steps = steps_of([({"loss": "1.0"}, line(0)[1]), ({"step": "-1"}, line(0)[1]), ({"step": "9" * 20}, line(0)[1])])
    assert (steps.first, steps.last) == (None, None)


@pytest.mark.parametrize("first", [0, 400])
def test_the_first_five_steps_of_a_run_give_no_step_time(first: int) -> None:
    warm = [line(first + number, step_time_s="60.0") for number in range(5)]
    assert steps_of(warm).step_time_s is None
    assert steps_of([*warm, line(first + 5, step_time_s="2.0"), line(first + 6, step_time_s="4.0")]).step_time_s == 3.0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"step_time_s": "2.5"}, 2.5), ({"step_time_ms": "1500.0"}, 1.5), ({}, 4.0)],
    ids=["seconds-as-stated", "milliseconds-as-stated", "from-line-to-line"],
)
def test_the_step_time_is_the_stated_one_else_the_measured_one(fields: dict[str, str], expected: float) -> None:
    assert steps_of(line(step, step * 4.0, **fields) for step in range(12)).step_time_s == expected


def test_lines_that_are_ten_steps_apart_share_their_time_among_ten_steps() -> None:
    steps = steps_of(line(step, step * 3.0) for step in range(10, 200, 10))
    assert (steps.step_time_s, steps.stride) == (3.0, 10)


@pytest.mark.parametrize("name", ["steps_total", "total_steps"])
def test_the_total_comes_from_the_line(name: str) -> None:
    assert steps_of([line(1, **{name: "1,000"})]).total == 1000


def test_ranks_that_report_the_same_steps_count_once() -> None:
    steps = steps_of(line(step, step * 5 + rank / 10, rank=rank) for step in range(20) for rank in range(4))
    assert (steps.first, steps.last, steps.attempts, steps.step_time_s) == (0, 19, 1, 5.0)
    assert steps.ranks_behind == []


def test_the_ranks_behind_are_those_that_did_not_make_the_last_step() -> None:
    lines = [line(step, rank=rank) for step in range(10) for rank in range(3)]
    assert steps_of([*lines, line(10, rank=0), line(10, rank=2)]).ranks_behind == [1]


def test_late_lines_without_a_rank_begin_no_attempt() -> None:
    steps = steps_of([line(step) for step in (97, 98, 99, 100, 100 - SLOW_STEPS, 101, 100)])
    assert (steps.attempts, steps.first, steps.last) == (1, 97, 101)


def test_a_step_far_back_is_a_restart() -> None:
    before = [line(step, step * 5, step_time_s="5.0", steps_total="900") for step in range(300)]
    after = [line(step, 9000 + step * 2, step_time_s="2.0") for step in range(201, 231)]
    steps = steps_of([*before, *after])
    assert (steps.attempts, steps.first, steps.last, steps.step_time_s) == (2, 201, 230, 2.0)
    assert (steps.last_time_ns, steps.total) == (at(9460), None)


def test_after_training_was_set_up_again_a_step_just_behind_is_a_restart() -> None:
    steps = steps_of([line(step) for step in range(9)])
    steps.interrupt()
    assert steps.note(*line(7))
    assert (steps.attempts, steps.first, steps.last) == (2, 7, 7)


def test_epochs_that_count_anew_are_added_up() -> None:
    bars = [line(step, steps_total="100", epoch=str(epoch)) for epoch in range(3) for step in range(10, 101, 10)]
    steps = steps_of([*bars, line(40, steps_total="100", epoch="3")])
    assert (steps.attempts, steps.first, steps.last, steps.total) == (1, 10, 340, 400)
    assert steps.counts_by_epoch


def test_with_a_number_of_epochs_the_total_is_that_of_all() -> None:
    first = steps_of(line(step, steps_total="100", epoch="1", epochs_total="3") for step in range(10, 101, 10))
    assert (first.last, first.total, first.has_epoch_total) == (100, 300, True)
    bars = [(epoch, step) for epoch in (1, 2, 3) for step in range(10, 101, 10)]
    last = steps_of(line(step, steps_total="100", epoch=str(epoch), epochs_total="3") for epoch, step in bars)
    assert (last.last, last.total) == (300, 300)


def test_a_count_that_continues_over_the_epochs_has_its_total_already() -> None:
    lines = [line(step, steps_total="300", epoch=str(1 + step // 100), epochs_total="3") for step in range(10, 200, 10)]
    assert steps_of(lines).total == 300


def test_the_bar_of_an_evaluation_is_not_the_training() -> None:
    training = [line(step, steps_total="1000") for step in range(300, 401)]
    steps = steps_of([*training, *(line(step, steps_total="50") for step in range(50)), line(401, steps_total="1000")])
    assert (steps.attempts, steps.first, steps.last, steps.total) == (1, 300, 401, 1000)


def test_another_file_of_the_job_repeats_the_steps_and_may_add_more() -> None:
    log = [line(step, step * 5.0) for step in range(50)]
    worker = [line(step, step * 5.0, file="ray_logs/w.out", rank=3) for step in range(53)]
    steps = steps_of([*log, *worker])
    assert (steps.attempts, steps.first, steps.last, steps.last_time_ns) == (1, 0, 52, at(260))
    assert steps.newest_by_rank == {3: 52}


def test_a_line_without_a_time_gets_that_of_the_last_step_and_its_seconds() -> None:
    steps = steps_of([line(0, 100, step_time_s="5.0"), *(line(step, step_time_s="5.0") for step in range(1, 11))])
    assert (steps.last_time_ns, steps.is_time_estimated) == (at(150), True)


def test_a_line_nearby_corrects_an_estimate_that_is_too_early() -> None:
    steps = steps_of([line(0, 100, step_time_s="5.0")])
    steps.note(*line(1, step_time_s="5.0"), about_ns=at(700))
    assert steps.last_time_ns == at(700)


def test_without_any_time_there_is_none() -> None:
    assert steps_of(line(step, step_time_s="5.0") for step in range(20)).last_time_ns is None
