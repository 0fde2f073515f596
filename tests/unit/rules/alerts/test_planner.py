"""Which target is notified of what and when: the stages after routing, by a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.alerts.muting import EvaluationContext, OperatorActions
from epicenter.rules.alerts.planner import MAX_PENDING
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.alerts.state import RETENTION_NS
from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import at, the_rules
from tests.support.planning import NOW_NS, SILENT_RULE, Office, incident, resolved, routing, with_cause
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
    assert Office(routing()).take(*revisions, after_s=61).kinds == kinds


def test_old_revisions_notify_nothing_when_read_again() -> None:
    story = [INCIDENT, incident(nodes=50, signal_count=60), resolved(incident(nodes=50, signal_count=60))]
    office = Office(routing()).take(*story, after_s=61)
    office.take(*story, after_s=61).wait(10 * HOUR_S)
    assert office.kinds == ["opened", "updated", "resolved"]


def test_16384_failing_ranks_make_one_message_and_two_updates() -> None:
    office = Office(routing())
    for rank in range(16_384):
        office.take(incident(nodes=1 + rank // 8, signal_count=1 + rank), after_s=0.02)
    assert office.kinds == ["opened", "updated", "updated"]
    reached = [one.incident.blast_radius.nodes for one in office.sent]
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
    office = Office(routing()).take(INCIDENT, changed)
    assert office.kinds == ["opened"]
    office.wait(60)
    assert office.kinds == ["opened", "updated"] if notifies else ["opened"]


def test_incidents_of_a_group_share_a_notification() -> None:
    office = Office(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    office.take(*(incident(f"i{number:03}", severity="warning") for number in range(299)), after_s=0.05)
    office.take(incident("worst", severity="critical"))
    assert office.sent == []
    (only,) = office.wait(30).sent
    assert (only.incident.incident_id, len(only.also), only.more) == ("worst", 50, 249)
    office.take(incident("late"), after_s=1)
    assert len(office.sent) == 1
    later = office.wait(60).sent[1]
    assert (later.kind, later.incident.incident_id) == ("opened", "late")
    assert later.also[0].incident_id == "worst"


def test_a_group_resolves_with_its_last_incident() -> None:
    office = Office(routing(route={"targets": "pager", "group_by": ["cluster"]}))
    first, second = incident("a"), incident("b", severity="warning")
    office.take(first, second).wait(60)
    office.take(resolved(first))
    assert (office.sent[-1].kind, office.sent[-1].incident.incident_id) == ("updated", "b")
    office.take(resolved(second))
    assert office.kinds == ["opened", "opened", "updated", "resolved"]


def test_a_liveness_verdict_refuted_within_the_grace_period_never_notifies() -> None:
    silent = with_cause(INCIDENT, rule=SILENT_RULE)
    office = Office(routing()).take(silent).wait(5)
    office.take(resolved(silent), after_s=5).wait(HOUR_S)
    assert (office.sent, office.outcomes) == ([], ["held", "refuted"])


def test_the_next_step_of_a_job_refutes_its_hang() -> None:
    engine = Engine(the_rules())
    engine.add([], [a_step(number, 5 * number) for number in range(10)])
    (hang,) = engine.advance(at(1000))
    assert hang.root_cause.rule == SILENT_RULE
    engine.add([], [a_step(10, 1010)])
    (over,) = engine.advance(at(1011))
    office = Office(routing()).take(hang, over, after_s=10).wait(HOUR_S)
    assert (office.sent, office.outcomes) == ([], ["held", "refuted"])


def test_a_liveness_verdict_notifies_after_the_grace_period_or_when_a_line_explains_it() -> None:
    silent = with_cause(INCIDENT, rule=SILENT_RULE)
    assert Office(routing()).take(silent).wait(19.9).sent == []
    assert Office(routing()).take(silent).wait(20).kinds == ["opened"]
    assert Office(routing()).take(silent, INCIDENT, after_s=1).kinds == ["opened"]
    assert Office(routing()).take(silent).wait(1, is_last=True).kinds == ["opened"], "nothing can refute it any more"


def test_a_silenced_incident_notifies_when_the_silence_ends() -> None:
    office = Office(routing())
    until_ns = NOW_NS + HOUR_S * NS_PER_S
    office.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, until_ns, "ada", "known"),))
    office.take(INCIDENT).wait(60).wait(60)
    assert (office.sent, office.outcomes) == ([], ["silenced"])
    assert office.decisions[0].reason == "by ada: known"
    assert office.wait(HOUR_S).kinds == ["opened"]


def test_resolved_passes_a_silence_to_a_target_notified_before_it() -> None:
    office = Office(routing()).take(INCIDENT)
    office.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, NOW_NS * 2, "ada", "known"),))
    assert office.take(incident(nodes=30)).wait(60).kinds == ["opened"]
    assert office.take(RESOLVED).kinds == ["opened", "resolved"]


def test_maintenance_mutes_and_says_who_until_when_and_why() -> None:
    window = {"match": {"node": "n*"}, "who": "ada", "reason": "racks move", "until": "2030-01-01T00:00:00Z"}
    office = Office(routing(maintenance=[window | {"begins": "2020-01-01T00:00:00Z"}])).take(INCIDENT).wait(1)
    assert (office.sent, office.outcomes) == ([], ["maintenance"])
    assert "racks move" in office.decisions[0].reason


INHIBIT = [{"source": {"severity": "critical"}, "target": {"severity": "warning"}, "equal": ["node"]}]
CAUSE, EFFECT = incident("cause", severity="critical"), incident("effect", severity="warning")


def test_a_cause_mutes_its_consequence_until_it_resolves_across_a_restart() -> None:
    office = Office(routing(inhibit=INHIBIT)).take(CAUSE, EFFECT)
    office.restart()
    office.wait(HOUR_S)
    assert (office.kinds, office.outcomes) == (["opened"], ["inhibited"])
    office.take(resolved(CAUSE)).wait(1)
    assert [(one.kind, one.incident.incident_id) for one in office.sent[1:]] == [
        ("resolved", "cause"),
        ("opened", "effect"),
    ]


def test_a_consequence_that_resolves_with_its_cause_never_notifies() -> None:
    office = Office(routing(inhibit=INHIBIT)).take(CAUSE, EFFECT, resolved(EFFECT), resolved(CAUSE)).wait(1)
    assert {one.incident.incident_id for one in office.sent} == {"cause"}


ESCALATION: dict[str, Any] = {
    "route": {"targets": "chat", "repeat_interval": "4h", "escalate": [{"after": "15m", "targets": "boss"}]}
}


def acknowledged(office: Office, one: Incident = INCIDENT) -> None:
    office.actions = OperatorActions(
        (), {one.incident_id: Acknowledgement(one.incident_id, "ada", office.now_ns, "on it")}
    )


def test_an_incident_escalates_when_nobody_acknowledges() -> None:
    office = Office(routing(**ESCALATION)).take(INCIDENT).wait(14 * 60)
    assert office.notified == [("chat", "opened")]
    assert office.wait(60).notified == [("chat", "opened"), ("boss", "escalated")]
    office.take(RESOLVED)
    assert sorted(office.notified[2:]) == [("boss", "resolved"), ("chat", "resolved")]


def test_an_acknowledgement_notifies_and_ends_escalation_and_repetition() -> None:
    office = Office(routing(**ESCALATION)).take(INCIDENT).wait(60)
    acknowledged(office)
    office.wait(1).wait(15 * 60).wait(9 * HOUR_S)
    assert office.notified == [("chat", "opened"), ("chat", "acknowledged")]
    assert set(office.outcomes) == {"acknowledged"}
    office.take(incident(nodes=200)).wait(1)
    assert office.notified[2:] == [("chat", "updated")], "a change still notifies"


def test_an_acknowledgement_does_not_cover_a_reopened_incident() -> None:
    office = Office(routing(**ESCALATION)).take(INCIDENT).wait(60)
    acknowledged(office)
    office.wait(1).take(RESOLVED, REOPENED, after_s=61).wait(16 * 60)
    assert office.notified[2:] == [("chat", "resolved"), ("chat", "reopened"), ("boss", "escalated")]


def test_an_escalation_starts_its_wait_after_a_silence() -> None:
    office = Office(routing(**ESCALATION))
    office.actions = OperatorActions((Silence("s1", {"node": "n1"}, 0, NOW_NS + HOUR_S * NS_PER_S, "ada", "known"),))
    office.take(INCIDENT)
    for _ in range(61):
        office.wait(60)
    assert office.notified == [("chat", "opened")]
    assert office.wait(13 * 60).notified == [("chat", "opened")]
    assert office.wait(60).notified[1:] == [("boss", "escalated")]


def test_an_open_incident_is_repeated() -> None:
    office = Office(routing()).take(INCIDENT).wait(4 * HOUR_S).wait(60).wait(4 * HOUR_S)
    assert office.kinds == ["opened", "repeated", "repeated"]
    assert len({one.notification_id for one in office.sent}) == 3


def test_resolved_reaches_a_target_notified_before_a_reroute() -> None:
    by_class = [{"match": {"class": "gpu-*"}, "targets": "hardware"}, {"match": {"class": "host-*"}, "targets": "apps"}]
    office = Office(routing(route={"targets": "chat", "routes": by_class}))
    office.take(incident(failure_class="host-oom-kill"))
    first, now = office.sent[0].target, with_cause(INCIDENT, failure_class="gpu-lost")
    office.take(now).wait(60).take(resolved(now))
    assert {target for target, kind in office.notified if kind == "resolved"} >= {first}


def test_the_end_of_a_run_repeats_nothing_early() -> None:
    assert Office(routing()).take(INCIDENT).wait(1, is_last=True).kinds == ["opened"]


def test_an_incident_without_a_route_is_recorded_as_unrouted() -> None:
    office = Office(routing(route={"routes": [{"match": {"cluster": "elsewhere"}, "targets": "chat"}]}))
    office.take(INCIDENT, INCIDENT).wait(1)
    assert (office.sent, office.outcomes) == ([], ["unrouted"])
    assert "elsewhere" in office.decisions[0].reason


def refuse(office: Office, *revisions: Incident) -> None:
    """Observe these, and refuse their notifications."""
    for one in revisions:
        office.planner.observe(
            one, Position("incidents/0", one.revision), EvaluationContext(office.now_ns, office.actions)
        )
    office.planner.advance(EvaluationContext(office.now_ns, office.actions))
    for group in office.planner.state.groups.values():
        while group.pending:
            office.planner.note_refused(group)
    office.keep()


def replay(office: Office, one: Incident) -> None:
    """The same revision in another record."""
    office.planner.observe(one, Position("incidents/0", 1000), EvaluationContext(office.now_ns, office.actions))


def test_a_refused_revision_notifies_again_from_a_new_record_not_after_a_restart() -> None:
    office = Office(routing())
    refuse(office, INCIDENT)
    assert office.wait(HOUR_S).sent == []
    office.restart()
    assert office.take(INCIDENT).wait(HOUR_S).sent == []
    replay(office, INCIDENT)
    assert office.wait(0).kinds == ["opened"]


def test_a_refused_resolved_can_be_replayed() -> None:
    office = Office(routing()).take(INCIDENT)
    refuse(office, RESOLVED)
    assert office.wait(HOUR_S).kinds == ["opened"]
    replay(office, RESOLVED)
    assert office.wait(0).kinds == ["opened", "resolved"]


def test_resolved_is_not_sent_for_a_refused_group() -> None:
    office = Office(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    first, second = incident("a"), incident("b")
    office.take(first, second)
    office.now_ns += 31 * NS_PER_S
    refuse(office)
    office.take(resolved(first), resolved(second)).wait(HOUR_S)
    assert office.sent == []


def test_resolved_reaches_a_target_that_refused_opened_and_accepted_an_update() -> None:
    office = Office(routing())
    for one in (INCIDENT, incident(nodes=30)):
        office.planner.observe(one, Position("incidents/0", 1), EvaluationContext(office.now_ns))
        office.now_ns += 61 * NS_PER_S
    office.planner.advance(EvaluationContext(office.now_ns))
    (group,) = office.planner.state.groups.values()
    office.planner.note_refused(group)
    assert office.wait(0).take(resolved(incident(nodes=30))).kinds == ["updated", "resolved"]


def test_resolved_is_not_sent_to_a_target_that_refused_opened() -> None:
    office = Office(routing())
    refuse(office, INCIDENT)
    assert office.take(RESOLVED).wait(HOUR_S).sent == []
    assert office.take(REOPENED).kinds == ["reopened"]


BY_JOB: dict[str, Any] = {"targets": "chat", "group_by": ["job"], "group_wait": "30s"}


def test_a_target_is_notified_once_when_an_incident_changes_groups() -> None:
    office = Office(routing(route=BY_JOB)).take(INCIDENT).wait(30)
    reaches_jobs = incident(jobs=("a", "b"), nodes=30, signal_count=60)
    office.take(reaches_jobs, resolved(reaches_jobs), after_s=HOUR_S)
    assert office.kinds == ["opened", "updated", "resolved"]
    office = Office(routing(route=BY_JOB)).take(INCIDENT, incident(jobs=("a",)), after_s=5).wait(60)
    assert office.kinds == ["opened"], "it moved before the first notification"


def test_open_incidents_stay_in_their_groups_when_the_grouping_changes() -> None:
    office = Office(routing()).take(INCIDENT)
    office.rules = routing(route=BY_JOB)
    office.restart()
    assert office.wait(HOUR_S).take(RESOLVED).kinds == ["opened", "resolved"]


def test_a_target_no_longer_routed_before_the_group_wait_ends_is_not_notified() -> None:
    routes = [{"match": {"class": "xid-79"}, "targets": "hardware"}]
    office = Office(routing(route={"targets": "chat", "group_wait": "30s", "routes": routes}))
    other = with_cause(incident(failure_class="host-oom-kill"), failure_class="host-oom-kill")
    office.take(other, INCIDENT, after_s=5).wait(60)
    assert {one.target for one in office.sent} == {"hardware"}


def test_records_may_be_cut_off_anywhere() -> None:
    office = Office(routing(route={"targets": "chat", "group_by": ["cluster"], "group_wait": "30s"}))
    first, second = incident("a"), incident("b")
    office.take(first).wait(30).take(second, resolved(first), after_s=1)
    assert office.kinds == ["opened"]
    office.now_ns += 60 * NS_PER_S
    office.planner.advance(EvaluationContext(office.now_ns))
    changes = office.planner.state.take_changes()
    assert None in changes.values()
    for length in range(len(changes)):
        cut = Office(office.rules, office.now_ns)
        cut.records = dict(office.records)
        for key, value in list(changes.items())[:length]:
            cut.records = {name: one for name, one in {**cut.records, key: value}.items() if one is not None}
        cut.restart()
        cut.wait(60).take(resolved(second)).wait(5 * HOUR_S)
        assert cut.kinds[-1] == "resolved", length
        assert not any(group.is_open for group in cut.planner.state.groups.values())


def test_an_incident_whose_document_is_lost_notifies_again() -> None:
    office = Office(routing()).take(INCIDENT)
    office.records = {key: value for key, value in office.records.items() if not key.startswith("incident/")}
    office.restart()
    assert office.wait(5 * HOUR_S).take(incident(signal_count=900)).kinds == ["opened", "opened"]


def test_an_open_group_forgets_incidents_resolved_a_week_ago() -> None:
    office = Office(routing(route={"targets": "chat", "group_by": ["cluster"]})).take(incident("lasts"))
    office.take(incident("a"), resolved(incident("a")), after_s=61)
    office.wait(RETENTION_NS / NS_PER_S).take(incident("b"), after_s=61).wait(61)
    (group,) = office.planner.state.groups.values()
    assert group.members.keys() == {"lasts", "b"}


def test_a_resolved_incident_is_forgotten_after_a_week() -> None:
    office = Office(routing()).take(INCIDENT, RESOLVED).wait(1)
    assert sorted(key.partition("/")[0] for key in office.records) == ["acted", "group"]
    assert [*office.wait(RETENTION_NS / NS_PER_S + 1).records] == ["acted"]


def test_the_newest_of_many_pending_notifications_become_one() -> None:
    office = Office(routing(route={"targets": "chat", "group_by": []}))
    for number in range(3 * MAX_PENDING):
        office.now_ns += 61 * NS_PER_S
        office.enter(incident(f"i{number:03}"))
    (group,) = office.planner.state.groups.values()
    assert len(group.pending) == MAX_PENDING
    office.wait(0)
    last = office.sent[-1]
    assert 1 + len(last.also) + last.more == 3 * MAX_PENDING


def test_a_notification_has_link_labels_event_time_and_action() -> None:
    (only,) = Office(routing(page_url="https://epicenter.example/")).take(INCIDENT).sent
    assert only.link == f"https://epicenter.example/incidents/{INCIDENT.incident_id}"
    assert (only.labels["node"], only.event_time) == (("n1",), INCIDENT.last_seen)
    assert only.action.kind != "none"
    assert only.action.nodes == ("n1",)
