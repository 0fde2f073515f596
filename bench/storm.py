"""A storm through a real broker, workers and a store: nothing lost, one incident, memory bounded: `make bench-storm`.

A GPU falls off its bus; ten minutes later every other rank of its job times out within 5 s; then the ranks repeat
it, `BENCH_RATE` lines a second for `BENCH_SECONDS` of real time. Event time is real time; settings are the defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import Any, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer

from bench.correlate_input import GPUS, LINES, TIMEOUT_S, Job, jobs, templates, timed_out_ns
from deploy.dev.broker import dev_broker
from deploy.dev.clickhouse import dev_clickhouse
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from tests.support.cluster import Cluster, Worker
from tests.support.waiting import eventually

RANKS = int(os.environ.get("BENCH_RANKS", 16_384))
SECONDS = int(os.environ.get("BENCH_SECONDS", 300))
RATE = int(os.environ.get("BENCH_RATE", 5_000))
WORKERS = int(os.environ.get("BENCH_WORKERS", 2))
PATIENCE_S = 600
PARTITIONS = 4
RECORDS_A_BATCH = 500
STEP_S = 10
Row = dict[str, Any]
QUIET_LINE = "loading shard 17 of 64"


class Record(NamedTuple):
    """A line of a node as a shipper sends it."""

    node: str
    value: bytes


def record(at_ns: int, node: str, text: str, job: str = "", rank: int | None = None) -> Record:
    """One envelope; a line without a job is the kernel's."""
    place = {"job_id": job, "source": "worker"} if job else {"source": "kernel"}
    envelope = {"timestamp": at_ns / NS_PER_S, "host": node, "message": text, **place}
    return Record(node, orjson.dumps(envelope | ({} if rank is None else {"rank": rank})))


def printed_by(kind: str, rank: int) -> Iterator[str]:
    """The lines of a rank, with its number in them."""
    return (re.sub(r"(rank ?)25\b", rf"\g<1>{rank}", line, flags=re.IGNORECASE) for line in LINES[kind])


def before(job: Job, begin_ns: int, end_ns: int) -> Iterator[Record]:
    """The job trains: the last rank reports the steps, and every node logs now and then."""
    for step, at_ns in enumerate(range(begin_ns, end_ns, STEP_S * NS_PER_S)):
        if step % 30 == 0:
            for node in job.nodes:
                yield record(at_ns, node, QUIET_LINE, job.name)
        text = f"completed step: {step}, seconds: 10.001, TFLOP/s/device: 380.102, total_weights: 524288, loss: 2.871"
        yield record(at_ns, job.nodes[-1], text, job.name, job.ranks[-1])


def fault(job: Job, node: str, at_ns: int) -> Iterator[Record]:
    """The kernel of a node loses a GPU."""
    return (record(at_ns + number * 1_000_000, node, text) for number, text in enumerate(LINES["lost_gpu"]))


def time_outs(job: Job, node: str, fault_ns: int) -> Iterator[Record]:
    """All ranks but the one without its GPU time out."""
    dead = job.nodes.index(node) * GPUS + 3
    for rank in job.ranks:
        if rank != dead:
            at_ns = timed_out_ns(fault_ns, rank)
            for number, text in enumerate(printed_by("timed_out_rank", rank)):
                yield record(at_ns + number * 1_000_000, job.node_of(rank), text, job.name, rank)


def repeats(job: Job, at_ns: int, second: int) -> Iterator[Record]:
    """A second of the storm: one rank after the other repeats its timeout."""
    for number in range(RATE):
        rank = (second * RATE + number) % len(job.ranks)
        (text, *_) = printed_by("timed_out_rank", rank)
        yield record(at_ns + number * NS_PER_S // RATE, job.node_of(rank), text, job.name, rank)


class Sent(NamedTuple):
    """The number of records sent, and of their matches."""

    records: int
    matches: int
    ended_s: float


async def storm(cluster: Cluster, job: Job, node: str) -> Sent:
    """Send it all, in time."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, compression_type="lz4", max_batch_size=1 << 20)
    await producer.start()
    fault_ns = time_ns() - TIMEOUT_S * NS_PER_S
    topic, matches = cluster.raw_topic, {kind: len(templates()[kind]) for kind in ("lost_gpu", "timed_out_rank")}
    calm = await send(producer, topic, before(job, fault_ns - 1800 * NS_PER_S, fault_ns))
    failures = await send(producer, topic, fault(job, node, fault_ns))
    failures += await send(producer, topic, time_outs(job, node, fault_ns))
    begun_s, begun_ns, repeated = monotonic(), time_ns(), 0
    for second in range(SECONDS):
        repeated += await send(producer, topic, repeats(job, begun_ns + second * NS_PER_S, second))
        await asyncio.sleep(max(0.0, begun_s + second + 1 - monotonic()))
    await producer.stop()
    expected = matches["lost_gpu"] + matches["timed_out_rank"] * (len(job.ranks) - 1) + repeated
    return Sent(calm + failures + repeated, expected, monotonic())


async def send(producer: AIOKafkaProducer, topic: str, records: Iterable[Record]) -> int:
    """Each node's records in order to one partition; gives their number."""
    by_partition: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for line in records:
        by_partition[int(line.node.removeprefix("node")) % PARTITIONS].append(line)
    waiting = []
    for partition, of_partition in enumerate(by_partition):
        for first in range(0, len(of_partition), RECORDS_A_BATCH):
            batch = producer.create_batch()
            for line in of_partition[first : first + RECORDS_A_BATCH]:
                batch.append(key=line.node.encode(), value=line.value, timestamp=None)
            batch.close()
            waiting.append(await producer.send_batch(batch, topic, partition=partition))
    await asyncio.gather(*waiting)
    return sum(map(len, by_partition))


FAILURE_RULES = sorted({match.rule for kind in ("lost_gpu", "timed_out_rank") for match in templates()[kind]})
COUNTED = ("records", "matched_records", "quiet_records", "dead_letters")


def stored(cluster: Cluster) -> Row:
    """The stored results."""
    client = connect(cluster.store)
    rules = ", ".join(f"'{rule}'" for rule in FAILURE_RULES)
    try:
        incidents = client.query(
            "SELECT root_class, root_node, signal_count, blast_ranks, status FROM incidents FINAL"
            " WHERE merged_into = ''"
        )
        ((rows,),) = client.query(f"SELECT count() FROM matches FINAL WHERE rule IN ({rules})")
        ((size_bytes,),) = client.query("SELECT max(length(document)) FROM incidents")
    finally:
        client.close()
    return {"incidents": incidents, "rows": rows, "document_bytes": size_bytes}


def newest_count(cluster: Cluster) -> int:
    """How many signals the incidents in the store have."""
    client = connect(cluster.store)
    try:
        ((count,),) = client.query("SELECT sum(signal_count) FROM incidents FINAL WHERE merged_into = ''")
    finally:
        client.close()
    return int(count)


def settled_s(cluster: Cluster, sent: Sent) -> float:
    """Seconds from the last record to the last change of the incident; losses appear in the table."""
    count, changed_s, begun_s = -1, monotonic(), monotonic()
    while monotonic() - changed_s < (20 if count >= sent.matches else 120) and monotonic() - begun_s < PATIENCE_S:
        now = newest_count(cluster)
        if now != count:
            count, changed_s = now, monotonic()
        sleep(0.5)
    return changed_s - sent.ended_s


def accounts(workers: Sequence[Worker]) -> dict[str, dict[str, float]]:
    """The counts of each raw partition's records, over all workers."""
    found: dict[str, dict[str, float]] = {}
    for worker in workers:
        for name, source, value in re.findall(
            r'^epicenter_(\w+)_total\{source="([^"]+)"\} (\S+)$', worker.get("/metrics"), re.MULTILINE
        ):
            if name in COUNTED:
                by_name = found.setdefault(source, dict.fromkeys(COUNTED, 0.0))
                by_name[name] += float(value)
    return found


def peak_mb(worker: Worker) -> float:
    """The peak memory of the worker."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1000  # type: ignore[index]


def cpu_s(worker: Worker) -> float:
    """CPU seconds of the worker."""
    fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the storm; print the results for people on standard error, JSON on standard output."""
    (job,) = jobs(1, RANKS // GPUS)
    node = job.nodes[len(job.nodes) * 3 // 5]
    with tempfile.TemporaryDirectory(prefix="epicenter-storm-") as name:
        folder = Path(name)
        with dev_broker(folder / "kafka") as broker, dev_clickhouse(folder / "store") as store:
            cluster = Cluster(broker.bootstrap, store.dsn, folder, ALLOWED_LATENESS="5s", ADVANCE_WHEN_IDLE="true")
            workers = [cluster.start_worker() for _ in range(WORKERS)]
            try:
                eventually(
                    lambda: sum(worker.metric("epicenter_partitions") for worker in workers) == PARTITIONS, 60, "all"
                )
                sent = asyncio.run(storm(cluster, job, node))
                final_s = settled_s(cluster, sent)
                row = {"sent": sent.records, "failures_sent": sent.matches, "to_final_s": final_s, **stored(cluster)}
                row["partitions"] = accounts(workers)
                row["matches"] = sum(matches_of(worker) for worker in workers)
                row["peak_mb"] = [peak_mb(worker) for worker in workers]
                row["cpu_s"] = [cpu_s(worker) for worker in workers]
                row["snapshots"] = [snapshot_of(worker) for worker in workers]
            finally:
                cluster.stop()
    report(row, node)


def matches_of(worker: Worker) -> float:
    """The failures that the worker matched."""
    lines = worker.get("/metrics").splitlines()
    wanted = tuple(f'epicenter_matches_total{{rule="{rule}"}}' for rule in FAILURE_RULES)
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted))


def snapshot_of(worker: Worker) -> dict[str, float]:
    """Size and time of its newest snapshots."""
    return {name: worker.metric(f"epicenter_snapshot_{name}") for name in ("bytes", "seconds")}


def report(row: Row, node: str) -> None:
    """Print the checks and the figures; exit with 1 when a check fails."""
    totals = {name: sum(counts[name] for counts in row["partitions"].values()) for name in COUNTED}
    is_balanced = all(
        counts["records"] == counts["matched_records"] + counts["quiet_records"] + counts["dead_letters"]
        for counts in row["partitions"].values()
    )
    checks = {
        f"one incident, root xid-79 on {node}": [incident[:2] for incident in row["incidents"]] == [("xid-79", node)],
        "records in = records sent": totals["records"] == row["sent"],
        "records = matched + quiet + dead in each partition": is_balanced,
        "no dead letters": totals["dead_letters"] == 0,
        "matches = failures sent": row["matches"] == row["failures_sent"],
        "rows in the store = failures sent": row["rows"] == row["failures_sent"],
        "signals of the incident >= failures sent": sum(incident[2] for incident in row["incidents"])
        >= row["failures_sent"],
    }
    for what, holds in checks.items():
        print(f"{'yes' if holds else 'NO ':<4}{what}", file=sys.stderr)
    for name, value in row.items():
        print(f"{name:<16} {value}", file=sys.stderr)
    print(json.dumps(row | {"checks": checks}))
    sys.exit(not all(checks.values()))


if __name__ == "__main__":
    main()
