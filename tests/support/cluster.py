"""A cluster installation for tests: topics on a real broker, worker processes, a store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from deploy.dev.process import EPICENTER, free_ports
from epicenter.ingest.simulate import Scenario, simulate
from tests.support.command import epicenter


class Cluster:
    """One prefix of topics and groups, one raw topic, one database; `share_raw` reads the raw topic of another one."""

    def __init__(
        self, bootstrap: str, clickhouse_dsn: str, folder: Path, share_raw: Cluster | None = None, **settings: str
    ):
        self.name = f"t{uuid4().hex[:8]}"
        self.bootstrap = bootstrap
        self.raw_topic = share_raw.raw_topic if share_raw else f"{self.name}.raw"
        self.store = f"{clickhouse_dsn.rpartition('/')[0]}/{self.name}"
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []
        self._settings = {"KAFKA": bootstrap, "STORE": self.store, "PREFIX": self.name, "RAW_TOPIC": self.raw_topic,
                          "ALLOWED_LATENESS": "1s", "ADVANCE_WHEN_IDLE": "false", **settings}  # fmt: skip
        self.run("topics")

    def run(self, *arguments: str) -> str:
        """The standard output of an `epicenter` command, which must succeed."""
        done = self.invoke(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def invoke(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Output and exit code of an `epicenter` command with the settings of this cluster."""
        return epicenter(*arguments, env=self.env("cli"))

    def feed(
        self,
        records: Iterable[tuple[str | None, bytes | None]],
        topic: str | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Produce (key, value) pairs to the raw topic, keyed records partitioned as Kafka's own clients do."""
        return asyncio.run(_feed(self.bootstrap, topic or self.raw_topic, records, timestamp_ms))

    def start_worker(self, **settings: str) -> Worker:
        """One more worker; `settings` replace those of the cluster."""
        env = self.env(f"worker{len(self._workers)}") | {f"EPICENTER_{key}": value for key, value in settings.items()}
        worker = Worker(env, self._folder / f"{self.name}-{len(self._workers)}.log")
        self._workers.append(worker.process)
        return worker

    def stop(self) -> None:
        """Stop all workers, by the process ids that were started."""
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def incidents(self) -> list[dict[str, Any]]:
        """The stored incidents."""
        lines = self.run("incidents", "list", "--json", "--limit", "1000").splitlines()
        return sorted((json.loads(line) for line in lines), key=lambda incident: str(incident["incident_id"]))

    def env(self, name: str) -> dict[str, str]:
        given = {
            "DATA_DIR": str(self._folder / f"{self.name}-{name}"),
            "WEB_PORT": str(free_ports(1)[0]),
        } | self._settings
        return {**os.environ, **{f"EPICENTER_{key}": value for key, value in given.items()}}


class Worker:
    """A running `epicenter worker`."""

    def __init__(self, env: Mapping[str, str], log: Path):
        self.log = log
        self._port = env["EPICENTER_WEB_PORT"]
        with log.open("wb") as file:
            self.process = subprocess.Popen([*EPICENTER, "worker"], env=env, stdout=file, stderr=file)

    def get(self, path: str, token: str = "") -> str:
        """The answer of its web server; empty while it does not listen, and when it refuses."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith((name + "{", name + " "))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP for a short while: the worker stays in its consumer groups and does nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()


def brief(fault: str, **given: Any) -> Scenario:
    """A small Megatron job with one fault after two minutes; every line has its time and occurs once."""
    usual = {"nodes": 8, "minutes": 1.0, "gpus_per_node": 2, "step_time_s": 2.0, "fault_at_s": 120.0,
             "after_fault_s": 50.0, "frameworks": ("megatron",), "is_tidy": True}  # fmt: skip
    return Scenario(**{**usual, "faults": (fault,), **given})


def records_of(scenario: Scenario, *names: str) -> list[tuple[str | None, bytes | None]]:
    """The lines of a simulated cluster's files of these names as shippers send them: in time, keyed by node."""
    found = ((*line.path.split("/"), line.text) for line in simulate(scenario))
    return [(node, text.encode()) for node, name, text in found if name in names]


def everything_in(bootstrap: str, *sources: TopicPartition) -> list[ConsumerRecord[bytes, bytes]]:
    """All records of these partitions as they are now."""

    async def read() -> list[ConsumerRecord[bytes, bytes]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign(sources)
            ends = await consumer.end_offsets(sources)
            found: list[ConsumerRecord[bytes, bytes]] = []
            while any([await consumer.position(source) < ends[source] for source in sources]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def with_admin(bootstrap: str, work: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    """The result of some work with an admin client."""

    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


async def _feed(
    bootstrap: str, topic: str, records: Iterable[tuple[str | None, bytes | None]], timestamp_ms: int | None
) -> int:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=20, compression_type="lz4", max_request_size=16 << 20
    )
    await producer.start()
    count = 0
    try:
        for key, value in records:
            await producer.send(topic, value, key=key.encode() if key else None, timestamp_ms=timestamp_ms)
            count += 1
    finally:
        await producer.stop()
    return count
