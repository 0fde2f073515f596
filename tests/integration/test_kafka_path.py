"""The cluster path on a real broker: the same incidents as on one machine, also after kill -9."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from epicenter.ingest.simulate import Scenario, write_all
from epicenter.rules.model.flat_heartbeats import unflattened
from epicenter.rules.model.heartbeats import Step
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.messages import ScanMessage, decode
from epicenter.stream.kafka.topics import TopicNames
from tests.support.cluster import Cluster, Worker, brief, everything_in, records_of
from tests.support.logs import kernel, vector
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
OPERATIONS = Path(__file__).parents[2] / "docs/operations.md"
HISTORY = ("signals", "progress", "placements", "capacity_events", "measurements", "evidence_gaps")
QUERY_CODE = "import json, sys; from epicenter.sinks.clickhouse.client import connect; client = connect(sys.argv[1]);"
QUERY_CODE += " [print(json.dumps(client.query(sql), default=str)) for sql in sys.argv[2:]]; client.close()"
LOGS = ("kern.log", "worker.jsonl", "kubernetes-events.jsonl")
"""Files with a time in every line; lines of other files get the time of receipt, which differs from run to run."""


def recorded(scenario: Scenario, folder: Path) -> str:
    """A folder with the files that have a time in every line."""
    write_all(scenario, folder)
    for file in folder.rglob("*.out"):
        file.unlink()
    return str(folder)


def without_positions(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the places of lines: they are files and lines on one machine, partitions and offsets on Kafka."""
    cleared = [
        {**document, "evidence": [{**line, "source": "", "line": 0} for line in document["evidence"]]}
        for document in documents
    ]
    return sorted(cleared, key=lambda document: str(document["incident_id"]))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def query(store: str, *queries: str) -> list[Any]:
    """Query in another process: an embedded store has one owner, and a process one such store."""
    found = subprocess.run(
        [sys.executable, "-c", QUERY_CODE, store, *queries], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def history(store: str) -> dict[str, Any]:
    """The tables without positions, and how each job ended. After the last line time advances on Kafka only."""
    queries = [f"SELECT * FROM {table} FINAL ORDER BY ALL" for table in HISTORY]
    queries.append("SELECT cluster, job, phase, outcome, attempt FROM job_states FINAL ORDER BY ALL")
    return dict(zip((*HISTORY, "job_states"), query(store, *queries), strict=True))


def exporting(store: str) -> int:
    """How many processes exported metrics."""
    sql = "SELECT uniqExact(process) FROM pipeline_metrics WHERE name = 'epicenter_records_total'"
    return int(query(store, sql)[0][0][0])


def settled(cluster: Cluster, workers: list[Worker], wanted: int) -> list[dict[str, Any]]:
    """The incidents, once all records are scanned and stored."""

    def done() -> bool:
        for worker in workers:
            assert worker.process.poll() is None, worker.log.read_text()
        return sum(document["signal_count"] for document in cluster.incidents()) >= wanted

    eventually(done, 90, f"{wanted} signals in the store")
    return cluster.incidents()


def test_replay_run_and_kafka_give_the_same_incidents(clusters: Any, tmp_path: Path) -> None:
    gpu = brief("gpu-off-bus", gpus_per_node=8)
    next_day_ns = gpu.start_ns + 86_400 * NS_PER_S
    oom = brief("host-oom", gpus_per_node=8, seed=2, start_ns=next_day_ns)
    folders = [recorded(gpu, tmp_path / "gpu"), recorded(oom, tmp_path / "oom")]
    cluster = clusters()
    replayed = lines(cluster.run("replay", "--json", *folders))
    cluster.run("run", "--once", *folders, "--store", f"chdb://{tmp_path}/store")
    ran = lines(cluster.run("incidents", "list", "--json", "--store", f"chdb://{tmp_path}/store"))

    workers = [cluster.start_worker(), cluster.start_worker()]
    eventually(
        lambda: [worker.metric("epicenter_partitions") for worker in workers] == [2, 2], 60, "two partitions each"
    )
    with workers[0].frozen(), workers[1].frozen():
        cluster.feed(records_of(gpu, *LOGS) + records_of(oom, *LOGS))
    streamed = settled(cluster, workers, sum(incident["signal_count"] for incident in replayed))

    assert {incident["class"] for incident in replayed} == {"xid-79", "host-oom-kill"}
    assert without_positions(ran) == without_positions(replayed)
    assert without_positions(streamed) == without_positions(replayed)
    assert all(worker.metric("epicenter_records_total") > 0 for worker in workers)
    expected = history(f"chdb://{tmp_path}/store")
    eventually(lambda: history(cluster.store) == expected, 60, "the same history")
    assert {table for table, stored in expected.items() if stored} >= {
        "signals",
        "progress",
        "placements",
        "job_states",
    }
    eventually(lambda: exporting(cluster.store) == 2, 60, "metrics of both workers")


def test_kill_9_mid_stream_changes_nothing(clusters: Any, tmp_path: Path) -> None:
    scenario = brief("gpu-off-bus", nodes=16, worker_noise_per_minute=300.0)
    records = records_of(scenario, *LOGS)
    half = len(records) // 2
    undisturbed = clusters()
    replayed = lines(undisturbed.run("replay", "--json", recorded(scenario, tmp_path / "logs")))
    wanted = sum(incident["signal_count"] for incident in replayed)

    disturbed = clusters(share_raw=undisturbed, FETCH_RECORDS="100")
    undisturbed.feed(records[:half])
    victim = disturbed.start_worker()
    eventually(lambda: victim.metric("epicenter_records_total") == half, 60, "the middle of the stream")
    with victim.frozen():
        undisturbed.feed(records[half:])
    victim.kill()
    again = disturbed.start_worker()
    after = settled(disturbed, [again], wanted)

    assert 0 < again.metric("epicenter_records_total") <= len(records) - half
    assert after == settled(undisturbed, [undisturbed.start_worker()], wanted)
    assert rows(disturbed) == rows(undisturbed)


NODES, RANKS, STEPS = 4, 16, 60
MATCH_PARTITIONS = 4
STEP = "completed step: {step}, seconds: 2.000, TFLOP/s/device: 412.118, Tokens/s/device: 7144.675, loss: 2.329"
TIMEOUT = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=61, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) "
    "ran for 600012 milliseconds before timing out."
)


def lines_of_a_job_whose_ranks_all_report() -> Iterator[tuple[str, bytes]]:
    """A GPU is lost after the last step, and ten minutes later every rank times out."""
    node_of = [f"n{rank * NODES // RANKS}" for rank in range(RANKS)]
    for step in range(STEPS):
        for rank, node in enumerate(node_of):
            yield node, vector(node, 2 * step + rank / 100, STEP.format(step=step), "A", rank=rank)
    yield node_of[-1], kernel(node_of[-1], 2 * STEPS, XID)
    for rank, node in enumerate(node_of):
        yield node, vector(node, 2 * STEPS + 600 + rank / 100, TIMEOUT.format(rank=rank), "A", rank=rank)


def steps_sent(cluster: Cluster) -> tuple[int, int]:
    """How many steps the worker that matched sent, singly and in bundles."""
    matches = [TopicPartition(TopicNames(cluster.name).matches, number) for number in range(MATCH_PARTITIONS)]
    sent = [decode(record.value or b"") for record in everything_in(cluster.bootstrap, *matches)]
    parts = [part for message in sent if isinstance(message, ScanMessage) for part in message.parts]
    singly = [heartbeat for part in parts for heartbeat in map(unflattened, part.heartbeats) if type(heartbeat) is Step]
    return len(singly), sum(len(bundle.ranks) for part in parts for bundle in part.step_bundles)


def test_steps_in_bundles_give_the_same_incidents_and_history(clusters: Any) -> None:
    records = list(lines_of_a_job_whose_ranks_all_report())
    singly = clusters()
    in_bundles = clusters(share_raw=singly, BUNDLE_STEPS="true")
    singly.feed(records)
    found = [settled(cluster, [cluster.start_worker()], wanted=1 + RANKS) for cluster in (singly, in_bundles)]

    assert [incident["class"] for incident in found[0]] == ["xid-79"]
    assert found[0] == found[1]
    newest_steps = "SELECT rank, max(last_step) AS newest FROM progress GROUP BY rank"
    sql = f"SELECT count(), min(newest) FROM ({newest_steps})"
    eventually(lambda: query(singly.store, sql) == [[[RANKS, STEPS - 1]]], 60, "the last step of every rank")
    eventually(lambda: history(in_bundles.store) == history(singly.store), 60, "the same history")
    assert steps_sent(singly) == (RANKS * STEPS, 0)
    alone, in_company = steps_sent(in_bundles)
    assert alone + in_company == RANKS * STEPS
    assert in_company > alone


def test_workers_are_ready_with_partitions_or_as_spares_and_count_open_incidents(clusters: Any) -> None:
    cluster = clusters()
    workers = [cluster.start_worker(), cluster.start_worker()]
    ok = {"status": "ok"}
    eventually(lambda: all(json.loads(worker.get("/readyz") or "{}") == ok for worker in workers), 90, "ready workers")
    assert [json.loads(worker.get("/livez")) for worker in workers] == [ok, ok]
    cluster.feed([("n1", kernel("n1", 1, XID)), ("n1", vector("n1", 60, "a minute later", "A"))])
    eventually(lambda: sum(worker.metric("epicenter_incidents_open") for worker in workers) == 1, 90, "one is open")
    assert sum(worker.metric("epicenter_incidents_total") for worker in workers) == 1


def test_commands_of_the_operations_guide_run(clusters: Any) -> None:
    cluster = clusters()
    shown = re.search(r"^```sh\n(.*?)^```", OPERATIONS.read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    for line in shown[1].splitlines():
        cluster.run(*line.split()[1:])


def rows(cluster: Cluster) -> list[tuple[Any, ...]]:
    client = connect(cluster.store)
    try:
        return client.query("SELECT * EXCEPT stored FROM matches FINAL ORDER BY match_id")
    finally:
        client.close()
