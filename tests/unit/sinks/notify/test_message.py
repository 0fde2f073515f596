"""What people read: the order of it, its length, and templates in its place."""

from __future__ import annotations

import logging

import msgspec
import pytest

from epicenter.rules.model.notification import Action, Brief
from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.message import action_line, cut, default_message, disarmed
from epicenter.sinks.notify.samples import KINDS
from epicenter.sinks.notify.templates import Writer
from tests.support.notifications import LITTLE, MUCH, SAMPLES, real, told


def test_the_default_message_says_everything_in_its_order() -> None:
    message = default_message(MUCH)
    assert message.title == "Opened, critical: GPU has fallen off the bus on node0001, GPU 0000:3b:00 (and 3 more)"
    said = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    assert message.facts == (
        ("Cause", f"xid-79 (nvidia.xid_79): “{said}”"),
        ("Where", "node0001 · GPU 0000:3b:00 · rank 3"),
        ("Confidence", "93%"),
        ("Cost", "23.6 GPU-hours, 120 steps since the checkpoint of step 1100"),
        ("Next step", "Drain the node."),
        ("Link", MUCH.link),
        ("Reach", "2 nodes, 16 ranks, 16 GPUs, job 7801"),
        ("Cluster", "default"),
        ("Why now", "its cause is another one"),
        ("After that", "Power-cycle it."),
        (
            "Action",
            "drain-node node0001, GPU 0000:3b:00, job 7801, without node0001, from step 1100 "
            "(dry run; 1 node of 4 an hour)",
        ),
        ("Also", "Job 7 is silent (error, open); 2 more"),
        ("Incident", "8899aabbccddeeff, revision 1, open"),
    )
    assert message.body.splitlines()[4] == "Next step: Drain the node."


def test_what_is_not_known_is_said() -> None:
    facts = dict(default_message(LITTLE).facts)
    assert (facts["Where"], facts["Cost"], facts["Next step"]) == ("not told", "not known", "read the evidence")
    assert not {"Link", "Action", "Also", "Why now"} & facts.keys()


def test_an_incident_of_the_engine_is_told() -> None:
    message = default_message(real())
    assert message.title == "Opened, critical: GPU has fallen off the bus on n1, GPU 0000:9a:00"
    assert dict(message.facts)["Next step"] == "Drain the node and move its jobs elsewhere."


def test_a_group_of_many_is_told_in_short() -> None:
    many = msgspec.structs.replace(MUCH, also=(Brief.of(LITTLE.incident),) * 50, more=16_000)
    message = default_message(many)
    assert message.title.endswith("(and 16,050 more)")
    assert len(dict(message.facts)["Also"]) <= 600


def test_a_long_title_keeps_how_many_more() -> None:
    title = default_message(told(title="x" * 10_000)).title
    assert len(title) == 250 and title.endswith("x… (and 3 more)")


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Action(), ""),
        (Action("wait", why="the switch comes back"), "wait (dry run; the switch comes back)"),
        (Action("reboot-node", ("n1",), is_dry_run=False, is_allowed=True), "reboot-node n1 (allowed)"),
        (
            Action("reset-gpu", ("n1",), "0", is_dry_run=False, why="5 today"),
            "reset-gpu n1, GPU 0 (not allowed; 5 today)",
        ),
    ],
)
def test_actions_in_a_line(action: Action, line: str) -> None:
    assert " ".join(action_line(action).split()) == line


@pytest.mark.parametrize(
    ("text", "most", "left"),
    [
        ("short", 5, "short"),
        ("too long", 5, "too …"),
        (r"ab\x1b[31m", 4, "ab…"),
        (r"ab\x1b[31m", 5, "ab…"),
        (r"ab\x1b[31m", 6, "ab…"),
        (r"ab\x1b[31m", 7, r"ab\x1b…"),
        (r"a\U000e0001b", 10, "a…"),
        (r"a\u202eb!", 7, "a…"),
        ("anything", 1, "…"),
    ],
)
def test_no_escape_is_cut_in_two(text: str, most: int, left: str) -> None:
    assert cut(text, most) == left


def test_disarmed_text_is_nobody_and_leads_nowhere() -> None:
    evil = "@here <!channel> [a](https://evil.example) www.evil.example *b* _c_ ~d~ `e` ||f|| #g &lt; \\ gpu_0_1 \x1b"
    shown = disarmed(evil)
    assert not set("@<>[]*~`|#&") & set(shown)
    assert "://" not in shown and "www." not in shown and "_c_" not in shown
    assert "gpu_0_1" in shown and shown.endswith("＼x1b")


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_takes_the_place_of_title_and_body(kind: str) -> None:
    spec = TemplateSpec(
        title="{{ notification.kind }}\n at {{ incident.cluster }}", body="{{ title }}\n{{ body }}\n{{ link }}"
    )
    sample = next(one for one in SAMPLES if one.kind == kind)
    message = Writer("ops", spec).write(sample)
    assert (message.title, message.facts) == (f"{kind} at default", ())
    assert message.body == f"{default_message(sample).title}\n{default_message(sample).body}\n{sample.link}"


def test_log_text_in_a_template_is_inert_and_in_one_line() -> None:
    evil = told(title="a\nb\x1b[2J\u202e<!here>")
    written = Writer("ops", TemplateSpec(body="*{{ incident.title }}*")).write(evil)
    assert written.body == r"*a\nb\x1b[2J\u202e<!here>*"
    disarming = Writer("ops", TemplateSpec(body="*{{ incident.title }}*"), disarmed).write(evil)
    assert disarming.body == "*a＼nb＼x1b［2J＼u202e＜!here＞*"


def test_a_template_that_fails_after_all_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    spec = TemplateSpec(title="{{ 1 / (incident.revision - 7) }}")
    with caplog.at_level(logging.WARNING):
        message = Writer("ops", spec).write(told(revision=7))
    assert message == default_message(told(revision=7))
    (record,) = caplog.records
    assert record.msg == {"event": "alert_template_failed", "target": "ops", "error": "division by zero"}
    caplog.clear()
    assert Writer("ops", spec).write(told(revision=8)).title == "1.0"
    assert caplog.messages == []


def test_an_empty_title_is_the_default_one() -> None:
    assert Writer("ops", TemplateSpec(title=" {# nothing #} ")).write(MUCH).title == default_message(MUCH).title
