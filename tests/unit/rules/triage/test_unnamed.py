"""Lines that no rule names: evidence, and the primary failure only where nothing named explains the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.triage.story import MAX_KEPT_UNNAMED
from tests.support.job_logs import (
    AT_300,
    HEAD,
    OOM,
    TRACEBACK,
    absl,
    labelled,
    maxtext,
    report_on,
    section_of,
    steps,
    summary,
)

LAMP = "ERROR lampd.shaft: the lamp of shaft 7 went out"
OTHER_LAMP = "ERROR lampd.shaft: the lamp of shaft 8 went out"
ENDED_WITHOUT_A_WORD = [*HEAD, *steps(0, 40)]


def test_a_silent_end_is_explained_by_the_new_line_at_the_end() -> None:
    report = report_on([*ENDED_WITHOUT_A_WORD, labelled(3, LAMP)], None)
    assert (report.status, report.primary) == ("unknown-death", "unnamed-failure")
    assert report.evidence[0].text.endswith(LAMP)
    assert "No rule names this line" in report.summary


@pytest.mark.parametrize(
    ("lines", "primary"),
    [
        ([*AT_300, labelled(3, LAMP), labelled(3, TRACEBACK), labelled(3, OOM)], "oom-gpu"),
        ([*HEAD, labelled(3, LAMP), *steps(0, 40)], "unknown-death"),
        ([*HEAD, *steps(0, 999), labelled(3, LAMP), *summary(0)], None),
        ([*steps(0, 3), LAMP], None),
    ],
    ids=["a-named-failure", "steps-followed", "the-job-completed", "no-job"],
)
def test_an_unnamed_line_is_not_the_primary_failure_with(lines: Sequence[str], primary: str | None) -> None:
    report = report_on(lines, None, name="lamps.log")
    assert report.primary == primary
    assert "unnamed-failure" not in report.classes
    assert [message.count for message in report.unnamed] == [1]


def test_lines_of_one_message_are_counted_together_the_rarest_message_first() -> None:
    report = report_on([*ENDED_WITHOUT_A_WORD, LAMP, OTHER_LAMP, "lampd: fatal: no oil"], None)
    assert [(message.template, message.count) for message in report.unnamed] == [
        ("lampd: fatal: no oil", 1),
        ("ERROR lampd.shaft: the lamp of shaft <number> went out", 2),
    ]
    first = len(ENDED_WITHOUT_A_WORD) + 1
    assert [(message.first_line, message.last_line) for message in report.unnamed] == [
        (first + 2, first + 2),
        (first, first + 1),
    ]


def test_the_summary_of_a_log_without_a_job_mentions_lines_that_look_like_failures() -> None:
    assert "some lines look like one" in report_on([LAMP], None, name="lamps.log").summary


def test_messages_without_end_take_no_more_room() -> None:
    words = [
        f"ERROR lampd: {'ab'[number % 2]}{'c' * (number // 2)} went out" for number in range(MAX_KEPT_UNNAMED + 50)
    ]
    story, _ = section_of([*ENDED_WITHOUT_A_WORD, *words])
    assert len(story.unnamed) == MAX_KEPT_UNNAMED
    assert next(reversed(story.unnamed)) == words[-1]


@pytest.mark.parametrize(
    ("lines", "primary"),
    [
        ([LAMP, "lampd: fatal: no space left in shaft 7"], "disk-full"),
        ([LAMP, "lampd: fatal: no space left in shaft 7", OOM], "oom-gpu"),
        ([*AT_300, "lampd: fatal: no space left in shaft 7", *summary(0)], None),
    ],
    ids=["nothing-named", "a-named-failure", "the-job-completed"],
)
def test_words_suggest_the_primary_failure_of_a_log_with(lines: Sequence[str], primary: str | None) -> None:
    report = report_on(lines, None, name="lamps.log")
    assert report.primary == primary
    assert report.classes == ((primary,) if primary else ())


def test_a_suggestion_is_called_one() -> None:
    report = report_on(["lampd: fatal: no space left in shaft 7"], None, name="lamps.log")
    assert report.findings == ()
    assert "no rule names its line, so what its words suggest may be wrong" in report.reasons


def test_a_message_of_one_rank_comes_before_those_of_all() -> None:
    everyones = [labelled(rank, "lampd: fatal: no oil") for rank in range(4)]
    log = [*HEAD, *(maxtext(step, task=step % 4) for step in range(40)), *everyones, labelled(3, LAMP)]
    report = report_on(log, None)
    assert report.evidence[0].text.endswith(LAMP)
    first, second = report.unnamed
    assert (first.text.endswith(LAMP), first.unusual) == (
        True,
        ("only on rank 3 of 4", "first seen after the last step"),
    )
    assert second.unusual == ("first seen after the last step",)


def test_the_time_of_a_new_message_before_the_end_is_given() -> None:
    late = [absl(900, "lampd: fatal: no oil", "E"), absl(990, "the lamp is dark", "I"), *steps(200, 204)]
    (message,) = report_on([*HEAD, *steps(0, 179), *late], None).unnamed
    assert message.unusual == ("first seen 2 minutes before the end",)
