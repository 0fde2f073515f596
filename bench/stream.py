"""Lines a second from a real broker to matches, compared with a bare consumer and a plain Faust agent.

Each way runs in a separate process over the same topics, one after the other. Where broker and worker share two cores
the broker slows the worker down, so the figure that counts is the CPU time of the worker's process.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer

from bench.match import some_rules
from bench.servers import counted
from bench.stream_input import PARTITIONS, produce
from deploy.dev.broker import dev_broker
from deploy.dev.process import EPICENTER, free_ports
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.app import build_app
from epicenter.stream.scan.prefilter import MARKS
from epicenter.stream.settings import Settings
from epicenter.stream.worker import run_app

RECORDS = int(os.environ.get("BENCH_RECORDS", 5_000_000))
AGENT_RECORDS = 60_000
PATTERNS = 300
RAW, ZSTD, SHORT = "bench.lz4", "bench.zstd", "bench.short"
TOPICS = ((RAW, RECORDS, "lz4"), (ZSTD, RECORDS, "zstd"), (SHORT, AGENT_RECORDS, "lz4"))
SAMPLE_S = 0.5


class Throughput(NamedTuple):
    """How fast a process read records: by the clock, and by its CPU time."""

    lines_per_s: float
    lines_per_core_s: float
    peak_mb: float = 0.0


def main() -> None:
    """Run all ways, and print a table and one JSON object."""
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder, dev_broker(Path(folder) / "kafka") as broker:
        env = {**os.environ, "EPICENTER_KAFKA": broker.bootstrap, "EPICENTER_DATA_DIR": f"{folder}/data"}
        for topic, count, codec in TOPICS:
            make = {**env, "EPICENTER_RAW_TOPIC": topic}
            subprocess.run([*EPICENTER, "topics"], env=make, check=True, stdout=subprocess.DEVNULL)
            asyncio.run(produce(broker.bootstrap, topic, count, codec))
        ways: dict[str, Callable[[], Throughput]] = {
            "bare aiokafka loop, discards": lambda: in_process("bare", broker.bootstrap),
            f"epicenter, {PATTERNS} patterns, lz4": lambda: scanned(env, RAW, "300-lz4", PATTERNS),
            f"epicenter, {PATTERNS} patterns, zstd": lambda: scanned(env, ZSTD, "300-zstd", PATTERNS),
            f"two workers, {PATTERNS} patterns, lz4": lambda: two_workers(env),
            "epicenter, 50 patterns, lz4": lambda: scanned(env, RAW, "50", 50),
            "epicenter, 5,000 patterns, lz4": lambda: scanned(env, RAW, "5000", 5000),
            "epicenter, the catalogue, lz4": lambda: scanned(env, RAW, "all", 0),
            "plain Faust agent, same scan": lambda: in_process("agent", broker.bootstrap, folder),
        }
        throughputs = {}
        for way, measure in ways.items():
            throughputs[way] = measure()
            print(f"{way}: {throughputs[way].lines_per_core_s:,.0f} lines a core-second", file=sys.stderr)
    report(throughputs)


def in_process(way: str, *arguments: str) -> Throughput:
    """One of the ways below in a fresh process, which prints its pace."""
    command = [sys.executable, "-m", "bench.stream", way, *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    return Throughput(*json.loads(printed))


def scanned(env: dict[str, str], topic: str, name: str, patterns: int) -> Throughput:
    """A worker that only matches, from the first to the last record that it counts on /metrics."""
    with matching(env, topic, name, patterns, workers=1) as workers:
        return throughput_of(workers)


def two_workers(env: dict[str, str]) -> Throughput:
    """Two workers that share the partitions of a topic, from the moment when both have theirs."""
    with matching(env, RAW, "two", PATTERNS, workers=2) as workers:
        while [worker.counted().get("epicenter_partitions") for worker in workers] != [PARTITIONS / 2] * 2:
            time.sleep(SAMPLE_S)
        return throughput_of(workers)


@contextmanager
def matching(env: dict[str, str], topic: str, name: str, patterns: int, workers: int) -> Iterator[list[Worker]]:
    """Workers of one group, stopped at the end."""
    own = {"EPICENTER_RAW_TOPIC": topic, "EPICENTER_PREFIX": f"bench-{name}", "EPICENTER_SERVICES": "match"}
    env = {**env, **own}
    subprocess.run([*EPICENTER, "topics"], env=env, check=True, stdout=subprocess.DEVNULL)
    started = [Worker(env, patterns) for _ in range(workers)]
    try:
        yield started
    finally:
        for worker in started:
            worker.process.terminate()
        for worker in started:
            worker.process.wait()


class Worker:
    """A separate process that matches `patterns` patterns."""

    def __init__(self, env: dict[str, str], patterns: int):
        self._port = free_ports(1)[0]
        data_dir = f"{env['EPICENTER_DATA_DIR']}/{self._port}"
        env = {**env, "EPICENTER_WEB_PORT": str(self._port), "EPICENTER_DATA_DIR": data_dir}
        self.process = subprocess.Popen([sys.executable, "-m", "bench.stream", "match", str(patterns)], env=env)

    def counted(self) -> dict[str, float]:
        """Its metrics; empty while it does not answer."""
        if self.process.poll() is not None:
            raise SystemExit(f"the worker ended: {self.process.returncode}")
        return counted(self._port)


class Sample(NamedTuple):
    """The progress of all workers together."""

    time_s: float
    records: float
    cpu_s: float
    peak_mb: float


def sample(workers: Sequence[Worker]) -> Sample:
    """The current progress; no records while one of them does not answer."""
    metrics = [worker.counted() for worker in workers]
    if not all(metrics):
        return Sample(time.perf_counter(), 0.0, 0.0, 0.0)
    records = sum(counts.get("epicenter_records_total", 0.0) for counts in metrics)
    cpu_s = sum(counts["process_cpu_seconds_total"] for counts in metrics)
    peak_mb = max(counts["process_resident_memory_bytes"] for counts in metrics) / 1e6
    return Sample(time.perf_counter(), records, cpu_s, peak_mb)


def throughput_of(workers: Sequence[Worker]) -> Throughput:
    """From the first counted records, after the start, to the last of the topic."""
    first = last = sample(workers)
    while last.records < RECORDS:
        time.sleep(SAMPLE_S)
        last = sample(workers)
        first = first if first.records else last
    records = last.records - first.records
    return Throughput(records / (last.time_s - first.time_s), records / (last.cpu_s - first.cpu_s), last.peak_mb)


def match(patterns: str) -> None:
    """A worker with `patterns` patterns; 0: the whole catalogue."""
    settings, count = Settings(), int(patterns)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    rules = RuleSet(tuple(some_rules(count)), (), marks=MARKS) if count else load(marks=MARKS)
    sys.exit(run_app(build_app(settings, rules)))


async def bare(bootstrap: str) -> None:
    """Read everything with `getmany` and throw it away."""
    consumer = AIOKafkaConsumer(RAW, bootstrap_servers=bootstrap, group_id="bench.bare", auto_offset_reset="earliest",
                                max_partition_fetch_bytes=4 << 20)  # fmt: skip
    await consumer.start()
    records, begun_s, begun_cpu_s = 0, 0.0, 0.0
    while records < RECORDS:
        fetched = await consumer.getmany(timeout_ms=500, max_records=20_000)
        if not begun_s:
            begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
        records += sum(map(len, fetched.values()))
    print(json.dumps([RECORDS / (time.perf_counter() - begun_s), RECORDS / (time.process_time() - begun_cpu_s)]))
    await consumer.stop()


def agent(bootstrap: str, folder: str) -> None:
    """A Faust agent that scans each event by itself, with the same patterns."""
    import faust
    from faust.worker import Worker

    scanner = HyperscanScanner(RuleSet(tuple(some_rules(PATTERNS)), ()).expressions)
    app = faust.App("bench-agent", broker=f"kafka://{bootstrap}", datadir=f"{folder}/agent", web_enabled=False,
                    topic_allow_declare=False, topic_disable_leader=True, worker_redirect_stdouts=False)  # fmt: skip
    topic = app.topic(SHORT, value_type=bytes, value_serializer="raw", key_type=bytes, key_serializer="raw")
    seen, begun_s, begun_cpu_s = 0, 0.0, 0.0

    @app.agent(topic)
    async def scan(stream: faust.Stream[bytes]) -> None:
        nonlocal seen, begun_s, begun_cpu_s
        async for value in stream:
            if not begun_s:
                begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
            scanner.scan([value])
            seen += 1
            if seen == AGENT_RECORDS:
                throughput = seen / (time.perf_counter() - begun_s), seen / (time.process_time() - begun_cpu_s)
                print(json.dumps(throughput), flush=True)
                os._exit(0)

    worker = Worker(app, loglevel="error", quiet=True)
    worker.spinner = None
    worker.execute_from_commandline()


def report(throughputs: dict[str, Throughput]) -> None:
    """A table for people on standard error, JSON on standard output."""
    bare_throughput, *_, agent_throughput = throughputs.values()
    print(f"{'way':<36} {'lines/core-s':>13} {'lines/s':>10} {'x bare':>7} {'x agent':>8} {'MB':>5}", file=sys.stderr)
    for way, throughput in throughputs.items():
        over_bare = throughput.lines_per_core_s / bare_throughput.lines_per_core_s
        over_agent = throughput.lines_per_core_s / agent_throughput.lines_per_core_s
        print(
            f"{way:<36} {throughput.lines_per_core_s:>13,.0f} {throughput.lines_per_s:>10,.0f} {over_bare:>6.2f}x "
            f"{over_agent:>7.1f}x {throughput.peak_mb:>5.0f}",
            file=sys.stderr,
        )
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    print(
        json.dumps(
            {"records": RECORDS, **{way: throughput._asdict() for way, throughput in throughputs.items()}} | machine
        )
    )


if __name__ == "__main__":
    own_ways = {"bare": lambda bootstrap: asyncio.run(bare(bootstrap)), "agent": agent, "match": match}
    own_ways[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
