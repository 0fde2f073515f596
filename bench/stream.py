"""Lines a second from a real broker: the worker to matches, beside a bare consumer and a plain Faust agent.

Each way runs in a process of its own over the same topics, one after the other. Where broker and worker share two
cores the broker slows the worker down, so the figure that counts is the processor time of the worker's own process.
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
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer

from bench.match import some_rules
from bench.stream_input import produce
from rules.load import load
from rules.match.hyperscan import HyperscanScanner
from rules.ruleset import RuleSet
from stream.app import build_app
from stream.dev_broker import dev_broker
from stream.dev_process import EPICENTER, free_ports
from stream.settings import Settings
from stream.worker import run_app

RECORDS = int(os.environ.get("BENCH_RECORDS", 3_000_000))
AGENT_RECORDS = 60_000
PATTERNS = 300
RAW, ZSTD, SHORT = "bench.lz4", "bench.zstd", "bench.short"
SAMPLE_S = 0.25


class Pace(NamedTuple):
    """How fast a process got through records: by the clock, and by its own processor time."""

    lines_per_s: float
    lines_per_core_s: float
    peak_mb: float = 0.0


def main() -> None:
    """Run all ways, and print a table and one JSON object."""
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder, dev_broker(Path(folder) / "kafka") as broker:
        env = {**os.environ, "EPICENTER_KAFKA": broker.bootstrap, "EPICENTER_DATA_DIR": f"{folder}/data"}
        for topic, count, codec in ((RAW, RECORDS, "lz4"), (ZSTD, RECORDS, "zstd"), (SHORT, AGENT_RECORDS, "lz4")):
            make = {**env, "EPICENTER_RAW_TOPIC": topic}
            subprocess.run([*EPICENTER, "topics"], env=make, check=True, stdout=subprocess.DEVNULL)
            asyncio.run(produce(broker.bootstrap, topic, count, codec))
        ways: dict[str, Callable[[], Pace]] = {
            "bare aiokafka loop, discards": lambda: in_process("bare", broker.bootstrap),
            f"epicenter, {PATTERNS} patterns, lz4": lambda: scanned(env, RAW, "300-lz4", PATTERNS),
            f"epicenter, {PATTERNS} patterns, zstd": lambda: scanned(env, ZSTD, "300-zstd", PATTERNS),
            "epicenter, 50 patterns, lz4": lambda: scanned(env, RAW, "50", 50),
            "epicenter, 5,000 patterns, lz4": lambda: scanned(env, RAW, "5000", 5000),
            "epicenter, the catalogue, lz4": lambda: scanned(env, RAW, "all", 0),
            "plain Faust agent, same scan": lambda: in_process("agent", broker.bootstrap, folder),
        }
        paces = {}
        for way, measure in ways.items():
            paces[way] = measure()
            print(f"{way}: {paces[way].lines_per_core_s:,.0f} lines a core-second", file=sys.stderr)
    report(paces)


def in_process(way: str, *arguments: str) -> Pace:
    """One of the ways below in a fresh process, which prints its pace."""
    command = [sys.executable, "-m", "bench.stream", way, *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    return Pace(*json.loads(printed))


def scanned(env: dict[str, str], topic: str, name: str, patterns: int) -> Pace:
    """A worker that only matches, from the first to the last record that it counts on /metrics."""
    port = free_ports(1)[0]
    own = {"EPICENTER_RAW_TOPIC": topic, "EPICENTER_PREFIX": f"bench-{name}", "EPICENTER_SERVICES": "match"}
    env = {**env, **own, "EPICENTER_WEB_PORT": str(port)}
    subprocess.run([*EPICENTER, "topics"], env=env, check=True, stdout=subprocess.DEVNULL)
    worker = subprocess.Popen([sys.executable, "-m", "bench.stream", "match", str(patterns)], env=env)
    try:
        samples: list[tuple[float, float, float]] = []
        while not samples or samples[-1][1] < RECORDS:
            if worker.poll() is not None:
                raise SystemExit(f"the worker ended: {worker.returncode}")
            time.sleep(SAMPLE_S)
            counted = metrics(port)
            if records := counted.get("epicenter_records_total", 0.0):
                samples.append((time.perf_counter(), records, counted["process_cpu_seconds_total"]))
    finally:
        worker.terminate()
        worker.wait()
    (first_s, first, first_cpu_s), (last_s, last, last_cpu_s) = samples[0], samples[-1]
    peak_mb = counted["process_resident_memory_bytes"] / 1e6
    return Pace((last - first) / (last_s - first_s), (last - first) / (last_cpu_s - first_cpu_s), peak_mb)


def metrics(port: int) -> dict[str, float]:
    """What the worker counts, summed over labels; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    found: dict[str, float] = {}
    for line in (line for line in lines if line[:1] != "#"):
        name, _, value = line.rpartition(" ")
        found[name.partition("{")[0]] = found.get(name.partition("{")[0], 0.0) + float(value)
    return found


def match(patterns: str) -> None:
    """A worker with so many patterns, or with the whole catalogue."""
    settings, count = Settings(), int(patterns)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    rules = RuleSet(tuple(some_rules(count)), ()) if count else load()
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
                pace = seen / (time.perf_counter() - begun_s), seen / (time.process_time() - begun_cpu_s)
                print(json.dumps(pace), flush=True)
                os._exit(0)

    worker = Worker(app, loglevel="error", quiet=True)
    worker.spinner = None
    worker.execute_from_commandline()


def report(paces: dict[str, Pace]) -> None:
    """A table for people on standard error, JSON on standard output."""
    bare_pace, *_, agent_pace = paces.values()
    print(f"{'way':<36} {'lines/core-s':>13} {'lines/s':>10} {'x bare':>7} {'x agent':>8} {'MB':>5}", file=sys.stderr)
    for way, pace in paces.items():
        beside_bare = pace.lines_per_core_s / bare_pace.lines_per_core_s
        beside_agent = pace.lines_per_core_s / agent_pace.lines_per_core_s
        print(
            f"{way:<36} {pace.lines_per_core_s:>13,.0f} {pace.lines_per_s:>10,.0f} {beside_bare:>6.2f}x "
            f"{beside_agent:>7.1f}x {pace.peak_mb:>5.0f}",
            file=sys.stderr,
        )
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({"records": RECORDS, **{way: pace._asdict() for way, pace in paces.items()}} | machine))


if __name__ == "__main__":
    own_ways = {"bare": lambda bootstrap: asyncio.run(bare(bootstrap)), "agent": agent, "match": match}
    own_ways[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
