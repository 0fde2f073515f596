"""The commands `epicenter alerts …`, and the alerts file in the settings."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from deploy.dev.process import EPICENTER
from epicenter.rules.errors import ConfigError
from epicenter.stream.checks.run import check_all
from epicenter.stream.load_settings import load_settings
from tests.support.alerts import an_incident
from tests.support.logs import kernel

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
FILE = """
route:
  targets: chat
  group_by: [cluster]
  group_wait: 30s
  routes:
    - match: {node: "rack12-*"}
    - match: {severity: critical}
      targets: on-call
      group_by: incident
      escalate: [{after: 15m, targets: chat}]
inhibit:
  - {source: {class: xid-79}, target: {class: nccl-timeout}, equal: [job]}
maintenance:
  - {match: {node: "n1"}, who: ada, reason: new fans, begins: 2026-03-02T09:00:00Z, until: 2026-03-02T10:00:00Z}
targets:
  chat: {type: webhook, url: "https://chat.example/secret-path"}
  on-call: {type: webhook, url: {env: ON_CALL_URL}}
""".lstrip()


@pytest.fixture(autouse=True)
def _settings_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ON_CALL_URL", "https://on-call.example/secret-path")
    for name in ("ALERTS", "WEBHOOK_URL", "DATA_DIR", "STORE"):
        monkeypatch.delenv(f"EPICENTER_{name}", raising=False)


@pytest.fixture
def alerts(tmp_path: Path) -> Path:
    file = tmp_path / "alerts.yaml"
    file.write_text(FILE)
    return file


@pytest.fixture
def incidents(tmp_path: Path) -> Path:
    """A GPU that fell off the bus, and two waiting for it: one of its job, one of another."""
    found = [
        an_incident("cause", jobs=["7"], action="drain-node", confidence=0.9),
        an_incident(
            "effect", "nccl-timeout", jobs=["7"], node="n2", rule="silence.no_progress", action="investigate-peer"
        ),
        an_incident("other", "nccl-timeout", jobs=["8"], node="rack12-n3", severity="error"),
    ]
    file = tmp_path / "incidents.jsonl"
    file.write_bytes(b"\n".join(map(encode, found)) + b"\n\n")
    return file


def test_check_counts_routes_and_targets(alerts: Path, run: Any) -> None:
    assert run("alerts", "check", alerts) == (0, f"{alerts}: ok: 2 targets, 3 routes\n", "")


def test_check_reports_every_problem(alerts: Path, run: Any) -> None:
    alerts.write_text(FILE.replace("targets: chat\n", "targets: chatt\n", 1).replace("class: xid-79", "clas: xid-79"))
    code, out, err = run("alerts", "check", alerts)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{alerts}:2: route.targets: no target is called chatt: write chat",
        f"{alerts}:12: inhibit.0.source.clas: no label has this name: write class",
    ]


def test_route_prints_the_targets_and_reasons(alerts: Path, incidents: Path, run: Any) -> None:
    code, out, err = run("alerts", "route", incidents, "--alerts", alerts, "--at", "2026-03-02T09:30:00Z")
    assert (code, err) == (0, "")
    assert out[: out.index("  label")] == (
        """\
cause  open  critical  GPU has fallen off the bus on n1, GPU 0000:9a:00
  notifies    on-call at once, by alerts.yaml:7, group: incident cause; updates 1 min apart, repeated every 4 h, \
waits 30 s for others
  notifies    chat after 15 min without acknowledgement, by alerts.yaml:7, group: incident cause; updates 1 min apart, \
repeated every 4 h, waits 30 s for others
  because     alerts.yaml:2: every incident: matches
  because     alerts.yaml:6: node is n1, not rack12-*
  because     alerts.yaml:7: severity is critical: matches, notifies on-call
  maintenance until 2026-03-02 10:00 UTC by ada: new fans (alerts.yaml:14)
"""
    )
    assert "  action      drain-node, nodes n1: allowed (dry run): take the node out of service\n" in out
    assert "  pending     for 20 s, in case later lines refute the verdict\n" in out
    assert "secret-path" not in out


def routed(run: Any, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run("alerts", "route", *arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_route_prints_json_on_request(alerts: Path, incidents: Path, run: Any) -> None:
    cause, effect, other = routed(run, incidents, "--alerts", alerts, "--at", "2026-03-02T10:00:00Z")
    assert [route_target["target"] for route_target in cause["legs"]] == ["on-call", "chat"]
    assert cause["legs"][1] == {
        "target": "chat",
        "route": "alerts.yaml:7",
        "after_s": 900,
        "group": {"incident": ["cause"]},
        "group_wait_s": 30,
        "update_interval_s": 60,
        "repeat_interval_s": 14400,
    }
    assert cause["mutes"] == {"maintenance": "", "silenced": "", "inhibited": ""}
    assert effect["mutes"]["inhibited"] == (
        "by incident cause: its class is xid-79, and both have job 7 (alerts.yaml:12)"
    )
    assert effect["action"]["why"].startswith("a person must decide: ")
    assert (effect["held_s"], cause["held_s"]) == (20, 0)
    assert other["mutes"]["inhibited"] == ""
    assert other["legs"][0]["group"] == {"cluster": ["default"]}
    assert other["reasons"][1:] == [
        "alerts.yaml:6: node is rack12-n3: matches, notifies chat",
        "alerts.yaml:7: skipped, alerts.yaml:6 matched first",
    ]


def test_route_reads_a_list_and_the_newest_state_of_an_incident(alerts: Path, tmp_path: Path, run: Any) -> None:
    file = tmp_path / "incidents.json"
    file.write_bytes(encode([an_incident("a"), an_incident("b"), an_incident("a", status="resolved")]))
    found = routed(run, file, "--alerts", alerts)
    assert [(route["incident_id"], route["status"]) for route in found] == [("a", "resolved"), ("b", "open")]


def test_the_alerts_file_of_the_settings_is_used(
    alerts: Path, incidents: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_ALERTS", str(alerts))
    assert [route_target["target"] for route_target in routed(run, incidents)[0]["legs"]] == ["on-call", "chat"]
    assert load_settings().alerts == alerts


def test_the_webhook_of_the_settings_is_notified_of_everything(
    incidents: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_WEBHOOK_URL", "https://hook.example/secret-path")
    found = routed(run, incidents)
    assert [[route_target["target"] for route_target in route["legs"]] for route in found] == [["webhook"]] * 3
    assert found[0]["reasons"] == ["webhook_url: every incident: matches, notifies webhook"]


def test_a_file_and_a_webhook_together_are_a_mistake(alerts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_ALERTS", str(alerts))
    monkeypatch.setenv("EPICENTER_WEBHOOK_URL", "https://hook.example/secret-path")
    with pytest.raises(ConfigError, match="alerts: webhook_url is set too: write the webhook into the alerts file"):
        load_settings()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{]", "1: not JSON: "),
        (b'{"a": 1}', " not an incident as printed by `epicenter replay --json`: "),
        (b'{"a": 1}\nx', "1: not an incident as "),
        (b"\xff\n", "1: not JSON: "),
        (b"[1]", " not an incident as "),
        (b"", " no incident in it"),
    ],
)
def test_exit_66_for_a_file_that_is_no_incident(
    content: bytes, expected: str, alerts: Path, tmp_path: Path, run: Any
) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(content)
    code, out, err = run("alerts", "route", file, "--alerts", alerts)
    assert (code, out) == (66, "")
    assert err.startswith(f"epicenter: {file}:{expected}")


def test_exit_codes_of_other_mistakes(alerts: Path, incidents: Path, tmp_path: Path, run: Any) -> None:
    assert run("alerts", "route", incidents)[0] == 2
    assert run("alerts", "route", incidents, "--alerts", alerts, "--at", "noon")[0] == 2
    assert run("alerts", "route", tmp_path / "no.json", "--alerts", alerts)[0] == 66
    assert run("alerts", "check", tmp_path / "no.yaml")[0] == 66
    assert run("alerts", "route", "3f2a", "--alerts", alerts, "--data-dir", tmp_path)[0] == 66
    alerts.write_text("route: [")
    code, _, err = run("alerts", "route", incidents, "--alerts", alerts)
    assert code == 78
    assert err.startswith(f"epicenter: {alerts}:1: not YAML")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FILE, "alerts: ok: 2 targets, 3 routes\n"),
        (FILE.replace("job]", "jobb]"), "alerts: PROBLEM: "),
        (None, "alerts: ok: none: no notification is sent; set `alerts`, see docs/alerts.md\n"),
    ],
)
def test_check_has_a_line_for_the_alerts(
    content: str | None, expected: str, alerts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alerts.write_text(content or "")
    unreachable = {"kafka": "127.0.0.1:1", "store": "http://127.0.0.1:1/x"}
    check_all(load_settings(alerts=alerts if content else None, **unreachable))
    out = capsys.readouterr().out
    assert f"\n{expected}" in out
    assert "secret-path" not in out


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with a store, and the id of the incident in it."""
    (tmp_path / "kern.log").write_bytes(kernel("n1", 25, XID) + b"\n")
    data_dir = tmp_path / "data"
    out = epicenter("run", "--once", "--json", "--data-dir", data_dir, "--page-port", 0, tmp_path / "kern.log")
    yield data_dir, json.loads(out.splitlines()[-1])["incident_id"]


def test_route_of_a_stored_incident_applies_the_silences_of_the_store(stored: tuple[Path, str], alerts: Path) -> None:
    data_dir, incident_id = stored
    there = ["--data-dir", data_dir]
    silence = ["--match", "node=n*", "--for", "4h", "--reason", "known", "--who", "ada"]
    epicenter("silences", "add", *silence, *there)
    found = json.loads(epicenter("alerts", "route", incident_id[:6], "--json", "--alerts", alerts, *there))
    assert found["incident_id"] == incident_id
    assert re.fullmatch(r"until \S{16}Z by ada: known", found["mutes"]["silenced"])


def epicenter(*words: object) -> bytes:
    """The output of the command in another process, because no process opens two stores."""
    done = subprocess.run([*EPICENTER, *map(str, words)], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_check_warns_of_a_former_key(alerts: Path, run: Any) -> None:
    alerts.write_text(f"silence_grace: 10s\n{FILE}")
    code, out, err = run("alerts", "check", alerts)
    assert (code, out.startswith(f"{alerts}: ok: ")) == (0, True)
    assert err == f"epicenter: warning: {alerts}:1: silence_grace: is now called grace_period: write that\n"
