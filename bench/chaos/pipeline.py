"""One pipeline on a real broker and a real store: fed window by window, attacked in between, settled at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from bench.chaos.feed import LATENESS_S, Record
from deploy.dev.broker import OwnBroker
from deploy.dev.clickhouse import DevClickHouse
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.messages import ProgressTick, decode
from epicenter.stream.kafka.topics import MAX_RAW_BYTES, TopicNames
from tests.support.cluster import Cluster, Worker
from tests.support.receiver import Receiver
from tests.support.small_disk import SmallDisk
from tests.support.waiting import eventually

SETTLES_WITHIN_S: Final = 150.0
STARTS_WITHIN_S: Final = 60.0
POLL_S: Final = 0.2
NO_BROKER: Final = 69
RAW_PARTITIONS, MATCH_PARTITIONS = 4, 2
SETTINGS: Final = {
    "ALLOWED_LATENESS": f"{LATENESS_S}s",
    "FETCH_RECORDS": "150",
    "SNAPSHOT_EVERY": "500ms",
    "RAW_PARTITIONS": str(RAW_PARTITIONS),
    "MATCH_PARTITIONS": str(MATCH_PARTITIONS),
}


class BrokenError(Exception):
    """An invariant that does not hold, in words."""


class Pipeline:
    """Separate topics, groups and a database. `account` has every record that the broker accepted, by its position."""

    def __init__(self, broker: OwnBroker, store: DevClickHouse, disk: SmallDisk, folder: Path):
        self.broker, self.store, self.disk = broker, store, disk
        self.receiver = Receiver()
        self._exit_stack = ExitStack()
        self._exit_stack.enter_context(self.receiver.listening())
        settings = SETTINGS | {"WEBHOOK_URL": self.receiver.url}
        self.cluster = Cluster(broker.bootstrap, store.dsn, folder, **settings)
        self.account: dict[tuple[str, int], bytes | None] = {}
        self.workers: list[Worker] = []
        self.names = TopicNames(self.cluster.name)
        asyncio.run(self._retain_old_records())

    def stop(self) -> None:
        """End this pipeline's parts; workers are killed, because nothing is left for them to do."""
        for worker in self.workers:
            worker.kill()
        self.cluster.stop()
        self._exit_stack.close()

    def start_worker(self) -> Worker:
        """One more worker."""
        self.workers.append(self.cluster.start_worker())
        return self.workers[-1]

    def start(self, workers: int) -> None:
        """Start workers, and wait until they have all partitions among them."""
        for _ in range(workers):
            self.start_worker()
        eventually(
            lambda: self.assigned() == [RAW_PARTITIONS // workers] * workers, STARTS_WITHIN_S, "a fair share each"
        )

    def assigned(self) -> list[float]:
        """How many raw partitions each worker has."""
        return [worker.metric("epicenter_partitions") for worker in self.workers]

    def remove(self, worker: Worker, kill: bool) -> None:
        """Kill a worker, or stop it with SIGTERM."""
        self.workers.remove(worker)
        worker.kill() if kill else worker.process.terminate()

    def revive(self) -> None:
        """Restart workers that found no broker at their start, as a supervisor does.

        Raises:
            BrokenError: one has ended for another reason.
        """
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            if worker.process.returncode != NO_BROKER:
                raise BrokenError(f"a worker ended with {worker.process.returncode}: {_tail(worker.log)}")
            self.workers.remove(worker)
            self.start_worker()

    async def feed(self, groups: Sequence[Sequence[Record]], between: Callable[[int], Awaitable[None]]) -> None:
        """Send group by group; `between` gets the number of the group that was just sent."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.broker.bootstrap, acks="all", linger_ms=5, max_request_size=MAX_RAW_BYTES
        )
        await producer.start()
        try:
            for number, group in enumerate(groups):
                await self._send(producer, group)
                await between(number)
        finally:
            await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, group: Sequence[Record]) -> None:
        sent = [
            (
                record,
                await producer.send(
                    self.cluster.raw_topic, record.value, record.key.encode(), None, record.written_ns // 10**6
                ),
            )
            for record in group
        ]
        for record, waiting in sent:
            sent_to = await waiting
            self.account[f"{sent_to.topic}/{sent_to.partition}", sent_to.offset] = record.value

    async def settle(self) -> None:
        """Wait until everything fed is processed, and the watermark has reached the end.

        Raises:
            BrokenError: it does not.
        """
        end_s = time.monotonic() + SETTLES_WITHIN_S
        names = self.names
        raw = _partitions(self.cluster.raw_topic, RAW_PARTITIONS)
        incidents, signals = (_partitions(name, MATCH_PARTITIONS) for name in (names.incidents, names.signals))
        dead_letters = _partitions(names.dead_letters, 1)
        async with _Watch(self.broker.bootstrap) as watch:
            await self._passed(watch, names.match_group, await watch.ends(raw), end_s)
            matches = _partitions(names.matches, MATCH_PARTITIONS)
            ticks = {partition: await self._last_tick(watch, partition, end_s) for partition in matches}
            await self._passed(watch, names.correlate_group, ticks, end_s)
            await self._passed(watch, names.notify_group, await watch.ends(incidents), end_s)
            rest = await watch.ends(incidents + signals + dead_letters)
            await self._passed(watch, names.store_group, ticks | rest, end_s)

    async def _passed(self, watch: _Watch, group: str, ends: dict[TopicPartition, int], end_s: float) -> None:
        while True:
            read = await watch.committed(group)
            behind = {
                partition: (read.get(partition, 0), end)
                for partition, end in ends.items()
                if read.get(partition, 0) < end
            }
            if not behind:
                return
            await self._wait(f"group {group} is behind: {behind}", end_s)

    async def _last_tick(self, watch: _Watch, matches: TopicPartition, end_s: float) -> int:
        """The offset after a tick at which the watermark is final."""
        while True:
            for offset, value in await watch.tail(matches):
                tick = decode(value)
                if (
                    isinstance(tick, ProgressTick)
                    and not tick.lagging
                    and tick.elapsed_ns > (LATENESS_S + 1) * NS_PER_S
                ):
                    return offset + 1
            await self._wait(f"{matches}: no tick with the final watermark", end_s)

    async def _wait(self, what: str, end_s: float) -> None:
        self.revive()
        if time.monotonic() > end_s:
            raise BrokenError(f"not settled within {SETTLES_WITHIN_S} s: {what}; {_tail(self.workers[-1].log)}")
        await asyncio.sleep(POLL_S)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the store."""
        client = connect(self.cluster.store)
        try:
            return client.query(sql)
        finally:
            client.close()

    async def _retain_old_records(self) -> None:
        """Simulated times are old; the broker must not delete such records."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await admin.start()
        configs = {"retention.ms": "-1", "max.message.bytes": str(MAX_RAW_BYTES)}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.cluster.raw_topic, configs)])
        await admin.close()


class _Watch:
    """Watches the broker from outside every group, and asks again while the broker restarts."""

    def __init__(self, bootstrap: str):
        self._admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        self._consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")

    async def __aenter__(self) -> _Watch:
        await self._admin.start()
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()
        await self._admin.close()

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's offsets; none while they can't be had."""
        try:
            found = await self._admin.list_consumer_group_offsets(group)
        except KafkaError:
            return {}
        return {partition: found_offset.offset for partition, found_offset in found.items()}

    async def ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each partition."""
        return dict(await self._consumer.end_offsets(partitions))

    async def tail(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """The newest record or two."""
        self._consumer.assign([partition])
        end = (await self._consumer.end_offsets([partition]))[partition]
        self._consumer.seek(partition, max(0, end - 2))
        fetched = await self._consumer.getmany(partition, timeout_ms=1000)
        return [(record.offset, record.value) for records in fetched.values() for record in records]


def _partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def digest(value: bytes | None) -> str:
    """A short name for a long record in messages."""
    return blake2b(value or b"", digest_size=8).hexdigest()


def _tail(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
