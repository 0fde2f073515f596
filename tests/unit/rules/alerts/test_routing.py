"""Who is notified: the tree of routes, inhibition and maintenance."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.routing import Labels, RouteTarget, Routing
from epicenter.rules.model.ledger import Outcome
from epicenter.rules.model.times import NS_PER_S
from tests.support.alerts import a_routing, an_incident, read_routing

MINUTE_NS = 60 * NS_PER_S
FILE = """
route:
  targets: [chat]
  routes:
    - match: {severity: critical}
      targets: [oncall]
      continue: true
      repeat_interval: 1h
      escalate:
        - {after: 15m, targets: [lead, oncall]}
    - match: {team: ml, job: ["7*", "!7777"]}
      group_by: [cluster, job]
      group_wait: 30s
      routes:
        - match: {node: "rack12-*"}
          targets: [rack12, chat]
    - match: {class: "xid-*"}
      targets: [gpus]
labels:
  - {match: {job: "77*"}, set: {team: ml}}
  - {match: {cluster: default}, set: {team: ops, site: east}}
"""


@pytest.fixture
def routing(tmp_path: Path) -> Routing:
    file = tmp_path / "alerts.yaml"
    file.write_text(FILE.lstrip())
    found, problems = read_routing(file, ("chat", "oncall", "lead", "rack12", "gpus"))
    assert found and not problems
    return found


def targets_of(routing: Routing, labels: Labels) -> list[tuple[str, int]]:
    return [
        (route_target.target, route_target.after_ns // MINUTE_NS)
        for route_target in routing.route(labels).route_targets
    ]


def test_custom_labels_come_from_the_first_rule_that_sets_them(routing: Routing) -> None:
    labels = routing.labels_of(an_incident(jobs=["7701"]))
    assert (labels["team"], labels["site"], labels["job"]) == (("ml",), ("east",), ("7701",))
    assert routing.labels_of(an_incident(jobs=["1"]))["team"] == ("ops",)


def test_the_first_route_that_fits_wins_unless_it_continues(routing: Routing) -> None:
    critical = routing.labels_of(an_incident(severity="critical"))
    assert targets_of(routing, critical) == [("oncall", 0), ("lead", 15), ("oncall", 15), ("gpus", 0)]
    assert targets_of(routing, routing.labels_of(an_incident(severity="error"))) == [("gpus", 0)]


def test_a_route_gets_incidents_that_fit_none_of_its_inner_routes(routing: Routing) -> None:
    assert targets_of(routing, {"class": ("nan-loss",)}) == [("chat", 0)]
    assert targets_of(routing, {"team": ("ml",), "job": ("7701",), "node": ("n1",)}) == [("chat", 0)]
    assert targets_of(routing, {"team": ("ml",), "job": ("7777", "7701")}) == [("chat", 0)]


def test_a_route_inherits_the_options_it_leaves_out(routing: Routing) -> None:
    rack12, chat = routing.route({"team": ("ml",), "job": ("7701",), "node": ("rack12-n1",)}).route_targets
    wanted = RouteTarget("rack12", "alerts.yaml:14", ("cluster", "job"), 30 * NS_PER_S, MINUTE_NS, 240 * MINUTE_NS, 0)
    assert rack12 == wanted
    assert chat == wanted._replace(target="chat")
    (default,) = routing.route({}).route_targets
    assert default == RouteTarget("chat", "alerts.yaml:2", ("incident",), 0, MINUTE_NS, 240 * MINUTE_NS, 0)


def test_reasons_cover_every_branch(routing: Routing) -> None:
    labels = routing.labels_of(an_incident(severity="critical", jobs=["7701"], node="rack12-n1"))
    assert routing.route(labels).reasons == (
        "alerts.yaml:2: every incident: matches",
        "alerts.yaml:4: severity is critical: matches, notifies oncall",
        "alerts.yaml:10: team is ml, job is 7701: matches",
        "alerts.yaml:14: node is rack12-n1: matches, notifies rack12, chat",
        "alerts.yaml:16: skipped, alerts.yaml:10 matched first",
    )
    assert routing.route({"node": ("n7",), "team": ("ml",), "job": ("71",)}).reasons[2:4] == (
        "alerts.yaml:10: team is ml, job is 71: matches, notifies chat",
        "alerts.yaml:14: node is n7, not rack12-*",
    )


def test_the_same_target_is_routed_once() -> None:
    routing = a_routing(
        """
        route:
          targets: [chat]
          routes:
            - {continue: true, group_by: [job, cluster]}
            - {continue: true, group_by: [cluster, job], repeat_interval: 1h}
            - {continue: true, group_by: [job]}
            - {continue: true, group_by: [job], escalate: [{after: 5m, targets: chat}]}
        """
    )
    route_targets = routing.route({}).route_targets
    assert [(route_target.group_by, route_target.after_ns // MINUTE_NS) for route_target in route_targets] == [
        (("job", "cluster"), 0),
        (("job",), 5),
    ]


def test_an_empty_list_of_targets_sends_no_notification() -> None:
    routing = a_routing("route: {targets: chat, routes: [{match: {severity: info}, targets: []}]}")
    assert routing.route({"severity": ("info",)}) == (
        (),
        ("alerts.yaml: every incident: matches", "alerts.yaml: severity is info: matches, notifies no one"),
    )


INHIBIT = """
route: {targets: chat}
inhibit:
  - {source: {class: gpu-fallen-off-bus}, target: {class: nccl-timeout}, equal: [job]}
  - {source: {class: node-fail}, target: {}, equal: [node, gpu]}
"""


def labels_of(failure_class: str, incident_id: str, **others: str) -> Labels:
    given = {"class": failure_class, "incident": incident_id, **others}
    return {name: tuple(value.split()) for name, value in given.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            labels_of("gpu-fallen-off-bus", "b", job="2 3"),
            "by incident b: its class is gpu-fallen-off-bus, and both have job 2 (alerts.yaml)",
        ),
        (labels_of("gpu-fallen-off-bus", "b", job="3"), ""),
        (labels_of("gpu-fallen-off-bus", "b"), ""),
        (labels_of("oom-gpu", "b", job="2"), ""),
        (
            labels_of("node-fail", "b", node="n1"),
            "by incident b: its class is node-fail, and both have node n1, gpu unknown (alerts.yaml)",
        ),
        (labels_of("node-fail", "b", node="n1", gpu="0000:3b"), ""),
    ],
)
def test_a_cause_mutes_its_consequence_when_they_share_a_value(source: Labels, expected: str) -> None:
    target = labels_of("nccl-timeout", "a", job="1 2", node="n1")
    routing = a_routing(INHIBIT)
    both = OpenIncidents(routing.spec.inhibit, [("a", target), ("b", source)])
    assert reason(routing.inhibited_by(target, both)) == expected
    assert routing.inhibited_by(source, both) is None


def test_of_two_incidents_that_mute_each_other_the_smaller_id_notifies() -> None:
    routing = a_routing("{route: {}, inhibit: [{source: {class: node-fail}, target: {}, equal: [job]}]}")
    both = [(name, labels_of("node-fail", name, job="7")) for name in ("a", "b")]
    mutes = [routing.inhibited_by(labels, OpenIncidents(routing.spec.inhibit, both)) for _, labels in both]
    assert mutes[0] is None and mutes[1] and (mutes[1].outcome, mutes[1].by) == (Outcome.INHIBITED, "a")


def reason(mute: Mute | None) -> str:
    return mute.reason if mute else ""


def windows(text: str) -> Routing:
    return a_routing(f"{{route: {{}}, maintenance: [{text}]}}")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-02T07:59:59Z", ""),
        ("2026-03-02T08:00:00Z", "until 2026-03-02 12:00 UTC by ada: new switches (alerts.yaml)"),
        ("2026-03-02T11:59:59Z", "until 2026-03-02 12:00 UTC by ada: new switches (alerts.yaml)"),
        ("2026-03-02T12:00:00Z", ""),
    ],
)
def test_a_window_mutes_between_its_begin_and_end(time: str, expected: str) -> None:
    routing = windows(
        "{match: {node: 'rack12-*'}, who: ada, reason: new switches,"
        " begins: 2026-03-02T09:00:00+01:00, until: 2026-03-02 12:00:00}"
    )
    assert reason(routing.maintenance({"node": ("rack12-n1",)}, at(time))) == expected
    assert routing.maintenance({"node": ("rack13-n1",)}, at(time)) is None


@pytest.mark.parametrize(
    ("time", "until"),
    [
        ("2026-03-27T20:59:59Z", ""),  # Friday, 21:59 in Berlin
        ("2026-03-27T21:00:00Z", "2026-03-28 06:00 CET"),
        ("2026-03-28T04:59:59Z", "2026-03-28 06:00 CET"),
        ("2026-03-28T05:00:00Z", ""),
        ("2026-03-28T21:00:00Z", "2026-03-29 06:00 CEST"),  # the night in which the clock is set forward
        ("2026-03-29T03:59:59Z", "2026-03-29 06:00 CEST"),
        ("2026-03-29T04:00:00Z", ""),
        ("2026-03-29T21:00:00Z", ""),  # Sunday
    ],
)
def test_a_weekly_window_mutes_over_midnight_in_its_time_zone(time: str, until: str) -> None:
    routing = windows(
        "{match: {}, who: ada, reason: backups,"
        " weekly: {days: [fri, sat], start: 22:00, end: 06:00, timezone: Europe/Berlin}}"
    )
    expected = f"until {until} by ada: backups (alerts.yaml)" if until else ""
    assert reason(routing.maintenance({}, at(time))) == expected


def test_a_weekly_window_may_last_a_whole_day() -> None:
    routing = windows("{match: {}, who: a, reason: b, weekly: {days: mon, start: '00:00', end: '24:00'}}")
    assert [bool(routing.maintenance({}, at(f"2026-03-0{day}T12:00:00Z"))) for day in (1, 2, 3)] == [False, True, False]


def at(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp()) * NS_PER_S
