"""`alerts.yaml`: what it makes; every mistake in it is reported at once, with its line and without a secret."""

from __future__ import annotations

import sys
from pathlib import Path
from time import time_ns

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.sinks.notify.alertmanager import AlertmanagerTarget
from epicenter.sinks.notify.apprise import AppriseTarget
from epicenter.sinks.notify.load import Alerts, load_alerts, webhook_alerts
from epicenter.sinks.notify.pagerduty import PagerDutyTarget
from epicenter.sinks.notify.slack import SlackBot, SlackWebhook
from epicenter.sinks.notify.webhook import WebhookTarget
from tests.support.notifications import MUCH
from tests.support.recorder import recording

SECRET = "th1sMustN3verBeShown0123456789ab"
ROUTE = "route: {targets: ops}\n"
EVERY_KIND = f"""\
route: {{targets: [am, pd, hook-of-slack, bot, hook, tail]}}
targets:
  am: {{type: alertmanager, url: "http://am.example:9093", bearer_token: {{env: TOKEN_OF_A_TEST}}}}
  pd: {{type: pagerduty, routing_key: {{file: keys/pd}}}}
  hook-of-slack: {{type: slack, url: "https://hooks.example/services/{SECRET}"}}
  bot: {{type: slack, token: xoxb-{SECRET}, channel: C1}}
  hook: {{type: webhook, url: "https://x.example/{SECRET}", secret: whsec_dGgxc011c3ROM3ZlckJlU2hvd24wMTIzNDU2Nzg5YWI=}}
  tail: {{type: apprise, url: "json://user:{SECRET}@tail.example/"}}
"""


def load(folder: Path, text: str) -> Alerts:
    file = folder / "alerts.yaml"
    file.write_text(text)
    return load_alerts(file)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    assert SECRET not in repr(raised.value) and SECRET not in str(raised.value)
    return [problem.removeprefix(f"{folder}/") for problem in raised.value.problems]


@pytest.fixture
def every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Alerts:
    monkeypatch.setenv("TOKEN_OF_A_TEST", f" {SECRET}\n")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "pd").write_text(f"{SECRET}\n")
    return load(tmp_path, EVERY_KIND)


def test_every_target_type_loads(every_kind: Alerts) -> None:
    targets = every_kind.make_targets(time_ns)
    kinds = [AlertmanagerTarget, PagerDutyTarget, SlackWebhook, SlackBot, WebhookTarget, AppriseTarget]
    assert {name: type(target) for name, target in targets.items()} == dict(
        zip(("am", "pd", "hook-of-slack", "bot", "hook", "tail"), kinds, strict=True)
    )
    assert [name for name, target in targets.items() if target.name != name] == []
    assert [name for name, target in targets.items() if target.refresh_every_s] == ["am"]
    assert every_kind.routing.spec is every_kind.spec
    assert every_kind.routing.lines["targets", "pd"] == 4


def test_secrets_are_not_shown(every_kind: Alerts) -> None:
    shown = f"{every_kind!r} {every_kind.spec} {every_kind.spec.model_dump()} {every_kind.spec.model_dump_json()}"
    assert SECRET not in shown
    assert "dGgxc011c3R" not in shown
    assert SECRET not in repr(every_kind.make_targets(time_ns))


async def test_secret_file_reaches_its_target(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("")
    async with recording() as recorder:
        (tmp_path / "url").write_text(f"{recorder.url}/{SECRET}\n")
        target = load(tmp_path, ROUTE + "targets: {ops: {type: webhook, url: {file: url}}}").make_targets(time_ns)[
            "ops"
        ]
        await target.send(MUCH, {})
        await target.close()
        assert recorder.requests[0].path == f"/{SECRET}"


async def test_webhook_url_setting_is_a_webhook_for_everything() -> None:
    async with recording() as recorder:
        alerts = webhook_alerts(f"{recorder.url}/hook")
        assert alerts.spec.route.targets == ("webhook",)
        (target,) = alerts.make_targets(time_ns).values()
        await target.send(MUCH, {})
        await target.close()
        assert recorder.requests[0].document["notification_id"] == MUCH.notification_id


A_TARGET = "targets:\n  ops:\n    type: webhook\n    url: https://x.example/\n"
WRONG: dict[str, tuple[str, list[str]]] = {
    "no such type": (
        "targets:\n  ops: {type: pigeon}\n",
        [
            "alerts.yaml:3: targets.ops: unknown 'type': write 'alertmanager', 'pagerduty', 'slack', 'webhook', "
            "'apprise'"
        ],
    ),
    "no type": (
        "targets:\n  ops: {url: x}\n",
        ["alerts.yaml:3: targets.ops: no 'type': add it"],
    ),
    "no targets": (
        "",
        [
            "alerts.yaml:1: targets: missing: add it",
            "alerts.yaml:1: route.targets: no target is called ops: there is none",
        ],
    ),
    "no address": ("targets:\n  ops:\n    type: webhook\n", ["alerts.yaml:4: targets.ops.url: missing: add it"]),
    "bad address": (
        f"targets:\n  ops:\n    type: webhook\n    url: hooks.example/{SECRET}\n",
        ["alerts.yaml:5: targets.ops.url: not a web address: write https://host/path"],
    ),
    "bad port": (
        f"targets:\n  ops:\n    type: webhook\n    url: https://h:99999/{SECRET}\n",
        ["alerts.yaml:5: targets.ops.url: not a web address: write https://host/path"],
    ),
    "unknown key": (
        A_TARGET + "    colour: red\n",
        ["alerts.yaml:6: targets.ops.colour: unknown key: write type, url, secret, format, labels"],
    ),
    "unknown format": (
        A_TARGET + "    format: xml\n",
        ["alerts.yaml:6: targets.ops.format: write 'epicenter', 'cloudevents' or 'alertmanager', not 'xml'"],
    ),
    "no such variable": (
        "targets:\n  ops:\n    type: webhook\n    url: {env: NOT_SET_BY_ANY_TEST}\n",
        [
            "alerts.yaml:5: targets.ops.url: the environment variable NOT_SET_BY_ANY_TEST is not set: set it, or "
            "write {env: NAME}, {file: PATH} or the text itself"
        ],
    ),
    "a list for a secret": (
        "targets:\n  ops:\n    type: webhook\n    url: [a]\n",
        ["alerts.yaml:5: targets.ops.url: write {env: NAME}, {file: PATH} or the text itself"],
    ),
    "an empty secret": (
        "targets:\n  ops: {type: slack, token: '', channel: c}\n",
        ["alerts.yaml:3: targets.ops.token: empty: write {env: NAME}, {file: PATH} or the text itself"],
    ),
    "wrong routing key": (
        "targets:\n  ops:\n    type: pagerduty\n    routing_key: tooShort1\n",
        ["alerts.yaml:5: targets.ops.routing_key: not an integration key: it has 32 letters and digits"],
    ),
    "wrong signing secret": (
        A_TARGET + f"    secret: [{SECRET}]\n",
        [
            "alerts.yaml:6: targets.ops.secret.0: not a Standard Webhooks secret: write whsec_ and 24 to 64 bytes "
            "in base64"
        ],
    ),
    "wrong token": (
        f"targets:\n  ops: {{type: slack, token: {SECRET}, channel: c}}\n",
        ["alerts.yaml:3: targets.ops.token: not a Slack token: a bot's token begins with xoxb-"],
    ),
    "slack both ways": (
        f"targets:\n  ops: {{type: slack, url: 'https://h/', token: xoxb-{SECRET}, channel: c}}\n",
        ["alerts.yaml:3: targets.ops: write url (an incoming webhook), or token and channel (a bot)"],
    ),
    "slack no way": (
        "targets:\n  ops: {type: slack, channel: c}\n",
        ["alerts.yaml:3: targets.ops: write url (an incoming webhook), or token and channel (a bot)"],
    ),
    "two ways into Alertmanager": (
        "targets:\n  ops: {type: alertmanager, url: http://h, bearer_token: a, basic_auth: {username: b, password: c}}",
        ["alerts.yaml:3: targets.ops: basic_auth and bearer_token: use only one"],
    ),
    "the whole path of Alertmanager": (
        "targets:\n  ops: {type: alertmanager, url: 'http://h/api/v2/alerts'}\n",
        ["alerts.yaml:3: targets.ops: url: write the address of the server, without /api/v2/…"],
    ),
    "a label that is ours": (
        "targets:\n  ops: {type: alertmanager, url: 'http://h', labels: {cluster: a}}\n",
        ["alerts.yaml:3: targets.ops.labels: cluster is set by epicenter: choose another name"],
    ),
    "a label that is none": (
        "targets:\n  ops: {type: alertmanager, url: 'http://h', labels: {my-team: a}}\n",
        ["alerts.yaml:3: targets.ops.labels: 'my-team' is not a label name: use letters, digits and _"],
    ),
    "apprise does not know it": (
        f"targets:\n  ops: {{type: apprise, url: 'pigeon://{SECRET}'}}\n",
        [
            "alerts.yaml:3: targets.ops.url: apprise does not support this address: its documentation lists one per "
            "service"
        ],
    ),
    "twice": (A_TARGET + "  ops: {type: pagerduty}\n", ["alerts.yaml:6: ops is written twice: keep one"]),
    "a name that is none": (
        "targets:\n  'a b': {type: webhook, url: 'https://h/'}\n",
        [
            "alerts.yaml:3: targets.a b: write what matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$, not 'a b'",
            "alerts.yaml:1: route.targets: no target is called ops: write a b",
            "alerts.yaml:3: targets.a b: no route uses it: remove it or name it in a route",
        ],
    ),
    "template without a target": (
        A_TARGET + "templates:\n  other: {title: x}\n",
        ["alerts.yaml:7: templates.other: unknown target: the targets are ops"],
    ),
    "template of what has no text": (
        A_TARGET + "templates:\n  ops: {title: x}\n",
        ["alerts.yaml:7: templates.ops: a webhook with format epicenter has no title or body: remove the template"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_problem_is_reported_with_its_line(tmp_path: Path, case: str) -> None:
    text, expected = WRONG[case]
    found = faults(tmp_path, ROUTE + text)
    assert [problem for problem in expected if problem not in found] == []
    if case != "twice":
        assert found == expected


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = "targets:\n  a: {type: webhook, url: x}\n  b: {type: pigeon}\n  c: {type: slack}\ncolour: red\n"
    assert [problem.partition(" ")[0] for problem in faults(tmp_path, ROUTE + text)] == [
        "alerts.yaml:3:",
        "alerts.yaml:4:",
        "alerts.yaml:5:",
        "alerts.yaml:6:",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", "can't be read: No such file or directory"),
        (".", "can't be read: Is a directory"),
        ("empty", "is empty: write the secret into it"),
        ("bytes", "is not UTF-8 text"),
    ],
)
def test_unreadable_secret_file_is_reported(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (found,) = faults(tmp_path, ROUTE + f"targets: {{ops: {{type: webhook, url: {{file: {name}}}}}}}\n")
    assert found.startswith("alerts.yaml:2: targets.ops.url: ") and found.endswith(expected)


def test_missing_apprise_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    (found,) = faults(tmp_path, ROUTE + "targets: {ops: {type: apprise, url: 'json://h'}}")
    assert found == (
        "alerts.yaml:2: targets.ops.url: the apprise library is not installed: run pip install 'epicenter[apprise]'"
    )


TEMPLATES: dict[str, tuple[str, str]] = {
    "unknown variable": (
        "'{{ incident.colour }}'",
        "has no attribute 'colour'; the variables are notification, incident",
    ),
    "raises": ("'{{ 1 / 0 }}'", "fails for a notification of kind opened: division by zero"),
    "raises for few": (
        "'{{ 1 / (1 - (notification.kind == \"resolved\")) }}'",
        "fails for a notification of kind resolved: division by zero",
    ),
    "raises when little is known": ("'{{ incident.jobs[0] }}'", "fails for a notification of kind opened"),
    "no template": ("'{{ incident.'", "line 1 is not valid Jinja"),
    "way out": ("'{{ incident.__class__.__mro__ }}'", "is unsafe"),
    "takes all memory": ("'{{ title * 10**17 }}'", "fails for a notification"),
    "loads another": ("'{% include \"x\" %}'", "fails for a notification"),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_template_is_tested_at_load(tmp_path: Path, case: str) -> None:
    template, expected = TEMPLATES[case]
    target = "targets: {ops: {type: slack, url: 'https://h/'}}\n"
    text = f"{target}templates:\n  ops:\n    title: fine\n    body: {template}\n"
    (found,) = faults(tmp_path, ROUTE + text)
    assert found.startswith("alerts.yaml:6: templates.ops.body: ") and expected in found


@pytest.mark.parametrize("text", ["", "[]", "5", "targets: {", "targets: 5\nroute: {}", "\x00"])
def test_invalid_alerts_file_is_refused(tmp_path: Path, text: str) -> None:
    assert all(problem.startswith("alerts.yaml:") for problem in faults(tmp_path, text))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_alerts(tmp_path / "none.yaml")


HOOK = "targets: {ops: {type: webhook, url: 'https://x.example/'}}\n"


def test_former_key_counts_with_a_warning(tmp_path: Path) -> None:
    alerts = load(tmp_path, f"{ROUTE}silence_grace: 7s\n{HOOK}")
    assert alerts.spec.grace_period == 7 * 10**9
    assert alerts.warnings == (f"{tmp_path}/alerts.yaml:2: silence_grace: is now called grace_period: write that",)
    assert load(tmp_path, f"{ROUTE}grace_period: 7s\n{HOOK}").warnings == ()


def test_former_key_next_to_the_present_one_is_a_mistake(tmp_path: Path) -> None:
    assert faults(tmp_path, f"{ROUTE}grace_period: 7s\nsilence_grace: 8s\n{HOOK}") == [
        "alerts.yaml:3: silence_grace is the former name of grace_period: keep grace_period alone"
    ]


def test_mistake_under_a_former_key_has_its_line(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, f"{ROUTE}silence_grace: soon\n{HOOK}")
    assert fault.startswith("alerts.yaml:2: grace_period: ")
