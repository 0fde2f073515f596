"""Which target is notified of what and when: the stages after routing, by a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.alerts.mute_stages import OperatorActions
from epicenter.rules.alerts.planner import MAX_PENDING
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.alerts.state import RETENTION_NS
from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import at, the_rules
from tests.support.planning import NOW_NS, SILENT_RULE, PlannerHarness, incident, resolved, routing, with_cause
from tests.support.signals import a_step

INCIDENT = incident()
RESOLVED = resolved(INCIDENT)
REOPENED = incident(reopened=1)
MERGED = resolved(INCIDENT, merged_into="another")
HOUR_S = 3600


@pytest.mark.parametrize(
    ("revisions", "kinds"),
    [
        ([INCIDENT], ["opened"]),
        ([INCIDENT, INCIDENT], ["opened"]),
        ([INCIDENT, RESOLVED, RESOLVED], ["opened", "resolved"]),
        ([INCIDENT, RESOLVED, REOPENED, resolved(REOPENED)], ["opened", "resolved", "reopened", "resolved"]),
        ([INCIDENT, REOPENED, resolved(REOPENED)], ["opened", "resolved"]),
        ([RESOLVED], []),
        ([MERGED], []),
        ([INCIDENT, MERGED], ["opened", "resolved"]),
    ],
    ids=["opens", "again", "is-over", "comes-back", "is-over-unseen", "over-before", "merged-before", "merged-after"],
)
def test_each_change_notifies_once(revisions: list[Incident], kinds: list[str]) -> None:
    assert PlannerHarness(routing()).process(*revisions, after_s=61).kinds == kinds


def test_old_revisions_notify_nothing_when_read_again() -> None:
    story = [INCIDENT, incident(nodes=50, signal_count=60), resolved(incident(nodes=50, signal_count=60))]
    harness = PlannerHarness(routing()).process(*story, after_s=61)
    harness.process(*story, after_s=61).wait(10 * HOUR_S)
    assert harness.kinds == ["opened", "updated", "resolved"]


def test_16384_failing_ranks_make_one_message_and_two_updates() -> None:
    harness = PlannerHarness(routing())
    for rank in range(16_384):
        harness.process(incident(nodes=1 + rank // 8, signal_count=1 + rank), after_s=0.02)
    assert harness.kinds == ["opened", "updated", "updated"]
    reached = [notification.incident.blast_radius.nodes for notification in harness.sent]
    assert reached[0] == 1
    assert reached[1] > 100, "changes within a minute of the first share a notification"
    assert reached[2] == 1000, "then only another order of magnitude notifies"


@pytest.mark.parametrize(
    ("changed", "notifies"),
    [
        (with_cause(INCIDENT, node="n7"), True),
        (with_cause(INCIDENT, gpu="0000:10:00"), True),
        (with_cause(INCIDENT, failure_class="host-oom-kill"), True),
        (incident(severity="info"), True),
        (incident(nodes=12), True),
        (with_cause(INCIDENT, confidence=0.1), False),
        (incident(signal_count=900, last_seen="2027-01-01T00:00:00.000000000Z"), False),
    ],
    ids=["node", "gpu", "class", "severity", "reach", "confidence", "more-of-the-same"],
)
def test_an_update_notifies_when_cause_reach_or_severity_changes(changed: Incident, notifies: bool) -> None:
    harness = PlannerHarness(routing()).process(INCIDENT, changed)
    assert harness.kinds == ["opened"]
    harness.wait(60)
    assert harness.kinds == ["opened", "updated"] if notifies else ["opened"]


def test_incidents_of_a_group_share_a_notification() -> None:
    harness = PlannerHarness(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    harness.process(*(incident(f"i{number:03}", severity="warning") for number in range(299)), after_s=0.05)
    harness.process(incident("worst", severity="critical"))
    assert harness.sent == []
    (only,) = harness.wait(30).sent
    assert (only.incident.incident_id, len(only.also), only.more) == ("worst", 50, 249)
    harness.process(incident("late"), after_s=1)
    assert len(harness.sent) == 1
    later = harness.wait(60).sent[1]
    assert (later.kind, later.incident.incident_id) == ("opened", "late")
    assert later.also[0].incident_id == "worst"


def test_a_group_resolves_with_its_last_incident() -> None:
    harness = PlannerHarness(routing(route={"targets": "pager", "group_by": ["cluster"]}))
    first, second = incident("a"), incident("b", severity="warning")
    harness.process(first, second).wait(60)
    harness.process(resolved(first))
    assert (harness.sent[-1].kind, harness.sent[-1].incident.incident_id) == ("updated", "b")
    harness.process(resolved(second))
    assert harness.kinds == ["opened", "opened", "updated", "resolved"]


def test_a_liveness_verdict_refuted_within_the_grace_period_never_notifies() -> None:
    silent = with_cause(INCIDENT, rule=SILENT_RULE)
    harness = PlannerHarness(routing()).process(silent).wait(5)
    harness.process(resolved(silent), after_s=5).wait(HOUR_S)
    assert (harness.sent, harness.outcomes) == ([], ["held", "refuted"])


def test_the_next_step_of_a_job_refutes_its_hang() -> None:
    engine = Engine(the_rules())
    engine.add([], [a_step(number, 5 * number) for number in range(10)])
    (hang,) = engine.advance(at(1000))
    assert hang.root_cause.rule == SILENT_RULE
    engine.add([], [a_step(10, 1010)])
    (over,) = engine.advance(at(1011))
    harness = PlannerHarness(routing()).process(hang, over, after_s=10).wait(HOUR_S)
    assert (harness.sent, harness.outcomes) == ([], ["held", "refuted"])


def test_a_liveness_verdict_notifies_after_the_grace_period_or_when_a_line_explains_it() -> None:
    silent = with_cause(INCIDENT, rule=SILENT_RULE)
    assert PlannerHarness(routing()).process(silent).wait(19.9).sent == []
    assert PlannerHarness(routing()).process(silent).wait(20).kinds == ["opened"]
    assert PlannerHarness(routing()).process(silent, INCIDENT, after_s=1).kinds == ["opened"]
    assert PlannerHarness(routing()).process(silent).wait(1, is_last=True).kinds == ["opened"], (
        "nothing can refute it any more"
    )


def test_a_silenced_incident_notifies_when_the_silence_ends() -> None:
    harness = PlannerHarness(routing())
    until_ns = NOW_NS + HOUR_S * NS_PER_S
    harness.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, until_ns, "ada", "known"),))
    harness.process(INCIDENT).wait(60).wait(60)
    assert (harness.sent, harness.outcomes) == ([], ["silenced"])
    assert harness.decisions[0].reason == "by ada: known"
    assert harness.wait(HOUR_S).kinds == ["opened"]


def test_what_a_silence_muted_is_sent_at_its_end_while_it_is_still_so() -> None:
    harness = PlannerHarness(routing()).process(incident("before"))
    until_ns = NOW_NS + HOUR_S * NS_PER_S
    harness.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, until_ns, "ada", "known"),))
    harness.process(incident("before", nodes=30), incident("within"), incident("lasting"), after_s=61)
    harness.process(resolved(incident("within")), after_s=61)
    assert harness.kinds == ["opened"]
    harness.wait(HOUR_S)
    sent = sorted((notification.incident.incident_id, notification.kind) for notification in harness.sent[1:])
    assert sent == [("before", "updated"), ("lasting", "opened")]


def test_resolved_passes_a_silence_to_a_target_notified_before_it() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT)
    harness.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, NOW_NS * 2, "ada", "known"),))
    assert harness.process(incident(nodes=30)).wait(60).kinds == ["opened"]
    assert harness.process(RESOLVED).kinds == ["opened", "resolved"]


def test_a_maintenance_mute_names_its_author_end_and_reason() -> None:
    window = {"match": {"node": "n*"}, "who": "ada", "reason": "racks move", "until": "2030-01-01T00:00:00Z"}
    harness = (
        PlannerHarness(routing(maintenance=[window | {"begins": "2020-01-01T00:00:00Z"}])).process(INCIDENT).wait(1)
    )
    assert (harness.sent, harness.outcomes) == ([], ["maintenance"])
    assert "racks move" in harness.decisions[0].reason


INHIBIT = [{"source": {"severity": "critical"}, "target": {"severity": "warning"}, "equal": ["node"]}]
CAUSE, EFFECT = incident("cause", severity="critical"), incident("effect", severity="warning")


def test_a_cause_mutes_its_consequence_until_it_resolves_across_a_restart() -> None:
    harness = PlannerHarness(routing(inhibit=INHIBIT)).process(CAUSE, EFFECT)
    harness.restart()
    harness.wait(HOUR_S)
    assert (harness.kinds, harness.outcomes) == (["opened"], ["inhibited"])
    harness.process(resolved(CAUSE)).wait(1)
    assert [(notification.kind, notification.incident.incident_id) for notification in harness.sent[1:]] == [
        ("resolved", "cause"),
        ("opened", "effect"),
    ]


def test_a_consequence_that_resolves_with_its_cause_never_notifies() -> None:
    harness = PlannerHarness(routing(inhibit=INHIBIT)).process(CAUSE, EFFECT, resolved(EFFECT), resolved(CAUSE)).wait(1)
    assert {notification.incident.incident_id for notification in harness.sent} == {"cause"}


ESCALATION: dict[str, Any] = {
    "route": {"targets": "chat", "repeat_interval": "4h", "escalate": [{"after": "15m", "targets": "boss"}]}
}


def acknowledged(harness: PlannerHarness, incident: Incident = INCIDENT) -> None:
    harness.actions = OperatorActions(
        (), {incident.incident_id: Acknowledgement(incident.incident_id, "ada", harness.now_ns, "on it")}
    )


def test_an_incident_escalates_without_an_acknowledgement() -> None:
    harness = PlannerHarness(routing(**ESCALATION)).process(INCIDENT).wait(14 * 60)
    assert harness.notified == [("chat", "opened")]
    assert harness.wait(60).notified == [("chat", "opened"), ("boss", "escalated")]
    harness.process(RESOLVED)
    assert sorted(harness.notified[2:]) == [("boss", "resolved"), ("chat", "resolved")]


def test_an_acknowledgement_notifies_and_ends_escalation_and_repetition() -> None:
    harness = PlannerHarness(routing(**ESCALATION)).process(INCIDENT).wait(60)
    acknowledged(harness)
    harness.wait(1).wait(15 * 60).wait(9 * HOUR_S)
    assert harness.notified == [("chat", "opened"), ("chat", "acknowledged")]
    assert set(harness.outcomes) == {"acknowledged"}
    harness.process(incident(nodes=200)).wait(1)
    assert harness.notified[2:] == [("chat", "updated")], "a change still notifies"


def test_an_acknowledgement_does_not_cover_a_reopened_incident() -> None:
    harness = PlannerHarness(routing(**ESCALATION)).process(INCIDENT).wait(60)
    acknowledged(harness)
    harness.wait(1).process(RESOLVED, REOPENED, after_s=61).wait(16 * 60)
    assert harness.notified[2:] == [("chat", "resolved"), ("chat", "reopened"), ("boss", "escalated")]


def test_an_escalation_starts_its_wait_after_a_silence() -> None:
    harness = PlannerHarness(routing(**ESCALATION))
    harness.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, NOW_NS + HOUR_S * NS_PER_S, "ada", "known"),))
    harness.process(INCIDENT)
    for _ in range(61):
        harness.wait(60)
    assert harness.notified == [("chat", "opened")]
    assert harness.wait(13 * 60).notified == [("chat", "opened")]
    assert harness.wait(60).notified[1:] == [("boss", "escalated")]


def test_an_open_incident_is_repeated() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT).wait(4 * HOUR_S).wait(60).wait(4 * HOUR_S)
    assert harness.kinds == ["opened", "repeated", "repeated"]
    assert len({notification.notification_id for notification in harness.sent}) == 3


def test_resolved_reaches_a_target_notified_before_a_reroute() -> None:
    by_class = [{"match": {"class": "gpu-*"}, "targets": "hardware"}, {"match": {"class": "host-*"}, "targets": "apps"}]
    harness = PlannerHarness(routing(route={"targets": "chat", "routes": by_class}))
    harness.process(incident(failure_class="host-oom-kill"))
    first, now = harness.sent[0].target, with_cause(INCIDENT, failure_class="gpu-lost")
    harness.process(now).wait(60).process(resolved(now))
    assert {target for target, kind in harness.notified if kind == "resolved"} >= {first}


def test_the_end_of_a_run_repeats_nothing_early() -> None:
    assert PlannerHarness(routing()).process(INCIDENT).wait(1, is_last=True).kinds == ["opened"]


def test_an_incident_without_a_route_is_recorded_as_unrouted() -> None:
    harness = PlannerHarness(routing(route={"routes": [{"match": {"cluster": "elsewhere"}, "targets": "chat"}]}))
    harness.process(INCIDENT, INCIDENT).wait(1)
    assert (harness.sent, harness.outcomes) == ([], ["unrouted"])
    assert "elsewhere" in harness.decisions[0].reason


def refuse(harness: PlannerHarness, *revisions: Incident) -> None:
    """Observes these revisions and refuses their notifications."""
    for revision in revisions:
        harness.planner.observe(revision, Position("incidents/0", revision.revision), harness.context())
    harness.planner.advance(harness.context())
    for group in harness.planner.state.groups.values():
        while group.pending:
            harness.planner.record_refused(group)
    harness.save()


def replay(harness: PlannerHarness, incident: Incident) -> None:
    """The same revision in another record."""
    harness.planner.observe(incident, Position("incidents/0", 1000), harness.context())


def test_a_refused_revision_notifies_again_from_a_new_record_not_after_a_restart() -> None:
    harness = PlannerHarness(routing())
    refuse(harness, INCIDENT)
    assert harness.wait(HOUR_S).sent == []
    harness.restart()
    assert harness.process(INCIDENT).wait(HOUR_S).sent == []
    replay(harness, INCIDENT)
    assert harness.wait(0).kinds == ["opened"]


def test_a_refused_resolved_can_be_replayed() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT)
    refuse(harness, RESOLVED)
    assert harness.wait(HOUR_S).kinds == ["opened"]
    replay(harness, RESOLVED)
    assert harness.wait(0).kinds == ["opened", "resolved"]


def test_resolved_is_not_sent_for_a_refused_group() -> None:
    harness = PlannerHarness(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    first, second = incident("a"), incident("b")
    harness.process(first, second)
    harness.now_ns += 31 * NS_PER_S
    refuse(harness)
    harness.process(resolved(first), resolved(second)).wait(HOUR_S)
    assert harness.sent == []


def test_resolved_reaches_a_target_that_refused_opened_and_accepted_an_update() -> None:
    harness = PlannerHarness(routing())
    for revision in (INCIDENT, incident(nodes=30)):
        harness.planner.observe(revision, Position("incidents/0", 1), harness.context())
        harness.now_ns += 61 * NS_PER_S
    harness.planner.advance(harness.context())
    (group,) = harness.planner.state.groups.values()
    harness.planner.record_refused(group)
    assert harness.wait(0).process(resolved(incident(nodes=30))).kinds == ["updated", "resolved"]


def test_resolved_is_not_sent_to_a_target_that_refused_opened() -> None:
    harness = PlannerHarness(routing())
    refuse(harness, INCIDENT)
    assert harness.process(RESOLVED).wait(HOUR_S).sent == []
    assert harness.process(REOPENED).kinds == ["reopened"]


BY_JOB: dict[str, Any] = {"targets": "chat", "group_by": ["job"], "group_wait": "30s"}


def test_a_target_is_notified_once_when_an_incident_changes_groups() -> None:
    harness = PlannerHarness(routing(route=BY_JOB)).process(INCIDENT).wait(30)
    reaches_jobs = incident(jobs=("a", "b"), nodes=30, signal_count=60)
    harness.process(reaches_jobs, resolved(reaches_jobs), after_s=HOUR_S)
    assert harness.kinds == ["opened", "updated", "resolved"]
    harness = PlannerHarness(routing(route=BY_JOB)).process(INCIDENT, incident(jobs=("a",)), after_s=5).wait(60)
    assert harness.kinds == ["opened"], "it moved before the first notification"


def test_open_incidents_stay_in_their_groups_when_the_grouping_changes() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT)
    harness.rules = routing(route=BY_JOB)
    harness.restart()
    assert harness.wait(HOUR_S).process(RESOLVED).kinds == ["opened", "resolved"]


def test_a_target_no_longer_routed_before_the_group_wait_ends_is_not_notified() -> None:
    routes = [{"match": {"class": "xid-79"}, "targets": "hardware"}]
    harness = PlannerHarness(routing(route={"targets": "chat", "group_wait": "30s", "routes": routes}))
    other = with_cause(incident(failure_class="host-oom-kill"), failure_class="host-oom-kill")
    harness.process(other, INCIDENT, after_s=5).wait(60)
    assert {notification.target for notification in harness.sent} == {"hardware"}


def test_records_may_be_cut_off_anywhere() -> None:
    harness = PlannerHarness(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    first, second = incident("a"), incident("b")
    harness.process(first).wait(30).process(second, resolved(first), after_s=1)
    assert harness.kinds == ["opened"]
    harness.now_ns += 60 * NS_PER_S
    harness.planner.advance(harness.context())
    changes = harness.planner.state.take_changes()
    assert None in changes.values()
    for length in range(len(changes)):
        cut = PlannerHarness(harness.rules, harness.now_ns)
        cut.records = dict(harness.records)
        for key, value in list(changes.items())[:length]:
            cut.records = {name: record for name, record in {**cut.records, key: value}.items() if record is not None}
        cut.restart()
        cut.wait(60).process(resolved(second)).wait(5 * HOUR_S)
        assert cut.kinds[-1] == "resolved", length
        assert not any(group.is_open for group in cut.planner.state.groups.values())


def test_an_incident_whose_document_is_lost_notifies_again() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT)
    harness.records = {key: value for key, value in harness.records.items() if not key.startswith("incident/")}
    harness.restart()
    assert harness.wait(5 * HOUR_S).process(incident(signal_count=900)).kinds == ["opened", "opened"]


def test_an_open_group_forgets_incidents_resolved_a_week_ago() -> None:
    harness = PlannerHarness(routing(route={"targets": "chat", "group_by": ["cluster"]})).process(incident("lasts"))
    harness.process(incident("a"), resolved(incident("a")), after_s=61)
    harness.wait(RETENTION_NS / NS_PER_S).process(incident("b"), after_s=61).wait(61)
    (group,) = harness.planner.state.groups.values()
    assert group.members.keys() == {"lasts", "b"}


def test_a_resolved_incident_is_forgotten_after_a_week() -> None:
    harness = PlannerHarness(routing()).process(INCIDENT, RESOLVED).wait(1)
    assert sorted(key.partition("/")[0] for key in harness.records) == ["acted", "group"]
    assert [*harness.wait(RETENTION_NS / NS_PER_S + 1).records] == ["acted"]


def test_the_newest_of_many_pending_notifications_become_one() -> None:
    harness = PlannerHarness(routing(route={"targets": "chat", "group_by": []}))
    for number in range(3 * MAX_PENDING):
        harness.now_ns += 61 * NS_PER_S
        harness.observe(incident(f"i{number:03}"))
    (group,) = harness.planner.state.groups.values()
    assert len(group.pending) == MAX_PENDING
    harness.wait(0)
    last = harness.sent[-1]
    assert 1 + len(last.also) + last.more == 3 * MAX_PENDING


def test_a_notification_has_link_labels_event_time_and_action() -> None:
    (only,) = PlannerHarness(routing(page_url="https://epicenter.example/")).process(INCIDENT).sent
    assert only.link == f"https://epicenter.example/incidents/{INCIDENT.incident_id}"
    assert (only.labels["node"], only.event_time) == (("n1",), INCIDENT.last_seen)
    assert only.action.kind != "none"
    assert only.action.nodes == ("n1",)
