"""`epicenter check` on a real broker and a store: it finds problems and changes nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from deploy.dev.process import EPICENTER
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import migrate
from tests.support.cluster import Cluster, with_admin
from tests.support.command import epicenter
from tests.support.logs import vector

pytestmark = pytest.mark.integration


def check(cluster: Cluster) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The exit code, and the findings by name."""
    command = [*EPICENTER, "check", "--json"]
    done = subprocess.run(command, env=cluster.env("check"), capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    findings: dict[str, list[tuple[str, str]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        assert finding["status"] == "ok" or finding["fix"]
        findings.setdefault(finding["name"], []).append((finding["status"], finding["found"]))
    return done.returncode, findings


def test_check_finds_and_names_each_problem(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(RAW_PARTITIONS="1", MATCH_PARTITIONS="2")
    client = connect(cluster.store)
    migrate(client)
    client.close()
    code, findings = check(cluster)
    assert (code, _failing(findings)) == (0, [])

    cluster.feed([("n1", vector("n1", number, "step 1")) for number in range(30)])
    asyncio.run(_send_plain(cluster, b'{"message": 7}', 20))
    with_admin(cluster.bootstrap, lambda admin: _spoil(admin, cluster.name))
    asyncio.run(_with_a_foreign_member(cluster, _checked_meanwhile))


def _failing(findings: dict[str, list[tuple[str, str]]]) -> list[str]:
    """What is wrong with the installation; how full the disk of the machine is that runs the tests does not count."""
    found = [text for checks in findings.values() for status, text in checks if status != "ok"]
    return [text for text in found if not text.endswith("GB free")]


async def _send_plain(cluster: Cluster, value: bytes, times: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
    await producer.start()
    try:
        for _ in range(times):
            await producer.send(cluster.raw_topic, value, key=b"bad-node")
    finally:
        await producer.stop()


async def _spoil(admin: Any, name: str) -> None:
    await admin.delete_topics([f"{name}.alerts"])
    short = ConfigResource(ConfigResourceType.TOPIC, f"{name}.matches", {"retention.ms": "3600000"})
    await admin.alter_configs([short])


async def _with_a_foreign_member(cluster: Cluster, work: Callable[[Cluster], None]) -> None:
    """Another program joins the matchers' group and reads half."""
    stranger = AIOKafkaConsumer(
        cluster.raw_topic, bootstrap_servers=cluster.bootstrap, group_id=f"{cluster.name}.match", client_id="kcat",
        enable_auto_commit=False, auto_offset_reset="earliest",
    )  # fmt: skip
    await stranger.start()
    try:
        await stranger.getone()
        await stranger.commit({TopicPartition(cluster.raw_topic, 0): 10})
        await asyncio.to_thread(work, cluster)
    finally:
        await stranger.stop()


def _checked_meanwhile(cluster: Cluster) -> None:
    code, findings = check(cluster)
    assert code == 1
    assert findings[f"topic {cluster.name}.alerts"] == [("problem", "not found")]
    assert any("for 1 h, expected 3 d" in found for _, found in findings[f"topic {cluster.name}.matches"])
    ((status, found),) = findings[f"group {cluster.name}.match"]
    assert (status, found.startswith("kcat at ")) == ("problem", True)
    dead, *others = findings["raw records"]
    assert (dead[0], "bad-node (20)" in dead[1]) == ("problem", True)
    assert any("20 of the newest 50 are not compressed: bad-node (20)" in found for _, found in others)


def test_invalid_settings_are_all_reported_at_once() -> None:
    env = {"PATH": "/usr/bin:/bin", "EPICENTER_ALLOWED_LATENESS": "soon", "EPICENTER_REPLICATION": "0"}
    done = epicenter("check", env=env)
    assert (done.returncode, done.stdout.count(b"settings: PROBLEM: ")) == (1, 2)
    assert b"EPICENTER_ALLOWED_LATENESS" in done.stdout and b"EPICENTER_REPLICATION" in done.stdout
