"""Every mistake in a file is reported with its line and what to write instead, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.alerts.validation.samples import samples
from tests.support.alerts import read_routing

TARGETS = ("chat", "oncall")


def problems_of(tmp_path: Path, text: str, targets: tuple[str, ...] = TARGETS) -> list[str]:
    """The problems, without the name of the file."""
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    return [problem.removeprefix(f"{file}:") for problem in read_routing(file, targets)[1]]


ROUTE = "route: {targets: [chat, oncall]}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "route: {targets: [chat, oncal]}",
            "1: route.targets: no target is called oncal: write oncall",
            id="unknown target",
        ),
        pytest.param(
            ROUTE + "inhibit:\n  - {source: {clas: hang}, target: {class: hang}}",
            "3: inhibit.0.source.clas: no label has this name: write class",
            id="unknown label",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {class: xid79}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.class: no class fits xid79: write xid-*",
            id="unknown class",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {class: 'ncl-error*'}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.class: no class fits ncl-error*: write nccl-error, nvlink-error, cublas-error",
            id="wildcard that fits no class",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {severity: '!eror'}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.severity: no severity fits eror: write error",
            id="unknown severity",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {family: gpu}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.family: no family fits gpu: write nvidia, amd, accelerators, memory, machine, "
            "kernel, storage, network, collectives, cuda, jax, processes …",
            id="unknown family",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {job: []}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.job: it has no word: write one, or leave the label out",
            id="no word",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {job: 4711}, who: a, reason: b, until: 2030-01-01}]",
            "2: maintenance.0.match.job: YAML does not read 4711 as text: put it in quotes",
            id="a number",
        ),
        pytest.param(
            "route:\n  routes: [{targets: [chat]}, {match: {node: n1}, targets: oncall}]",
            "2: route: it has no targets: write `targets`, or `targets: []` to notify no one",
            id="no target",
        ),
        pytest.param(
            "route:\n  targets: [chat, oncall]\n  match: {node: n1}",
            "3: route.match: the outermost route fits every incident: move this into its `routes`",
            id="outermost with a match",
        ),
        pytest.param(
            "route:\n  targets: [chat]\n  escalate: [{after: 0s, targets: oncall}]",
            "3: route.escalate.0.after: it leaves no time to acknowledge: write 5m or more, or use `targets`",
            id="escalation at once",
        ),
        pytest.param(
            "route:\n  targets: [chat, oncall]\n  repeat_interval: 0s",
            "3: route.repeat_interval: it would repeat without a pause: write 1m or more",
            id="repeated without end",
        ),
        pytest.param(
            "route:\n  targets: [chat, oncall]\n  update_interval: 0s",
            "3: route.update_interval: every change would be sent at once: write 1s or more",
            id="updates without end",
        ),
        pytest.param(
            "route:\n  targets: [chat, oncall]\n  group_by: [nod]",
            "3: route.group_by: nod: no label has this name: write node",
            id="unknown label to group by",
        ),
        pytest.param(
            ROUTE + "labels: [{match: {}, set: {class: mine}}]",
            "2: labels.0.set.class: every incident already has the label class: choose another name",
            id="a built-in label",
        ),
        pytest.param(
            ROUTE + "labels: [{match: {team: ml}, set: {site: east}}, {match: {}, set: {team: ml}}]",
            "2: labels.0.match.team: no label has this name: write class, family, severity, cluster, job, "
            "node, gpu, rank, rule, verdict, incident",
            id="a label that is set only later",
        ),
        pytest.param(
            ROUTE + "labels: [{match: {}, set: {cost-centre: x}}]",
            "2: labels.0.set.cost-centre: a label's name has only letters, digits and _, and does not begin with a "
            "digit: choose such a name",
            id="a label that no target takes",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {}, target: {class: hang}, equal: job}]",
            "2: inhibit.0.source: every incident would mute others: match the cause",
            id="everything mutes",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {class: node-fail}, target: {class: '*'}}]",
            "2: inhibit.0.target: every incident would be muted: match the consequences, or write `equal`",
            id="everything is muted",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {class: hang}, target: {class: hang}, equal: job}]",
            "2: inhibit.0: source and target fit the same incidents, which would mute each other: make them differ",
            id="mutes itself",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {class: hang, severity: info}, target: {class: node-fail}, equal: [jobs]}]",
            "2: inhibit.0.equal: jobs: no label has this name: write job",
            id="unknown equal label",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {class: hang}, target: {class: node-fail}, equal: [incident]}]",
            "2: inhibit.0.equal: no two incidents have the same id: remove `incident`",
            id="equal id",
        ),
        pytest.param(
            ROUTE + "inhibit: [{source: {class: hang, family: amd}, target: {class: node-fail}}]",
            "2: inhibit.0.source: no incident fits all of it: remove what contradicts the rest",
            id="class of another family",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {}, who: a, reason: b, begins: 2030-01-02, until: 2030-01-01}]",
            "2: maintenance.0.until: it ends before it begins: write a time after `begins`",
            id="over before it begins",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {}, who: a, reason: b, begins: 2030-01-02}]",
            "2: maintenance.0: it never ends: write `until`, or `weekly` with days, start and end",
            id="never ends",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {}, who: a, reason: b, until: 2030-01-02, "
            "weekly: {days: mon, start: '08:00', end: '09:00'}}]",
            "2: maintenance.0.weekly: a weekly window has no `begins` or `until`: write two windows",
            id="both kinds",
        ),
        pytest.param(
            ROUTE
            + "maintenance: [{match: {}, who: a, reason: b, weekly: {days: monday, start: '08:00', end: '9:00'}}]",
            "2: maintenance.0.weekly.days: monday is not a day: write some of mon, tue, wed, thu, fri, sat, sun",
            id="no day",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {}, who: a, reason: b, weekly: {days: mon, start: '08:00', end: '9:00'}}]",
            "2: maintenance.0.weekly.end: '9:00' is not a time of day: write it as 08:30",
            id="no time",
        ),
        pytest.param(
            ROUTE + "maintenance: [{match: {}, who: a, reason: b, weekly: {days: mon, start: '08:00', end: '09:00', "
            "timezone: Europe/Berlyn}}]",
            "2: maintenance.0.weekly.timezone: Europe/Berlyn is not a time zone: write Europe/Berlin",
            id="no time zone",
        ),
        pytest.param(
            ROUTE + "guard: {fleet_share: 0.1}",
            "2: guard.fleet_share: a share needs the number of nodes: write `fleet_nodes` too",
            id="share of nothing",
        ),
        pytest.param(
            ROUTE + "guard:\n  fleet_nodes: 32",
            "3: guard.fleet_nodes: 0.02 of 32 nodes is less than one node, so no action is ever allowed: write "
            "`fleet_share: 0.032`",
            id="share of less than one node",
        ),
        pytest.param(
            ROUTE + "page_url: epicenter/",
            "2: page_url: it is not a web address: write https://host/path",
            id="no web address",
        ),
        pytest.param(
            ROUTE + "page_url: https://ada:secret@epicenter.example/",
            "2: page_url: every notification contains it: remove name and password",
            id="a secret in the address",
        ),
        pytest.param(
            "route: {targets: chat}",
            "1: targets.oncall: no route uses it: remove it or name it in a route",
            id="an unused target",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    assert problem in problems_of(tmp_path, text)


def routes(*lines: str, options: str = "") -> str:
    inner = "".join(f"    - {line}\n" for line in lines)
    return f"route:\n  targets: [chat, oncall]\n  routes:\n{inner}{options}"


SETS_TEAM = "labels: [{match: {job: '1*'}, set: {team: ml}}]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            routes("match: {class: 'xid-*'}", "match: {node: n1, class: xid-79}"),
            "5: route.routes.1: no incident reaches this route: the route at line 4 takes all of its incidents: "
            "move it before that one, or write `continue: true` there",
            id="taken by the one before it",
        ),
        pytest.param(
            routes("match: {family: nvidia}", "match: {class: xid-79}"),
            "5: route.routes.1: no incident reaches this route: the route at line 4 takes all of its incidents: "
            "move it before that one, or write `continue: true` there",
            id="taken by its family",
        ),
        pytest.param(
            routes("match: {severity: [info, warning]}", "match: {severity: [error, critical]}", "match: {node: n1}"),
            "6: route.routes.2: no incident reaches this route: earlier routes take all of its incidents: "
            "move it before them, or write `continue: true` there",
            id="taken by two",
        ),
        pytest.param(
            routes("{match: {node: n1}, routes: [{match: {node: 'm*'}}]}"),
            "4: route.routes.0.routes.0: no incident reaches this route: its match contradicts the routes around it, "
            "up to line 4: move it out of them",
            id="contradicts the one around it",
        ),
        pytest.param(
            routes("match: {node: [n1, '!n*']}"),
            "4: route.routes.0: no incident reaches this route: its match contradicts itself: "
            "remove what contradicts the rest",
            id="contradicts itself",
        ),
        pytest.param(
            routes("match: {team: ops}", options=SETS_TEAM),
            "4: route.routes.0.match.team: no team fits ops: write ml",
            id="an unknown team",
        ),
        pytest.param(
            routes("match: {team: ml}", "match: {team: ''}", "match: {severity: info}", options=SETS_TEAM),
            "6: route.routes.2: no incident reaches this route: earlier routes take all of its incidents: "
            "move it before them, or write `continue: true` there",
            id="with and without a team",
        ),
    ],
)
def test_a_route_that_no_incident_can_reach_is_a_problem(text: str, problem: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        routes("{match: {class: 'xid-*'}, continue: true}", "match: {class: xid-79}"),
        routes("match: {class: xid-79}", "match: {class: 'xid-*'}"),
        routes("match: {node: 'rack1-*'}", "match: {node: '*-n1'}"),
        routes("{match: {job: a}, routes: [{match: {job: b}}]}"),
        routes("match: {team: ml}", "match: {team: '!ml'}", options=SETS_TEAM),
        routes("match: {node: ''}", "match: {node: '*'}"),
    ],
)
def test_a_route_that_some_incident_reaches_is_no_problem(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text) == []


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "route:\n  targets: [chat, x]\n  group_by: [y]\npage_url: z\n"
    found = [problem.split(": ")[:2] for problem in problems_of(tmp_path, text, ("chat",))]
    assert found == [["2", "route.targets"], ["3", "route.group_by"], ["4", "page_url"]]


def test_words_that_overlap_in_too_many_ways_make_no_route_unreachable(tmp_path: Path) -> None:
    words = [f"*{first}*{second}*{third}*" for first in "abc" for second in "def" for third in "ghi"]
    assert samples(words) is None
    assert problems_of(tmp_path, routes(*(f"match: {{node: '{word}'}}" for word in (*words, words[0])))) == []
