"""The texts of an incident that every rendering shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from epicenter.rules.model.incident import (
    ChainLink,
    Change,
    Check,
    Cost,
    Evidence,
    Explanation,
    Progress,
    RankedCause,
    Recurrence,
)
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.text.commands import command_parts
from epicenter.sinks.text.humanize import ns
from epicenter.sinks.text.incident_view import IncidentView
from tests.unit.sinks.clickhouse.test_rows import an_incident
from tests.unit.sinks.page.test_postmortem import with_root

NASTY = "a\x1b[31m\u202eb\nc"
SHOWN = r"a\x1b[31m\u202eb\nc"


def a_view(**changed: Any) -> IncidentView:
    return IncidentView(msgspec.structs.replace(an_incident(), **changed))


def test_the_cause_has_class_place_confidence_and_reasons() -> None:
    view = a_view()
    assert view.place == "gpu-001 · GPU 0000:3b:00"
    cause = view.cause
    assert (cause.failure_class, cause.where) == ("gpu.fell_off_bus", " on gpu-001, GPU 0000:3b:00")
    assert (cause.confidence_percent, view.sureness, cause.reasons) == ("90%", "almost certain", ("earliest",))


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({}, "gpu.fell_off_bus on gpu-001 came first at 09:00:01 UTC."),
        ({"confidence": 0.6}, "gpu.fell_off_bus on gpu-001 probably came first at 09:00:01 UTC."),
        ({"node": ""}, "gpu.fell_off_bus came first at 09:00:01 UTC."),
        (
            {
                "explains": (
                    Explanation("sigabrt", "gpu-001", "it ends"),
                    Explanation("nccl-timeout", "n2", "the others wait"),
                )
            },
            "gpu.fell_off_bus on gpu-001 came first at 09:00:01 UTC: the others wait.",
        ),
        (
            {"explains": (Explanation("hang", "gpu-001", "it waits"),)},
            "gpu.fell_off_bus on gpu-001 came first at 09:00:01 UTC: it waits.",
        ),
    ],
)
def test_the_headline_has_the_cause_first_and_then_its_effects(changed: dict[str, Any], sentences: str) -> None:
    assert IncidentView(with_root(an_incident(), **changed)).headline == sentences


def test_the_headline_leaves_out_an_unknown_time() -> None:
    assert a_view(chain=()).headline == "gpu.fell_off_bus on gpu-001 came first."


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({}, "It is still open."),
        (
            {"status": "resolved", "cost": Cost(3, since_checkpoint_step=7)},
            "It is resolved; cost so far: 3 steps since",
        ),
        ({"merged_into": "00000000000000a2"}, "It was merged into incident 00000000000000a2."),
    ],
)
def test_the_summary_ends_with_the_state(changed: dict[str, Any], sentences: str) -> None:
    assert f"It affects 2 nodes, 16 ranks and 1 job. {sentences}" in a_view(**changed).summary


def test_a_link_shows_its_log_time_only_if_it_began_before() -> None:
    began = "2026-03-02T09:00:01.250000000Z"
    late = ChainLink("2026-03-02T09:10:01.500000000Z", began, "n2", 3, "nccl-timeout", "cascade", "Watchdog")
    first, second = a_view(chain=(msgspec.structs.replace(late, event_time=began), late)).chain
    assert (first.began, first.clock, first.logged) == ("2026-03-02 09:00:01.250", "09:00:01.250", "")
    assert (second.logged, second.where) == ("09:10:01.500", " on n2, rank 3")


def test_lines_of_the_root_cause_come_first() -> None:
    other = Evidence("worker.log", 1, "gpu-001", "nccl-timeout", "Watchdog")
    view = a_view(evidence=(other, *an_incident().evidence))
    assert [(line.place, line.is_root) for line in view.evidence] == [("kern.log:3", True), ("worker.log:1", False)]


@pytest.mark.parametrize(
    ("node", "failure_class", "line"),
    [
        ("gpu-001", "gpu.fell_off_bus", "of the node"),
        ("gpu-009", "gpu.fell_off_bus", "of another"),
        ("gpu-001", "hang", ""),
    ],
)
def test_the_line_of_the_cause_is_that_of_its_node(node: str, failure_class: str, line: str) -> None:
    evidence = tuple(
        Evidence("kern.log", 1, on, "gpu.fell_off_bus", text)
        for on, text in (("gpu-002", "of another"), ("gpu-001", "of the node"))
    )
    view = IncidentView(with_root(a_view(evidence=evidence).incident, node=node, failure_class=failure_class))
    assert view.cause_line == line


@pytest.mark.parametrize(("step_time_s", "pace"), [(None, ""), (3.987, "3.99 s a step"), (0.0, "")])
def test_progress_has_last_step_time_and_pace(step_time_s: float | None, pace: str) -> None:
    (shown,) = a_view(progress={"j": Progress(9, "2026-03-02T08:59:59.000000000Z", step_time_s)}).progress
    assert (shown.last_step, shown.seen, shown.clock, shown.pace) == (9, "2026-03-02 08:59:59", "08:59:59", pace)


@pytest.mark.parametrize(
    ("recurrence", "sentences"),
    [
        (None, ()),
        (Recurrence(2, None, ("a",), (), ()), ("This job has failed 2 times.",)),
        (
            Recurrence(3, 400, ("a",), ("n1",), ("a0", "a1")),
            (
                "This job has failed 3 times, each time near step 400.",
                "These nodes were involved in most of them: n1.",
                "Earlier incidents: a0, a1.",
            ),
        ),
    ],
)
def test_recurrence_is_described(recurrence: Recurrence | None, sentences: tuple[str, ...]) -> None:
    assert a_view(recurrence=recurrence).recurrence == sentences


@pytest.mark.parametrize(("status", "lasted"), [("open", "1 h"), ("resolved", "10 min")])
def test_the_duration_runs_to_the_end_or_until_now(status: str, lasted: str) -> None:
    view = a_view(status=status)
    first_ns = ns(view.incident.first_seen)
    assert first_ns is not None
    assert view.lasted(first_ns + 3_600 * NS_PER_S) == lasted
    assert a_view(first_seen="soon").lasted(0) == ""


def test_every_text_is_sanitized() -> None:
    time = "2026-03-02T09:00:01.000000000Z"
    incident = msgspec.structs.replace(
        with_root(an_incident(), node=NASTY, gpu=NASTY, failure_class=NASTY, rule=NASTY, reasons=(NASTY,)),
        title=NASTY,
        chain=(ChainLink(time, time, NASTY, 0, NASTY, NASTY, NASTY),),
        evidence=(Evidence(NASTY, 1, NASTY, NASTY, NASTY),),
        candidates=(RankedCause(NASTY, NASTY, NASTY, None, NASTY, 0.5, (NASTY,)),),
        missing=(NASTY,),
        next_steps=(NASTY,),
        progress={NASTY: Progress(1, NASTY, None)},
        history=(Change(NASTY, NASTY),),
        recurrence=Recurrence(2, None, (), (NASTY,), (NASTY,)),
        first_seen=NASTY,
        merged_into=NASTY,
    )
    view = IncidentView(incident)
    assert (view.title, view.missing, view.next_steps) == (SHOWN, (SHOWN,), (SHOWN,))
    assert view.cause_line == view.evidence[0].text == SHOWN.replace(r"\n", "\n")
    texts = [view.title, view.place, view.headline, view.summary, *view.missing, *view.next_steps, *view.recurrence]
    texts += [text for part in (view.cause, *view.candidates) for text in (part.failure_class, part.where, part.rule)]
    texts += [*view.cause.reasons, *(text for link in view.chain for text in (link.role, link.node, link.text))]
    texts += [text for line in view.evidence for text in (line.place, line.node, line.failure_class)]
    texts += [text for change in view.history for text in (change.what, change.shown_time)]
    texts += [text for progress in view.progress for text in (progress.name, progress.seen)]
    assert [text for text in texts if not text.isprintable()] == []


def test_the_root_cause_comes_before_what_was_logged_after_it_began() -> None:
    root, *_ = an_incident().chain
    dated_back = msgspec.structs.replace(root, role="cascade", failure_class="hang", onset="2026-03-02T08:59:00Z")
    noise = msgspec.structs.replace(dated_back, failure_class="noise", event_time="2026-03-02T08:59:01Z")
    view = a_view(chain=(dated_back, noise, root))
    assert [link.failure_class for link in view.chain] == ["noise", root.failure_class, "hang"]


def test_fields_and_checks_are_shown_by_name_and_sanitized() -> None:
    root = msgspec.structs.replace(an_incident().root_cause, fields={"peer": NASTY})
    view = a_view(root_cause=root, checks=(Check("who?", NASTY),))
    assert view.fields == (("peer", SHOWN),)
    assert [(check.question, check.answer) for check in view.checks] == [("who?", SHOWN)]
    assert a_view().fields == a_view().checks == ()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Drain the node.", [("Drain the node.", False)]),
        ("Run `dmesg -T` there.", [("Run ", False), ("dmesg -T", True), (" there.", False)]),
        ("`a` and `b`", [("a", True), (" and ", False), ("b", True)]),
        ("one ` alone", [("one ` alone", False)]),
        ("`a` and ` alone", [("a", True), (" and ` alone", False)]),
        ("", []),
    ],
)
def test_text_between_backticks_is_a_command(text: str, parts: list[tuple[str, bool]]) -> None:
    assert command_parts(text) == parts
