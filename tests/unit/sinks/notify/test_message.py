"""Messages for people: the order of facts, the length, and templates."""

from __future__ import annotations

import logging

import msgspec
import pytest

from epicenter.rules.model.notification import Action, Brief
from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.message import action_line, cut, default_message, without_markup
from epicenter.sinks.notify.samples import KINDS
from epicenter.sinks.notify.templates import Writer
from tests.support.notifications import LITTLE, MUCH, SAMPLES, a_notification, real


def test_default_message_has_all_facts_in_order() -> None:
    message = default_message(MUCH)
    assert message.title == "Opened, critical: GPU has fallen off the bus on node0001, GPU 0000:3b:00 (and 3 more)"
    log_line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    assert message.facts == (
        ("Cause", f"xid-79 (nvidia.xid_79): “{log_line}”"),
        ("Where", "node0001 · GPU 0000:3b:00 · rank 3"),
        ("Confidence", "93%"),
        ("Cost", "23.6 GPU-hours, 120 steps since the checkpoint of step 1100"),
        ("Next step", "Drain the node."),
        ("Link", MUCH.link),
        ("Reach", "2 nodes, 16 ranks, 16 GPUs, job 7801"),
        ("Cluster", "default"),
        ("Why now", "the root cause changed"),
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


def test_unknown_facts_are_marked() -> None:
    facts = dict(default_message(LITTLE).facts)
    assert (facts["Where"], facts["Cost"], facts["Next step"]) == ("not known", "not known", "check the evidence")
    assert not {"Link", "Action", "Also", "Why now"} & facts.keys()


def test_incident_of_the_engine_becomes_a_message() -> None:
    message = default_message(real())
    assert message.title == "Opened, critical: GPU has fallen off the bus on n1, GPU 0000:9a:00"
    assert dict(message.facts)["Next step"] == "Drain the node and move its jobs elsewhere."


def test_large_group_is_summarized() -> None:
    many = msgspec.structs.replace(MUCH, also=(Brief.of(LITTLE.incident),) * 50, more=16_000)
    message = default_message(many)
    assert message.title.endswith("(and 16,050 more)")
    assert len(dict(message.facts)["Also"]) <= 600


def test_long_title_keeps_the_count_of_others() -> None:
    title = default_message(a_notification(title="x" * 10_000)).title
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
def test_action_is_one_line(action: Action, line: str) -> None:
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
def test_cut_never_splits_an_escape(text: str, most: int, left: str) -> None:
    assert cut(text, most) == left


def test_text_without_markup_has_no_mentions_or_links() -> None:
    evil = "@here <!channel> [a](https://evil.example) www.evil.example *b* _c_ ~d~ `e` ||f|| #g &lt; \\ gpu_0_1 \x1b"
    shown = without_markup(evil)
    assert not set("@<>[]*~`|#&") & set(shown)
    assert "://" not in shown and "www." not in shown and "_c_" not in shown
    assert "gpu_0_1" in shown and shown.endswith("＼x1b")


@pytest.mark.parametrize("kind", KINDS)
def test_template_replaces_title_and_body(kind: str) -> None:
    spec = TemplateSpec(
        title="{{ notification.kind }}\n at {{ incident.cluster }}", body="{{ title }}\n{{ body }}\n{{ link }}"
    )
    sample = next(sample for sample in SAMPLES if sample.kind == kind)
    message = Writer("ops", spec).write(sample)
    assert (message.title, message.facts) == (f"{kind} at default", ())
    assert message.body == f"{default_message(sample).title}\n{default_message(sample).body}\n{sample.link}"


def test_log_text_in_a_template_is_sanitized() -> None:
    evil = a_notification(title="a\nb\x1b[2J\u202e<!here>")
    written = Writer("ops", TemplateSpec(body="*{{ incident.title }}*")).write(evil)
    assert written.body == r"*a\nb\x1b[2J\u202e<!here>*"
    disarming = Writer("ops", TemplateSpec(body="*{{ incident.title }}*"), without_markup).write(evil)
    assert disarming.body == "*a＼nb＼x1b［2J＼u202e＜!here＞*"


def test_failing_template_falls_back_to_the_default_message(caplog: pytest.LogCaptureFixture) -> None:
    spec = TemplateSpec(title="{{ 1 / (incident.revision - 7) }}")
    with caplog.at_level(logging.WARNING):
        message = Writer("ops", spec).write(a_notification(revision=7))
    assert message == default_message(a_notification(revision=7))
    (record,) = caplog.records
    assert record.msg == {"event": "alert_template_failed", "target": "ops", "error": "division by zero"}
    caplog.clear()
    assert Writer("ops", spec).write(a_notification(revision=8)).title == "1.0"
    assert caplog.messages == []


def test_empty_title_falls_back_to_the_default() -> None:
    assert Writer("ops", TemplateSpec(title=" {# nothing #} ")).write(MUCH).title == default_message(MUCH).title
