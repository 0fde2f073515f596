"""The alerts on our metrics, in the real promtool: each fires and is quiet when it should."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from epicenter.stream.metrics import Metrics
from tests.support.programs import unpacked_program

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "prometheus" / "epicenter.rules.yaml"
GROUPS: Final = yaml.safe_load(RULES.read_text())["groups"]
RECORDED: Final = ("epicenter:lag_records:sum", "epicenter_lag_records")
ALERTS: Final = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}

UP, OTHER_UP = 'up{job="epicenter", instance="w1"}', 'up{job="epicenter", instance="w2"}'
LAG, RULES_OF = 'epicenter_lag_records{source="logs.raw/0"}', 'epicenter_rules{digest="%s", instance="%s"}'
READ, DEAD = 'epicenter_records_total{source="logs.raw/0"}', 'epicenter_dead_letters_total{source="logs.raw/0"}'
BEHIND, STARTED = 'epicenter_record_age_seconds{source="logs.raw/0"}', 'process_start_time_seconds{job="epicenter"}'
UNREACHABLE = 'epicenter_store_failures_total{instance="w1", kind="away"}'
NOT_SET_UP = 'epicenter_store_failures_total{instance="w1", kind="not set up"}'
REFUSED = 'epicenter_store_failures_total{instance="w1", kind="refused"}'
BROKEN = 'epicenter_rules_reloads_total{instance="w1", outcome="broken"}'
TARGET_UP, PENDING = 'epicenter_target_up{target="slack"}', 'epicenter_deliveries_pending{target="slack"}'
DELIVERED = 'epicenter_deliveries_total{target="slack", outcome="%s"}'
DELIVERED_WITHIN = 'epicenter_delivery_seconds_bucket{target="slack", le="%s"}'
ALL_DELIVERED = DELIVERED_WITHIN % "+Inf"
SKEW, SKIPPED = 'epicenter_clock_skew_seconds{node="n1"}', 'epicenter_rule_skipped_candidates_total{rule="r"}'
SNAPSHOTS = 'epicenter_snapshot_failures_total{reason="too large"}'
KAFKA_FAULTS = 'epicenter_kafka_faults_total{kind="%s"}'
LOST, LOST_MESSAGES = 'epicenter_lost_records_total{source="s"}', 'epicenter_lost_messages_total{source="s"}'


class Case(msgspec.Struct, frozen=True):
    """Series (a value a minute, as promtool writes them), and which alerts fire at a given time.

    One worker is up unless `series` says something else; the alerts are without the `Epicenter` before them.
    """

    name: str
    series: dict[str, str]
    at: str
    fires: tuple[str, ...] = ()


CASES: Final = [
    Case("a healthy worker", {LAG: "50+0x120", READ: "0+9000x120", BEHIND: "1x120", DEAD: "0+9x120"}, "100m"),
    Case("no worker was ever there", {UP: "_x5"}, "3m", ("Down",)),
    Case("the only worker is down", {UP: "1x10 0x20"}, "20m", ("Down", "WorkerDown")),
    Case("one of two is down", {UP: "0x20", OTHER_UP: "1x20"}, "10m", ("WorkerDown",)),
    Case("a worker is back at once", {UP: "1x10 0 1x20"}, "12m"),
    Case("it crashes in a ring", {STARTED: "0+60x60"}, "60m", ("Restarts",)),
    Case("it was started once more", {STARTED: "5x30 99x30"}, "60m"),
    Case("records wait unread", {LAG: "500x30", READ: "70x30"}, "15m", ("Stalled",)),
    Case("nothing comes and nothing waits", {LAG: "0x30", READ: "70x30"}, "15m"),
    Case("the lag grows", {LAG: "0+9000x90", READ: "0+100x90"}, "60m", ("LagGrows",)),
    Case("a large lag is worked off", {LAG: "900000-9000x90", READ: "0+100x90"}, "60m"),
    Case("a small lag grows", {LAG: "0+9x90", READ: "0+100x90"}, "60m"),
    Case("it reads old records", {LAG: "9x30", READ: "0+9x30", BEHIND: "300x30"}, "15m", ("Behind",)),
    Case("the newest record is old, for nothing comes", {LAG: "0x30", BEHIND: "300x30"}, "15m"),
    Case("the first records are lost", {LOST: "_x20 7x20"}, "22m", ("RecordsLost",)),
    Case("more records are lost", {LOST: "7x20 9x20"}, "22m", ("RecordsLost",)),
    Case("messages are lost", {LOST_MESSAGES: "_x20 7x20"}, "22m", ("RecordsLost",)),
    Case("records were lost long ago", {LOST: "7x60"}, "50m"),
    Case("a batch is corrupt", {KAFKA_FAULTS % "corrupt-batch": "_x20 1x20"}, "22m", ("KafkaFaults",)),
    Case("partitions were added", {KAFKA_FAULTS % "partitions-added": "_x20 1x20"}, "22m"),
    Case("many records are dead", {READ: "0+900x30", DEAD: "0+90x30"}, "15m", ("DeadLetters",)),
    Case("few records are dead", {READ: "0+9000x30", DEAD: "0+9x30"}, "15m"),
    Case("a clock is slow", {SKEW: "-9x30"}, "20m", ("ClockSkew",)),
    Case("a clock is almost right", {SKEW: "-2x30"}, "20m"),
    Case("a rule floods", {SKIPPED: "_x20 5x20"}, "22m", ("RuleOverBudget",)),
    Case("a rule flooded long ago", {SKIPPED: "5x60"}, "50m"),
    Case("a pack is broken", {BROKEN: "_x20 1x20"}, "22m", ("RulesBroken",)),
    Case("a pack was broken long ago", {BROKEN: "1x90"}, "80m"),
    Case("packs differ", {RULES_OF % ("a", "w1"): "9x30", RULES_OF % ("b", "w2"): "9x30"}, "20m", ("RulesDiffer",)),
    Case("packs are the same", {RULES_OF % ("a", "w1"): "9x30", RULES_OF % ("a", "w2"): "9x30"}, "20m"),
    Case("the store is unreachable", {UNREACHABLE: "0+5x30"}, "20m", ("StoreUnreachable",)),
    Case("the store was unreachable for a moment", {UNREACHABLE: "0x9 3x50"}, "12m"),
    Case("a table is missing", {NOT_SET_UP: "_x20 1x20"}, "22m", ("StoreNotSetUp",)),
    Case("a table was missing long ago", {NOT_SET_UP: "1x60"}, "50m"),
    Case("rows are refused", {REFUSED: "_x20 1x20"}, "22m", ("RowsRefused",)),
    Case("rows were refused long ago", {REFUSED: "1x60"}, "50m"),
    Case("a snapshot is too large", {SNAPSHOTS: "_x20 1x20"}, "22m", ("SnapshotsFail",)),
    Case("a snapshot was too large long ago", {SNAPSHOTS: "1x60"}, "50m"),
    Case("a target is down", {TARGET_UP: "1x5 0x30", DELIVERED % "waits": "_x5 1x30"}, "15m", ("TargetDown",)),
    Case("a target was down for a moment", {TARGET_UP: "1x5 0x2 1x30"}, "9m"),
    Case("a target is down for one worker", {TARGET_UP.replace("{", '{instance="w1", '): "0x20",
         TARGET_UP.replace("{", '{instance="w2", '): "1x20"}, "10m", ("TargetDown",)),
    Case("notifications are pending for long", {PENDING: "0x5 2x30"}, "25m", ("NotificationsPending",)),
    Case("notifications are pending now and then", {PENDING: "0 2 2 0 1 1 0x30"}, "25m"),
    Case("each notification is accepted soon", {PENDING: "3 2 0 1 0 3 0 0 2 0 1 0 3 0 0 1 2 0 1 0 0 2 0 1 1 0"}, "24m"),
    Case("a target refuses", {DELIVERED % "refused": "_x20 1x20"}, "22m", ("NotificationsRefused",)),
    Case("a target refuses more", {DELIVERED % "refused": "1x20 3x20"}, "22m", ("NotificationsRefused",)),
    Case("a target refused long ago", {DELIVERED % "refused": "1x60"}, "50m"),
    Case("much is sent, little is silenced", {DELIVERED % "sent": "0+9x60", DELIVERED % "silenced": "0+1x60"}, "50m"),
    Case("no route matches", {'epicenter_deliveries_total{target="", outcome="unrouted"}': "_x20 1x20"}, "22m",
         ("IncidentsUnrouted",)),
    Case("no route matched long ago", {'epicenter_deliveries_total{target="", outcome="unrouted"}': "1x60"}, "50m"),
    Case("notifications come late", {DELIVERED_WITHIN % 60: "0x60", DELIVERED_WITHIN % 300: "0+1x60",
         ALL_DELIVERED: "0+1x60"}, "50m", ("NotificationsLate",)),
    Case("notifications come soon", {DELIVERED_WITHIN % 5: "0+1x60", DELIVERED_WITHIN % 300: "0+1x60",
         ALL_DELIVERED: "0+1x60"}, "50m"),
]  # fmt: skip


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([_promtool(), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


@cache
def _promtool() -> Path:
    return unpacked_program("promtool", "prometheus")


def test_promtool_accepts_rules_and_configuration(tmp_path: Path) -> None:
    shutil.copytree(RULES.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "web_token").touch()
    for kind, file in (("rules", RULES.name), ("config", "prometheus.yaml")):
        done = promtool("check", kind, tmp_path / file)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_exactly_when_it_should(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": _tests()}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _tests() -> list[dict[str, Any]]:
    return [
        {
            "name": case.name,
            "interval": "1m",
            "input_series": [
                {"series": name, "values": values} for name, values in ({UP: "1x120"} | case.series).items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": case.at,
                    "exp_samples": [
                        {"labels": f'{{alertname="Epicenter{alert}"}}', "value": 1} for alert in case.fires
                    ],
                }
            ],
        }
        for case in CASES
    ]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_that_fires_and_a_quiet_case(name: str) -> None:
    metrics = set(re.findall(r"epicenter_\w+|process_\w+|\bup\b", ALERTS[name]["expr"].replace(*RECORDED)))
    cases = [case for case in CASES if metrics & {re.split("{", series)[0] for series in case.series}]
    fires = [name.removeprefix("Epicenter") in case.fires for case in cases]
    assert (True in fires, False in fires) == (True, True)


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    (test, *_) = _tests()
    test["promql_expr_test"][0]["exp_samples"] = [{"labels": '{alertname="EpicenterBehind"}', "value": 1}]
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    assert promtool("test", "rules", file).returncode == 1


def test_every_metric_in_the_rules_is_one_that_workers_expose() -> None:
    shown = set(re.findall(r"^# TYPE (\w+)", Metrics().text().decode(), re.MULTILINE))
    named = {name.removesuffix("_bucket") for rule in ALERTS.values() for name in _metrics_in(rule["expr"])}
    named |= set(_metrics_in(next(rule["expr"] for group in GROUPS for rule in group["rules"] if "record" in rule)))
    assert named - shown == set()
    assert len(named) > 15


def _metrics_in(expression: str) -> list[str]:
    return re.findall(r"\b(?:epicenter|process)_\w+", expression)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_describes_the_fault_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description", "action", "runbook"}
    page, anchor = rule["annotations"]["runbook"].split("#")
    titles = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles]
