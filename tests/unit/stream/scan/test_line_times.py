"""Times of lines without one: in a recording that begins with times, of the nearest line before, however far back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import may_state_time, parse, stated_time
from epicenter.rules.model.records import Origin
from epicenter.stream.scan import batch_lines
from epicenter.stream.scan.batch_lines import BatchLines
from epicenter.stream.scan.line_times import MAX_LOOKBACK_LINES, Earlier, LineTimes
from tests.support.logs import START_NS, at, iso, record

FAR = 5 * MAX_LOOKBACK_LINES
PLAIN = "step 12:3 of 0.84743373693"
TIMED_AT = (0, 40, 2 * FAR)
LINES = [f"{iso(number)} x" if number in TIMED_AT else PLAIN for number in range(4 * FAR)]


def line_times_of(lines: Sequence[str], is_one_text: bool = False) -> tuple[LineTimes, Batch]:
    values = [line.encode() for line in lines]
    given = TextLines(b"\n".join([*values, b""])) if is_one_text else values
    count = len(values)
    origin = Origin(head_time_ns=START_NS)
    batch = Batch("a.log", given, [None] * count, [2 * START_NS] * count, range(count), True, True, origin, True)
    return LineTimes(BatchLines(batch, "", {}), Earlier()), batch


def times_of(numbers: list[int], is_one_text: bool, lines: Sequence[str] = LINES) -> list[int]:
    times, batch = line_times_of(lines, is_one_text)
    return [times.with_time(parse(batch.record(number), "c"), number).event.event_time_ns for number in numbers]


@pytest.mark.parametrize("is_one_text", [True, False], ids=["text", "records"])
def test_a_line_has_the_time_of_the_nearest_timed_line_however_far_back(is_one_text: bool) -> None:
    numbers = [1, 39, 41, FAR, 2 * FAR - 1, 2 * FAR + 1, 3 * FAR, 4 * FAR - 1]
    nearest = [max(timed for timed in TIMED_AT if timed <= number) for number in numbers]
    assert times_of(numbers, is_one_text) == [stated_time(record(LINES[timed].encode())) for timed in nearest]


def test_an_untimed_line_comes_before_the_next_timed_one_however_far_on() -> None:
    times, batch = line_times_of(LINES)
    events = [parse(batch.record(number), "c").event for number in range(len(LINES))]
    found = [times.next_ns(number, events[number]) for number in (1, 39, 40, 41, 2 * FAR - 1, 2 * FAR + 1)]
    assert found == [at(40), at(40), 0, at(2 * FAR), at(2 * FAR), 0]


def test_only_lines_that_may_state_a_time_are_parsed_while_looking_back(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(batch_lines, "stated_time", lambda record: parsed.append(record) or stated_time(record))
    times_of([4 * FAR - 1], is_one_text=True)
    assert [record.position.offset for record in parsed] == [2 * FAR]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(12.608, [12.608, 12.608, 12.608], id="same-second"),
        pytest.param(9.608, [12.999999999, 12.999999999, 9.608], id="another-clock"),
        pytest.param(13.608, [12.999999999, 12.999999999, 13.608], id="next-second"),
    ],
)
def test_the_end_of_a_second_is_before_the_next_line_of_that_second(second: float, expected: list[float]) -> None:
    banners = [
        f"slurmstepd: error: *** {of} ON n1 CANCELLED AT 2026-03-02T09:00:12 ***" for of in ("JOB 7", "STEP 7.0")
    ]
    lines = [*banners, f"{iso(second)} Received 15 death signal", "srun: error: n1: task 0: Exited with exit code 1"]
    assert times_of([0, 1, 3], False, lines) == [at(time) for time in expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x 09:10:11 y", True),
        ("1772442000.123456 n1 x", True),
        ('{"timestamp": 1772442000, "message": "x"}', True),
        ("loss 0.8474337369372327, 3:14", False),
        ("", False),
    ],
)
def test_only_lines_with_a_clock_an_epoch_or_an_envelope_may_state_a_time(value: str, expected: bool) -> None:
    assert may_state_time(value.encode()) is expected
