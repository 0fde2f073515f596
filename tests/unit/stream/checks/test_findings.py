"""The findings of `epicenter check`: each once in its table, and none without a problem."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.errors import DeadLetterKind
from epicenter.stream.checks import store
from epicenter.stream.checks.finding import Finding
from epicenter.stream.checks.groups import Group, Member, Place, group_findings
from epicenter.stream.checks.machine import (
    exposure_findings,
    folder_findings,
    rules_of,
    secrets_findings,
    topology_finding,
)
from epicenter.stream.checks.records import ObservedRecord, observed_records, record_findings
from epicenter.stream.checks.store import Server, server_findings
from epicenter.stream.checks.targets import target_findings
from epicenter.stream.checks.topics import Brokers, Topic, Wanted, topic_findings
from epicenter.stream.kafka.clients import CLIENT_ID
from epicenter.stream.kafka.topics import TopicNames, wanted_topics
from epicenter.stream.load_settings import load_settings
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scan.validation import Fault
from tests.support.logs import the_rules

HOUR_MS, NOW_MS = 3_600_000, 1_800_000_000_000
WANTED = [Wanted.of(new) for new in wanted_topics(load_settings(None))]
NAMES = TopicNames("epicenter")
HEALTHY = {wanted.name: Topic(wanted.name, wanted.partitions, 1, 1, 0, wanted.configs) for wanted in WANTED}
OURS = Member(CLIENT_ID, "/10.0.0.1")


def brief(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """The findings that need action, each of which says what to do."""
    failing = [finding for finding in findings if finding.status != "ok"]
    assert all(finding.fix for finding in failing)
    return [(finding.name, finding.status, finding.found) for finding in failing]


def topics(
    name: str = "", brokers: int = 1, wanted: list[Wanted] = WANTED, **changed: Any
) -> list[tuple[str, str, str]]:
    configs = changed.pop("configs", {})
    seen = dict(HEALTHY)
    if name:
        seen[name] = replace(seen[name], **changed, configs={**(seen[name].configs or {}), **configs})
    return brief(topic_findings(wanted, Brokers("kafka:9092", brokers, seen), NAMES, "logs.raw"))


def test_topics_as_created_have_no_findings() -> None:
    assert topics() == []


def test_a_missing_topic_is_a_problem() -> None:
    seen = Brokers("kafka:9092", 1, {name: topic for name, topic in HEALTHY.items() if name != NAMES.snapshots})
    findings = [finding for finding in topic_findings(WANTED, seen, NAMES, "logs.raw") if finding.status != "ok"]
    assert [(finding.name, finding.found, finding.fix) for finding in findings] == [
        (
            "topic epicenter.snapshots",
            "not found",
            "create it with `epicenter topics`; if it exists, grant this user Describe on it",
        )
    ]


@pytest.mark.parametrize(
    ("name", "changed", "status", "words"),
    [
        ("logs.raw", {"partitions": 2}, "warning", "2 partitions, but raw_partitions is 4"),
        (NAMES.snapshots, {"partitions": 8}, "problem", "the numbers must be equal"),
        (NAMES.alerts, {"partitions": 2}, "problem", "the numbers must be equal"),
        (NAMES.matches, {"without_leader": 1}, "problem", "have no leader"),
        (NAMES.matches, {"is_configured": False}, "warning", "not created by `epicenter topics`"),
        (NAMES.matches, {"configs": {"retention.ms": str(HOUR_MS)}}, "warning", "for 1 h, expected 3 d"),
        ("logs.raw", {"configs": {"retention.bytes": "1000"}}, "warning", "may delete unread records"),
        (NAMES.incidents, {"configs": {"cleanup.policy": "delete"}}, "problem", "still needed expire"),
        (NAMES.alerts, {"configs": {"cleanup.policy": "compact,delete"}}, "problem", "still needed expire"),
        (NAMES.matches, {"configs": {"cleanup.policy": "compact"}}, "problem", "without a key fail"),
        (NAMES.snapshots, {"configs": {"max.message.bytes": "1048588"}}, "problem", "larger messages are refused"),
        (NAMES.matches, {"configs": {"unclean.leader.election.enable": "true"}}, "warning", "it lacks are lost"),
        (NAMES.matches, {"replicas": 3, "in_sync": 2, "configs": {"min.insync.replicas": "2"}}, "warning", "2 of 3"),
        (NAMES.matches, {"replicas": 3, "in_sync": 3}, "warning", "when a single broker has it"),
        (NAMES.matches, {"replicas": 2, "in_sync": 2, "configs": {"min.insync.replicas": "2"}}, "warning",
         "one broker down"),
    ],
)  # fmt: skip
def test_a_topic_with_wrong_settings_is_found(name: str, changed: dict[str, Any], status: str, words: str) -> None:
    ((found_name, found_status, found),) = topics(name, **changed)
    assert (found_name, found_status) == (f"topic {name}", status)
    assert words in found


def test_too_few_replicas_are_found() -> None:
    assert len(topics(brokers=3)) == len(WANTED), "one replica on three brokers"
    want_three = [replace(topic, replicas=3) for topic in WANTED]
    assert {status for _, status, _ in topics(brokers=3, wanted=want_three)} == {"problem"}
    too_few = topics(NAMES.matches, replicas=3, in_sync=1, configs={"min.insync.replicas": "2"})
    assert ("topic epicenter.matches", "problem") in [finding[:2] for finding in too_few]


def test_a_single_replica_is_in_sync_with_itself_however_many_are_wanted() -> None:
    assert topics(NAMES.matches, configs={"min.insync.replicas": "2"}) == []


def test_hidden_configuration_is_reported_once_and_not_as_wrong() -> None:
    hidden = {name: replace(topic, configs=None, is_configured=False) for name, topic in HEALTHY.items()}
    found = brief(topic_findings(WANTED, Brokers("kafka:9092", 1, hidden), NAMES, "logs.raw"))
    assert [finding[:2] for finding in found] == [("topics", "warning")]


def test_brokers_that_create_topics_are_found() -> None:
    found = brief(
        topic_findings(WANTED, Brokers("kafka:9092", 1, HEALTHY, auto_creates_topics=True), NAMES, "logs.raw")
    )
    assert [finding[:2] for finding in found] == [("topics", "warning")]


PLACE = Place("logs.raw/0", first=100, committed=900, end=1000, oldest_ms=NOW_MS - HOUR_MS, retention_ms=24 * HOUR_MS)


@pytest.mark.parametrize(
    ("members", "place", "expected"),
    [
        ((OURS,), PLACE, []),
        ((OURS,), replace(PLACE, oldest_ms=NOW_MS - 20 * HOUR_MS), [("problem", "about to be lost")]),
        ((OURS,), replace(PLACE, oldest_ms=NOW_MS - 20 * HOUR_MS, retention_ms=-1), []),
        ((OURS,), replace(PLACE, committed=40), [("problem", "60 records were deleted")]),
        ((OURS,), replace(PLACE, end=900_000), [("warning", "lag 899,100 records")]),
        ((), PLACE, [("warning", "no members, lag 100 records")]),
        ((OURS, Member("kcat", "/10.0.0.9")), PLACE, [("problem", "kcat at /10.0.0.9 is not an epicenter worker")]),
        ((OURS,) * 5, PLACE, [("warning", "5 workers share 4 partitions")]),
    ],
)
def test_lag_members_and_lost_records_of_a_group_are_found(
    members: tuple[Member, ...], place: Place, expected: list[tuple[str, str]]
) -> None:
    found = brief(group_findings(Group("epicenter.match", members, (place,)), 4, NOW_MS))
    assert [status for _, status, _ in found] == [status for status, _ in expected]
    assert all(words in text for (_, _, text), (_, words) in zip(found, expected, strict=True))


def test_a_group_that_was_never_used_is_no_problem() -> None:
    assert brief(group_findings(Group("epicenter.match", (), ()), 4, NOW_MS)) == []


GOOD = ObservedRecord("n1", has_key=True, has_node=True, has_time=True)
NOT_JSON = Fault(DeadLetterKind.NOT_JSON, "not JSON")


@pytest.mark.parametrize(
    ("record", "status", "words"),
    [
        (replace(GOOD, dead=NOT_JSON), "problem", "50 of the newest 100 become dead letters (not JSON): n1 (50)"),
        (replace(GOOD, has_node=False, who=""), "warning", "name no node: a sender without node and key (50)"),
        (replace(GOOD, has_time=False), "warning", "state no time: n1 (50)"),
        (replace(GOOD, has_key=False), "warning", "have no key: n1 (50)"),
        (replace(GOOD, is_plain=True), "warning", "are not compressed: n1 (50)"),
        (replace(GOOD, ahead_ms=7 * HOUR_MS), "warning", "50 are ahead of the clock, by up to 7 h: n1 (50)"),
    ],
)
def test_invalid_or_unidentified_raw_records_are_found(record: ObservedRecord, status: str, words: str) -> None:
    ((_, found_status, found),) = brief(record_findings([GOOD] * 50 + [record] * 50))
    assert found_status == status
    assert words in found


def test_a_sender_adds_no_lines_to_the_report() -> None:
    forger = replace(GOOD, dead=NOT_JSON, who="x\nstore: ok: all is well\n" + "y" * 10_000)
    ((_, _, found),) = brief(record_findings([forger]))
    assert "\n" not in found and len(found) < 300


def test_few_dead_letters_are_a_warning_and_one_of_many_records_is_none() -> None:
    dead = replace(GOOD, dead=NOT_JSON)
    assert [status for _, status, _ in brief(record_findings([GOOD] * 90 + [dead] * 10))] == ["warning"]
    assert brief(record_findings([GOOD] * 199 + [dead])) == brief(record_findings([])) == []


def test_dead_letters_are_counted_by_kind_whatever_their_reasons() -> None:
    broken = [replace(GOOD, dead=Fault(DeadLetterKind.NOT_JSON, f"not JSON: column {n}")) for n in range(3)]
    large = [replace(GOOD, dead=Fault(DeadLetterKind.TOO_LARGE, "too large: 2 bytes"))] * 2
    ((_, _, found),) = brief(record_findings([*large, *broken]))
    assert "5 of the newest 5 become dead letters (not JSON: column 0)" in found


def test_senders_of_invalid_records_are_named_by_host_and_key() -> None:
    line = orjson.dumps({"message": "ok", "host": "n1", "timestamp": "2026-03-02T09:00:00Z"})
    values = [line, b'{"message": 7}', b'{"x": ', b"plain"]
    batch = Batch("logs.raw/0", values, [b"k0", b"k1", b"k2", None], [NOW_MS * 1_000_000] * 4, range(4))
    good, wrong, broken, plain = observed_records(batch, BatchScanner(the_rules(), "c"), NOW_MS)
    assert (good.who, good.dead, good.has_time, good.has_key) == ("n1", None, True, True)
    assert (wrong.who, bool(wrong.dead)) == ("k1", True)
    assert (broken.who, bool(broken.dead)) == ("k2", True)
    assert (plain.who, plain.has_node, plain.has_time, plain.has_key) == ("", False, False, False)


SERVER = Server("http://ch:8123/epicenter", "26.3.1.2", 0.1, 0, (), {"default": (50, 100)})


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (SERVER, []),
        (replace(SERVER, waiting=2), [("warning", "2 migrations to do")]),
        (replace(SERVER, version="24.8.1"), [("warning", "oldest tested is 26.2")]),
        (replace(SERVER, missing=("INSERT ON matches",)), [("problem", "lacks INSERT ON matches")]),
        (replace(SERVER, disks={"d": (10, 100)}), [("warning", "disk d: 10%")]),
        (replace(SERVER, disks={"d": (2, 100)}), [("problem", "disk d: 2%")]),
        (replace(SERVER, ahead_s=-5.0), [("warning", "5.0 s behind")]),
        (replace(SERVER, ahead_s=90.0), [("problem", "90.0 s ahead of")]),
    ],
)
def test_a_store_with_faults_is_found(server: Server, expected: list[tuple[str, str]]) -> None:
    found = brief(server_findings(server))
    assert [status for _, status, _ in found] == [status for status, _ in expected]
    assert all(words in text for (_, _, text), (_, words) in zip(found, expected, strict=True))


def test_the_rights_checked_are_those_of_the_role_of_workers() -> None:
    roles = (Path(store.__file__).parents[2] / "sinks/clickhouse/optional/roles.sql").read_text()
    granted = " ".join(re.findall(r"^GRANT ([^;]*?) TO epicenter_worker;", roles, re.MULTILINE))
    rights = set(re.findall(r"(INSERT|SELECT) ON {database}\.(\w+)", granted))
    assert {("INSERT", table) for table in store.WRITTEN} | {("SELECT", table) for table in store.READ} == rights


def test_secrets_readable_or_writable_by_others_are_found(tmp_path: Path) -> None:
    secret = tmp_path / "store"
    secret.write_text("x")
    for folder_mode, mode, expected in ((0o755, 0o600, []), (0o755, 0o644, ["warning"]), (0o700, 0o644, []),
                                    (0o755, 0o666, ["warning", "problem"])):  # fmt: skip
        tmp_path.chmod(folder_mode)
        secret.chmod(mode)
        assert [status for _, status, _ in brief(secrets_findings(tmp_path))] == expected


def test_a_full_or_missing_data_folder_is_found(tmp_path: Path) -> None:
    assert brief(folder_findings(tmp_path / "new", lambda _: 1 << 40)) == []
    assert [status for _, status, _ in brief(folder_findings(tmp_path, lambda _: 1 << 20))] == ["warning"]
    (tmp_path / "file").write_text("")
    found = brief(folder_findings(tmp_path / "file" / "data", lambda _: 1 << 40))
    assert [status for _, status, _ in found] == ["problem"]


@pytest.mark.parametrize(
    ("host", "token", "status"), [("127.0.0.1", "", "ok"), ("0.0.0.0", "", "problem"), ("0.0.0.0", "t", "warning")]
)  # fmt: skip
def test_a_page_that_other_hosts_reach_is_found(host: str, token: str, status: str) -> None:
    settings: Any = SimpleNamespace(page_host=host, page_token=token)
    assert [finding.status for finding in exposure_findings("page", settings, is_for_people=True)] == [status]


def test_targets_are_reached_without_a_notification(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        closed = gone.getsockname()[1]
        gone.close()
        addresses = {"there": there.getsockname()[1], "away": closed}
        file = tmp_path / "alerts.yaml"
        targets = "".join(
            f'  {n}: {{type: webhook, url: "http://127.0.0.1:{p}/secret-path"}}\n' for n, p in addresses.items()
        )
        file.write_text(f"route: {{targets: [there, away]}}\ntargets:\n{targets}")
        found = asyncio.run(target_findings(load_settings(None, alerts=file)))
        connection, _ = there.accept()
        assert connection.recv(100) == b""
        connection.close()
    assert [(finding.name, finding.status) for finding in found] == [
        ("alerts", "ok"),
        ("target there", "ok"),
        ("target away", "warning"),
    ]
    assert not any("secret-path" in finding.found for finding in found)
    assert os.strerror(111) in found[2].found


def test_an_invalid_topology_is_reported_as_such_and_the_rules_are_ok(tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text("nodes:\n  node1: {rack: r1, swiches: [leaf1]}\n")
    for name, words in (("topology.yaml", "topology.yaml:2"), ("gone.yaml", "gone.yaml: ")):
        settings = load_settings(None, topology=tmp_path / name)
        found = topology_finding(settings)
        assert (found.name, found.status) == ("topology", "problem") and words in found.found
        assert rules_of(settings)[1].status == "ok"
