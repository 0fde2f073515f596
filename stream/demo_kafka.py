"""`epicenter demo --kafka`: the same simulated cluster through a real broker and a Faust worker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, time_ns
from typing import Final

import msgspec
from aiokafka import AIOKafkaConsumer

from ingest.collect.source import Sources
from ingest.producer import RawProducer
from rules.errors import TransientError
from rules.model import NS_PER_S, Incident
from stream.commands import Announcer, hostname
from stream.dev_broker import dev_broker
from stream.dev_process import EPICENTER, STOP_TIMEOUT_S, free_ports
from stream.ending import ENDING, run_unless_told_to_end
from stream.kafka_security import client_arguments
from stream.log_lines import say
from stream.settings import Settings
from stream.topics import TopicNames, make_topics

LATENESS_NS: Final = 15 * NS_PER_S
QUIET_S: Final = 10.0
LONGEST_S: Final = 120.0
FOR_THE_BROKER_S: Final = 4.0


def follow_through_kafka(settings: Settings, logs: Path, write: Callable[..., object]) -> dict[str, Incident]:
    """Write, ship, scan, correlate; the incidents, once nothing more comes."""
    with dev_broker(settings.data_dir / "kafka") as broker:
        say(f"Kafka: {broker.how}, {broker.bootstrap}")
        inside = settings.model_copy(
            update={"kafka": broker.bootstrap, "lateness_ns": LATENESS_NS, "web_port": free_ports(1)[0]}
        )
        make_topics(inside)
        with _worker(inside) as worker:
            say(f"worker: process {worker.pid}, http://{inside.web_host}:{inside.web_port}/metrics")
            return run_unless_told_to_end(_ship_and_watch(inside, logs, write, worker))


@contextmanager
def _worker(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    given = {
        "KAFKA": settings.kafka,
        "DATA_DIR": settings.data_dir,
        "WEB_PORT": settings.web_port,
        "LATENESS": f"{settings.lateness_ns // NS_PER_S}s",
    }
    env = {**os.environ, **{f"EPICENTER_{name}": str(value) for name, value in given.items()}}
    process = subprocess.Popen([*EPICENTER, "worker"], env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ENDING.left_s(STOP_TIMEOUT_S, FOR_THE_BROKER_S))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _ship_and_watch(
    settings: Settings, logs: Path, write: Callable[..., object], worker: subprocess.Popen[bytes]
) -> dict[str, Incident]:
    announcer, done = Announcer(as_json=False, in_full=False), threading.Event()
    writer = threading.Thread(target=lambda: write(wait=lambda length_s: done.wait(length_s) and None), name="cluster")
    writer.start()
    shipper = asyncio.create_task(_ship(settings, logs))
    try:
        await _watch(settings, announcer, writer, worker, shipper)
    finally:
        done.set()
        writer.join()
        shipper.cancel()
    return announcer.newest


async def _ship(settings: Settings, logs: Path) -> None:
    """Follow the files, as a sidecar on every node would."""
    sources = Sources([str(logs)], hostname(), follow=True)
    async with RawProducer(settings.raw_topic, **client_arguments(settings)) as producer:
        while True:
            sources.look_for_new_files()
            read = ((source, source.read(time_ns())) for source in sources.all())
            await producer.send((Path(source.name).parent.name.encode(), batch) for source, batch in read if batch)
            await asyncio.sleep(0.05)


async def _watch(
    settings: Settings,
    announcer: Announcer,
    writer: threading.Thread,
    worker: subprocess.Popen[bytes],
    shipper: asyncio.Task[None],
) -> None:
    """Show incidents until the cluster has ended and nothing came for a while."""
    topic = TopicNames(settings.prefix).incidents
    consumer = AIOKafkaConsumer(topic, **client_arguments(settings), auto_offset_reset="earliest")
    await consumer.start()
    begun_s = quiet_since_s = monotonic()
    lateness_s = settings.lateness_ns / NS_PER_S
    try:
        while monotonic() - begun_s < LONGEST_S:
            if worker.poll() is not None:
                raise TransientError(f"the worker ended with exit code {worker.returncode}; its messages are above")
            if shipper.done():
                shipper.result()
            fetched = await consumer.getmany(timeout_ms=500)
            for record in (record for records in fetched.values() for record in records):
                announcer(msgspec.json.decode(record.value or b"", type=Incident))
            if fetched or writer.is_alive():
                quiet_since_s = monotonic()
            if monotonic() - quiet_since_s > lateness_s + QUIET_S:
                return
    finally:
        await consumer.stop()
