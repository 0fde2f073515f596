"""`epicenter check` on a real broker and a store: what is wrong is found, and nothing is changed by it."""

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
    """Exit code, and by name what was found."""
    command = [*EPICENTER, "check", "--json"]
    done = subprocess.run(command, env=cluster.env("check"), capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    findings: dict[str, list[tuple[str, str]]] = {}
    for one in json.loads(done.stdout)["findings"]:
        assert one["status"] == "ok" or one["fix"]
        findings.setdefault(one["name"], []).append((one["status"], one["found"]))
    return done.returncode, findings


def test_what_is_wrong_is_found_and_named(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(RAW_PARTITIONS="1", MATCH_PARTITIONS="2")
    client = connect(cluster.store)
    migrate(client)
    client.close()
    code, findings = check(cluster)
    assert (code, {status for told in findings.values() for status, _ in told}) == (0, {"ok"})

    cluster.feed([("n1", vector("n1", number, "step 1")) for number in range(30)])
    asyncio.run(_send_plain(cluster, b'{"message": 7}', 20))
    with_admin(cluster.bootstrap, lambda admin: _spoil(admin, cluster.name))
    asyncio.run(_as_a_stranger(cluster, _checked_meanwhile))


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


async def _as_a_stranger(cluster: Cluster, work: Callable[[Cluster], None]) -> None:
    """Some other program has joined the group that matches, and read half."""
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
    assert findings[f"topic {cluster.name}.alerts"] == [("problem", "it is missing")]
    assert any("for 1 h, wanted are 3 d" in found for _, found in findings[f"topic {cluster.name}.matches"])
    ((status, found),) = findings[f"group {cluster.name}.match"]
    assert (status, found.startswith("kcat at ")) == ("problem", True)
    dead, *others = findings["raw records"]
    assert (dead[0], "bad-node (20)" in dead[1]) == ("problem", True)
    assert any("20 of the newest 50 are not compressed: bad-node (20)" in found for _, found in others)


def test_wrong_settings_are_told_all_at_once_with_what_to_do() -> None:
    env = {"PATH": "/usr/bin:/bin", "EPICENTER_ALLOWED_LATENESS": "soon", "EPICENTER_REPLICATION": "0"}
    done = epicenter("check", env=env)
    assert (done.returncode, done.stdout.count(b"settings: PROBLEM: ")) == (1, 2)
    assert b"EPICENTER_ALLOWED_LATENESS" in done.stdout and b"EPICENTER_REPLICATION" in done.stdout
