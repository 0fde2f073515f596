"""The shipped rsyslog configuration in a real rsyslog, into a real broker: nothing is lost, long lines are marked."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.admin import NewTopic
from aiokafka.partitioner import DefaultPartitioner

from deploy.dev.broker import OwnBroker, own_broker
from deploy.dev.process import EPICENTER
from epicenter.ingest.parse.envelope import parse
from epicenter.rules.model.records import Position, RawRecord
from epicenter.stream.kafka.topics import MAX_RAW_BYTES
from tests.support.cluster import with_admin
from tests.support.rsyslog import NODE, SHIPPED, Rsyslog
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

TOPIC = "logs.raw"
PARTITIONS = 4
WITHIN_S = 90.0
"""An upper bound; an idle machine needs seconds."""
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
UNUSUAL = [
    b'tab\there \x1b[31mred\x1b[0m a/b "quoted" back\\slash',
    "grüße 漢字".encode(),
    b"not UTF-8: \xff\xfe",
    b"  indented",
]
REMOTE_EXITED = "DistBackendError: NCCL error in: remote process exited or there was a network error"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    with own_broker(tmp_path_factory.mktemp("broker")) as broker:
        topic = NewTopic(TOPIC, PARTITIONS, 1, topic_configs={"max.message.bytes": str(MAX_RAW_BYTES)})
        with_admin(broker.bootstrap, lambda admin: admin.create_topics([topic]))
        yield broker


@pytest.fixture
def rsyslog(broker: OwnBroker, tmp_path: Path) -> Iterator[Rsyslog]:
    rsyslog = Rsyslog(tmp_path, broker.bootstrap, TOPIC)
    rsyslog.enable("slurm", "slurm-shared")
    kernel = f'input(type="imfile" file="{tmp_path}/kmsg*" tag="kernel" ruleset="kernel" addMetadata="off")\n'
    (tmp_path / "inputs/kernel.conf").write_text(kernel)
    yield rsyslog
    rsyslog.stop()


class Written:
    """A log file, and each line that was ever written into it."""

    def __init__(self, path: Path):
        self.path, self.lines = path, list[bytes]()
        self._file = path.open("ab")

    def add(self, *lines: bytes) -> None:
        self.lines += lines
        self._file.write(b"".join(line + b"\n" for line in lines))
        self._file.flush()

    def rotate(self) -> None:
        """As logrotate does: rename the file and create it again."""
        self._file.close()
        self.path.rename(self.path.with_suffix(f".{len(self.lines)}"))
        self._file = self.path.open("ab")

    def copy_and_truncate(self) -> None:
        shutil.copy(self.path, self.path.with_suffix(".copy"))
        self._file.truncate(0)


def numbered(name: str, count: int) -> list[bytes]:
    return [f"{name} step {number} loss=2.31".encode() for number in range(count)]


def test_nothing_is_lost_through_rotation_an_outage_and_a_restart(broker: OwnBroker, rsyslog: Rsyslog) -> None:
    rsyslog.check()
    folder = rsyslog.folder
    first, second = (Written(folder / f"logs/7877/{NODE}.rank{rank}.out") for rank in (0, 1))
    kernel, shared = Written(folder / "kmsg"), Written(folder / "shared/slurm-7901.out")
    files = {"rank0": first, "rank1": second, "kernel": kernel, "shared": shared}
    rsyslog.start()
    first.add(*UNUSUAL, b"L" * 100_000, *numbered("a", 200))
    second.add(*numbered("a", 200))
    kernel.add(*(f"usb 1-{number}: new device".encode() for number in range(50)), XID.encode())
    shared.add(b"SLURM_JOB_NODELIST=node[0001-0002]", *(f"{task}: hello".encode() for task in range(16)))
    arrived(broker, files)

    first.rotate()
    first.add(*numbered("b", 100))
    second.copy_and_truncate()
    second.add(*numbered("b", 100))
    arrived(broker, files)

    broker.kill()
    first.add(*numbered("c", 100))
    first.rotate()
    first.add(*numbered("d", 100))
    second.add(*numbered("c", 100))
    eventually(lambda: rsyslog.has_read(first.path), WITHIN_S, "the new file is read, so the renamed one was")
    rsyslog.stop()
    second.add(*numbered("d", 100))
    rsyslog.start()
    first.add(*numbered("e", 100))
    broker.start()
    second.add(REMOTE_EXITED.encode())
    records = arrived(broker, files)

    twice = sum((Counter(lines_by_file(records)[name]) - Counter(file.lines)).total() for name, file in files.items())
    assert twice <= 50, f"{twice} of {sum(len(file.lines) for file in files.values())} arrived twice"
    assert_identity(records)
    assert [incident["class"] for incident in replayed(records, folder)] == ["xid-79"]


def test_a_line_that_is_too_long_is_truncated_marked_and_matched(broker: OwnBroker, rsyslog: Rsyslog) -> None:
    file = Written(rsyslog.folder / f"logs/7877/{NODE}.rank7.out")
    rsyslog.start()
    for size in (2_000_000, 100_000_000):
        file.add(b"%d " % size + b"M" * size)
    file.add(b"and after it")

    def texts() -> list[str]:
        return [fields(record)["log"] for record in read(broker) if fields(record).get("rank") == "7"]

    found = eventually(lambda: lines if len(lines := texts()) == 3 else None, WITHIN_S, "three lines")
    cut = "[message truncated after 900000 bytes]"
    assert [(text.split()[0], text.endswith(cut)) for text in found] == [
        ("2000000", True),
        ("100000000", True),
        ("and", False),
    ]
    lines = rsyslog.folder / "long.jsonl"
    lines.write_bytes(b"".join(record.value for record in read(broker) if fields(record).get("rank") == "7"))
    matches = [json.loads(line) for line in epicenter("match", "--json", str(lines)).splitlines()]
    assert [(match["class"], match["line"]) for match in matches] == [("log-truncated", 1), ("log-truncated", 2)]


def test_rsyslog_accepts_every_shipped_input(tmp_path: Path) -> None:
    rsyslog = Rsyslog(tmp_path, "127.0.0.1:9", TOPIC)
    rsyslog.enable(*(file.stem for file in (SHIPPED / "inputs").glob("*.conf")))
    rsyslog.check()


def arrived(broker: OwnBroker, files: dict[str, Written]) -> list[ConsumerRecord[bytes, bytes]]:
    """All records, once every written line is among them."""

    def done() -> Any:
        records = read(broker)
        by_file = lines_by_file(records)
        return records if all(not set(file.lines) - set(by_file[name]) for name, file in files.items()) else None

    return list(eventually(done, WITHIN_S, "every line"))


def lines_by_file(records: list[ConsumerRecord[bytes, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {"rank0": [], "rank1": [], "kernel": [], "shared": []}
    for record in records:
        content = fields(record)
        name = "kernel" if content.get("source") == "kernel" else f"rank{content['rank']}" if "rank" in content else ""
        if "host" not in content:
            name = "shared"
        if name in found:
            found[name].append(content["log"].encode("utf-8", "surrogateescape"))
    return found


def fields(record: ConsumerRecord[bytes, bytes]) -> dict[str, Any]:
    return dict(json.loads(record.value.decode("utf-8", "surrogateescape")))


def assert_identity(records: list[ConsumerRecord[bytes, bytes]]) -> None:
    """Each record is of its node, job and rank, and on the partition that every murmur2 client would choose."""
    identities = set()
    for record in records:
        expected = DefaultPartitioner()(record.key, list(range(PARTITIONS)), list(range(PARTITIONS)))
        assert record.partition == expected
        position = Position(TOPIC, record.offset)
        event = parse(RawRecord(record.value, position, record.timestamp * 1_000_000, record.key), "default").event
        identities.add((event.cluster, event.node, event.source, event.job, event.rank, event.has_own_time))
    of_rsyslog = ("west", NODE, "", "", None, True)
    assert identities - {of_rsyslog} == {
        ("west", NODE, "worker", "7877", 0, True),
        ("west", NODE, "worker", "7877", 1, True),
        ("west", NODE, "kernel", "", None, True),
        ("west", "", "", "7901", None, True),
        *(("west", "", "", "7901", task, True) for task in range(16)),
    }


def replayed(records: list[ConsumerRecord[bytes, bytes]], folder: Path) -> list[dict[str, Any]]:
    recorded = folder / "recorded.jsonl"
    recorded.write_bytes(b"".join(record.value for record in records))
    return [json.loads(line) for line in epicenter("replay", "--json", str(recorded)).splitlines()]


def epicenter(*arguments: str) -> str:
    done = subprocess.run([*EPICENTER, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(broker: OwnBroker) -> list[ConsumerRecord[bytes, bytes]]:
    """All records that the topic has now."""
    return asyncio.run(_read(broker.bootstrap))


async def _read(bootstrap: str) -> list[ConsumerRecord[bytes, bytes]]:
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        records: list[ConsumerRecord[bytes, bytes]] = []
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            got = await consumer.getmany(timeout_ms=200)
            records += [record for some in got.values() for record in some]
        return records
    finally:
        await consumer.stop()
