"""From a line written to Kafka to the webhook's notification and to the row, under a load of other lines.

Nothing is measured inside the worker: the times of the hops are those of the records on its topics.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.live_input import LiveCluster, gpu_lost
from bench.servers import Servers, servers
from deploy.dev.process import EPICENTER
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.messages import ScanMessage, decode

FAULTS = int(os.environ.get("BENCH_FAULTS", 300))
SECONDS = float(os.environ.get("BENCH_SECONDS", 120))
LINES_PER_S = int(os.environ.get("BENCH_LINES", 50_000))
WARM_UP_S = float(os.environ.get("BENCH_WARM_UP", 130))
PREFIX = "latency"
POLL_EVERY_S = 0.1
P50_S, P99_S = 0.5, 2.0


@dataclass
class Times:
    """The times of each hop of one node's line, in seconds since the epoch; 0 when it did not happen."""

    produced: float = 0.0
    scanned: float = 0.0
    incident: float = 0.0
    notified: float = 0.0
    stored: float = 0.0


@dataclass
class Bench:
    """A broker, a store, a worker with default settings, a receiver; and the times of each fault."""

    at: Servers
    times: dict[str, Times] = field(default_factory=dict)

    async def run(self) -> int:
        """Measure; the lines a second that were really sent."""
        async with _receiver(self) as url:
            worker = subprocess.Popen([*EPICENTER, "worker"], env={**self.at.env, "EPICENTER_WEBHOOK_URL": url})
            done, polling = asyncio.Event(), threading.Event()
            cluster = LiveCluster(self.at.bootstrap, self.at.raw_topic, FAULTS, LINES_PER_S)
            background = asyncio.create_task(cluster.run(done))
            polls = asyncio.create_task(asyncio.to_thread(self._poll_rows, polling))
            try:
                await asyncio.sleep(WARM_UP_S)
                before, begun_s = cluster.sent, time.monotonic()
                for number in range(FAULTS):
                    name = f"node{number:04d}"
                    self.times[name] = Times(produced=time.time())
                    await cluster.send(number, gpu_lost(number))
                    await asyncio.sleep(max(0.0, begun_s + (number + 1) * SECONDS / FAULTS - time.monotonic()))
                rate = (cluster.sent - before) / (time.monotonic() - begun_s)
                await self._wait_for_the_last()
            finally:
                done.set()
                polling.set()
                await asyncio.gather(background, polls)
                worker.terminate()
                worker.wait()
        await self._read_topics()
        return round(rate)

    async def _wait_for_the_last(self, within_s: float = 60.0) -> None:
        end_s = time.monotonic() + within_s
        while any(not (times.notified and times.stored) for times in self.times.values()) and time.monotonic() < end_s:
            await asyncio.sleep(0.2)

    def _poll_rows(self, done: threading.Event) -> None:
        client = connect(self.at.store)
        try:
            while not done.wait(POLL_EVERY_S):
                if any(times.notified and not times.stored for times in self.times.values()):
                    now = time.time()
                    for (nodes,) in client.query("SELECT nodes FROM incidents"):
                        for node in nodes:
                            if node in self.times and not self.times[node].stored:
                                self.times[node].stored = now
        finally:
            client.close()

    def note_notified(self, notification: dict[str, Any]) -> None:
        """Record the time of a notification."""
        for node in notification["incident"]["nodes"]:
            if notification["kind"] == "opened" and node in self.times and not self.times[node].notified:
                self.times[node].notified = time.time()

    async def _read_topics(self) -> None:
        async for record in _records(self.at.bootstrap, f"{PREFIX}.matches"):
            message = decode(record.value)
            for part in message.parts if isinstance(message, ScanMessage) else ():
                for match in part.matches:
                    self._note("scanned", match.event.node, record)
        async for record in _records(self.at.bootstrap, f"{PREFIX}.incidents"):
            for node in orjson.loads(record.value)["nodes"]:
                self._note("incident", node, record)

    def _note(self, what: str, node: str, record: Any) -> None:
        times = self.times.get(node)
        if times and not getattr(times, what) and record.timestamp / 1000 >= times.produced - 0.001:
            setattr(times, what, record.timestamp / 1000)


class _receiver:  # noqa: N801
    """A webhook on the loopback for the length of an `async with`; its URL."""

    def __init__(self, bench: Bench):
        self._bench = bench

    async def __aenter__(self) -> str:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/", self._receive)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        self._bench.note_notified(orjson.loads(await request.read()))
        return web.Response()


async def _records(bootstrap: str, topic: str) -> Any:
    """All records of a topic that gets no more records."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        sources = [TopicPartition(topic, number) for number in range(4)]
        consumer.assign(sources)
        await consumer.seek_to_beginning(*sources)
        ends = await consumer.end_offsets(sources)
        while any([await consumer.position(source) < end for source, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    yield record
    finally:
        await consumer.stop()


HOPS = {
    "written → scanned, on the matches topic": ("produced", "scanned"),
    "→ the watermark passes it, incident on its topic": ("scanned", "incident"),
    "→ webhook": ("incident", "notified"),
    "→ row, in parallel with the webhook": ("incident", "stored"),
    "written → webhook": ("produced", "notified"),
    "written → row": ("produced", "stored"),
}


def report(times: list[Times], rate: int) -> bool:
    """Print a table for people on standard error, JSON on standard output; true when the goals are reached."""
    lost = sum(not (line.notified and line.stored) for line in times)
    found = {}
    print(f"{'hop':<52} {'p50':>7} {'p95':>7} {'p99':>7} {'most':>7}  s", file=sys.stderr)
    for hop, (begin, end) in HOPS.items():
        lengths_s = [
            getattr(line, end) - getattr(line, begin) for line in times if getattr(line, end) and getattr(line, begin)
        ]
        if len(lengths_s) < 2:
            continue
        cuts = statistics.quantiles(lengths_s, n=100, method="inclusive")
        found[hop] = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "most": max(lengths_s)}
        print(f"{hop:<52} " + " ".join(f"{value:>7.3f}" for value in found[hop].values()), file=sys.stderr)
    to_webhook = found.get("written → webhook", {"p50": 1e9, "p99": 1e9})
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    seconds = {hop: {name: round(value, 3) for name, value in figures.items()} for hop, figures in found.items()}
    print(json.dumps({"faults": len(times), "lost": lost, "lines_per_s": rate, "seconds": seconds} | machine))
    return lost == 0 and to_webhook["p50"] <= P50_S and to_webhook["p99"] <= P99_S


def main() -> None:
    """Exit code 1 when a goal is missed."""
    with servers(PREFIX) as at:
        at.prepare()
        bench = Bench(at)
        rate = asyncio.run(bench.run())
    sys.exit(not report(list(bench.times.values()), rate))


if __name__ == "__main__":
    main()
