"""Lines a second from a real broker: the worker to matches, beside a bare consumer and a plain Faust agent.

Each way runs in a process of its own over the same topic, one after the other; the ratios are what counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ingest.simulate import Scenario, simulate
from stream.dev_broker import dev_broker
from stream.dev_process import EPICENTER, free_ports

RECORDS = 1_000_000
AGENT_RECORDS = 60_000
PARTITIONS = 4
RECORDS_A_BATCH = 500
RAW, SHORT = "bench.raw", "bench.short"


def main() -> None:
    """Run all three ways and print a table and one JSON object."""
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder, dev_broker(Path(folder) / "kafka") as broker:
        lines, hit_share = sample_lines()
        env = {**os.environ, "EPICENTER_KAFKA": broker.bootstrap, "EPICENTER_DATA_DIR": f"{folder}/data"}
        for topic, count in ((RAW, RECORDS), (SHORT, AGENT_RECORDS)):
            subprocess.run([*EPICENTER, "topics"], env={**env, "EPICENTER_RAW_TOPIC": topic}, check=True, stdout=2)
            asyncio.run(produce(broker.bootstrap, topic, lines, count))
        rates = {
            "bare aiokafka loop, discards": in_process("bare", broker.bootstrap),
            "epicenter worker, to matches": worker_rate({**env, "EPICENTER_RAW_TOPIC": RAW}),
            "plain Faust agent, same scan": in_process("agent", broker.bootstrap, folder),
        }
    report(rates, sum(map(len, lines)) / len(lines), hit_share)


def sample_lines() -> tuple[list[bytes], float]:
    """Lines of a healthy simulated cluster with one fault at the end, and the share of them that a rule fits."""
    from ingest.batch import Batch
    from rules.load import load
    from stream.rule_commands import A_TIME_NS
    from stream.scan import BatchScanner

    scenario = Scenario(
        nodes=32,
        faults=("host-oom",),
        is_tidy=True,
        worker_noise_per_minute=120.0,
        kernel_noise_per_minute=20.0,
    )
    lines = [line.text.encode() for line in simulate(scenario)]
    count = len(lines)
    batch = Batch("sample", lines, [None] * count, [A_TIME_NS * 2] * count, range(count))
    return lines, BatchScanner(load(), "bench").scan(batch).matched / count


async def produce(bootstrap: str, topic: str, lines: list[bytes], count: int) -> None:
    """Fill a topic with whole batches, as a shipper with a linger does."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4", max_batch_size=1 << 20)
    await producer.start()
    endless: Iterator[bytes] = islice(cycle(lines), count)
    waiting = []
    for number in range(-(-count // RECORDS_A_BATCH)):
        batch = producer.create_batch()
        for line in islice(endless, RECORDS_A_BATCH):
            batch.append(key=b"node%04d" % (number % 32), value=line, timestamp=None)
        batch.close()
        waiting.append(await producer.send_batch(batch, topic, partition=number % PARTITIONS))
    await asyncio.gather(*waiting)
    await producer.stop()


def in_process(way: str, *arguments: str) -> float:
    """Lines a second of one of the ways below, measured in a fresh process."""
    command = [sys.executable, "-m", "bench.stream", way, *arguments]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def worker_rate(env: dict[str, str]) -> float:
    """Lines a second between the first and the last record that a worker counts on /metrics."""
    port = free_ports(1)[0]
    worker = subprocess.Popen([*EPICENTER, "worker", "--web-port", str(port)], env=env)
    try:
        first = (0.0, 0.0)
        while True:
            now, records = time.perf_counter(), records_counted(port)
            if records and not first[1]:
                first = (now, records)
            if records >= RECORDS:
                return (records - first[1]) / (now - first[0])
            time.sleep(0.05)
    finally:
        worker.terminate()
        worker.wait()


def records_counted(port: int) -> float:
    """Raw records that the worker has scanned, sent on and committed."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    lines = [line for line in text.splitlines() if line.startswith("epicenter_records_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def bare(bootstrap: str) -> None:
    """Read everything with `getmany` and throw it away."""
    consumer = AIOKafkaConsumer(RAW, bootstrap_servers=bootstrap, group_id="bench.bare", auto_offset_reset="earliest",
                                max_partition_fetch_bytes=4 << 20)  # fmt: skip
    await consumer.start()
    records, begun = 0, 0.0
    while records < RECORDS:
        fetched = await consumer.getmany(timeout_ms=500, max_records=20_000)
        begun = begun or time.perf_counter()
        records += sum(map(len, fetched.values()))
    print(records / (time.perf_counter() - begun))
    await consumer.stop()


def agent(bootstrap: str, folder: str) -> None:
    """A Faust agent that scans each event by itself, with the same rules."""
    import faust
    from faust.worker import Worker

    from rules.load import load
    from rules.match.hyperscan import HyperscanScanner

    scanner = HyperscanScanner(load().expressions)
    app = faust.App("bench-agent", broker=f"kafka://{bootstrap}", datadir=f"{folder}/agent", web_enabled=False,
                    topic_allow_declare=False, topic_disable_leader=True, worker_redirect_stdouts=False)  # fmt: skip
    topic = app.topic(SHORT, value_type=bytes, value_serializer="raw", key_type=bytes, key_serializer="raw")
    seen, begun = 0, 0.0

    @app.agent(topic)
    async def scan(stream: faust.Stream[bytes]) -> None:
        nonlocal seen, begun
        async for value in stream:
            begun = begun or time.perf_counter()
            scanner.scan([value])
            seen += 1
            if seen == AGENT_RECORDS:
                print(seen / (time.perf_counter() - begun), flush=True)
                os._exit(0)

    worker = Worker(app, loglevel="error", quiet=True)
    worker.spinner = None
    worker.execute_from_commandline()


def report(rates: dict[str, float], mean_bytes: float, hit_share: float) -> None:
    """A table for people on standard error, JSON on standard output."""
    base = rates["plain Faust agent, same scan"]
    print(f"{'way':<32} {'lines/s':>12} {'ratio':>8}", file=sys.stderr)
    for way, rate in rates.items():
        print(f"{way:<32} {rate:>12,.0f} {rate / base:>7.1f}x", file=sys.stderr)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    found = {way: round(rate) for way, rate in rates.items()}
    print(
        json.dumps(
            {"lines_per_s": found, "mean_line_bytes": round(mean_bytes), "hit_share": round(hit_share, 4)} | machine
        )
    )


if __name__ == "__main__":
    ways = {"bare": lambda bootstrap: asyncio.run(bare(bootstrap)), "agent": agent}
    ways[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
