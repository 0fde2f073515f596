"""The broker for tests: found or started, used, killed and restarted, and the message when nothing can run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.dev import broker as module
from deploy.dev.broker import DevBroker, JavaBroker, dev_broker
from deploy.dev.process import ChildServer
from epicenter.rules.errors import ConfigError, TransientError

LINES = [f"line {number}".encode() for number in range(100)]


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    work_dir = tmp_path_factory.mktemp("java-broker")
    try:
        java, jars = module._find_java(), module._find_jars()
    except ConfigError as error:
        if not module.docker_answers():
            raise
        pytest.skip(str(error))
    broker = JavaBroker(java, jars, work_dir, {})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home and a PATH with nothing in them, and no Docker engine; gives the home."""
    for name in ("EPICENTER_TEST_KAFKA", "EPICENTER_KAFKA_LIB", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    return tmp_path


@asynccontextmanager
async def producing(broker: DevBroker) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def make_topic(broker: DevBroker) -> str:
    topic = f"t-{uuid4().hex}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    assert response.topic_errors[0][1] == 0
    return topic


async def produce(broker: DevBroker, topic: str, lines: list[bytes]) -> None:
    async with producing(broker) as producer:
        for line in lines:
            await producer.send(topic, line)
        await producer.flush()


async def consume(broker: DevBroker, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.start()
    lines: list[bytes] = []
    try:
        while len(lines) < count:
            batches = await consumer.getmany(timeout_ms=10_000)
            assert batches, f"only {len(lines)} of {count} lines came"
            lines += [record.value for records in batches.values() for record in records]
    finally:
        await consumer.stop()
    return lines


@pytest.mark.integration
async def test_produced_lines_are_consumed(kafka: DevBroker) -> None:
    topic = await make_topic(kafka)
    await produce(kafka, topic, LINES)
    assert await consume(kafka, topic, len(LINES)) == LINES


@pytest.mark.integration
async def test_a_killed_broker_restarts_with_its_data(java_broker: JavaBroker) -> None:
    topic = await make_topic(java_broker)
    await produce(java_broker, topic, LINES)
    first_pid, bootstrap = java_broker.pid, java_broker.bootstrap

    java_broker.kill()
    with pytest.raises(TransientError, match="is not running"):
        _ = java_broker.pid
    java_broker.start()

    assert java_broker.pid != first_pid
    assert java_broker.bootstrap == bootstrap
    await produce(java_broker, topic, [b"after"])
    assert await consume(java_broker, topic, len(LINES) + 1) == [*LINES, b"after"]


@pytest.mark.integration
def test_a_given_broker_is_used_and_left_running(
    java_broker: JavaBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EPICENTER_TEST_KAFKA", java_broker.bootstrap)
    with dev_broker(tmp_path) as broker:
        assert (broker.how, broker.bootstrap) == ("external", java_broker.bootstrap)
    assert module._any_answers(java_broker.bootstrap)


def test_a_machine_without_docker_and_java_gets_one_message_with_what_to_install(bare_machine: Path) -> None:
    with pytest.raises(ConfigError) as caught, dev_broker(bare_machine):
        pass
    (problem,) = caught.value.problems
    assert "java is not on PATH" in problem
    assert "Install Docker, or Java 17 and Maven (apt-get install openjdk-17-jre-headless maven)" in problem


@pytest.mark.parametrize(
    ("version", "found"),
    [("11.0.2", "is older than 17"), ("17.0.15", "has no Kafka jars and mvn is not on PATH")],
)
def test_the_message_names_the_missing_program(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: str
) -> None:
    java = bare_machine / "java"
    java.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"{version}\"')\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(bare_machine))
    with pytest.raises(ConfigError, match=found), dev_broker(bare_machine):
        pass


def test_an_aborted_download_is_not_cached(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = bare_machine / "mvn"
    maven.write_text(f"#!{sys.executable}\nprint('connection lost')\nraise SystemExit(1)\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(bare_machine))
    with pytest.raises(ConfigError, match=r"Maven can't fetch Kafka .*: connection lost"):
        module._find_jars()
    assert [path.name for path in bare_machine.glob(".cache/epicenter/*/*")] == [".fetch.lock"]


def test_concurrent_callers_share_one_download(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = bare_machine / "runs"
    maven = bare_machine / "mvn"
    maven.write_text(f"""#!{sys.executable}
import pathlib, sys
(lib,) = [pathlib.Path(word.partition("=")[2]) for word in sys.argv if word.startswith("-DoutputDirectory=")]
lib.mkdir()
(lib / "kafka_2.13-{module.KAFKA_VERSION}.jar").touch()
with open({str(runs)!r}, "a") as runs:
    runs.write("run")
""")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(bare_machine))
    with ThreadPoolExecutor(4) as callers:
        libs = [caller.result() for caller in [callers.submit(module._find_jars) for _ in range(4)]]
    assert set(libs) == {bare_machine / f".cache/epicenter/kafka-{module.KAFKA_VERSION}/lib"}
    assert runs.read_text() == "run"


def test_an_address_without_a_port_is_refused(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_TEST_KAFKA", "localhost")
    with (
        pytest.raises(ConfigError, match="EPICENTER_TEST_KAFKA: 'localhost': write host:port"),
        dev_broker(bare_machine),
    ):
        pass


def test_a_server_that_ends_at_once_is_reported_with_its_last_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no disk')"]
    server = ChildServer("the server", command, tmp_path, tmp_path, lambda: False)
    with pytest.raises(TransientError, match="the server ended with exit code 1:\nno disk"):
        server.start()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties the processes on Linux only")
def test_a_server_dies_when_its_starter_is_killed(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from deploy.dev.process import ChildServer
folder = Path(sys.argv[1])
ready = folder / "ready"
sleeper = f"open({str(ready)!r}, 'w'); import signal; signal.pause()"
server = ChildServer("sleeper", [sys.executable, "-c", sleeper], folder, folder, ready.exists)
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    starter = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=module.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert starter.returncode == -9, starter.stderr
    module.wait_until_ready("the end of the server", lambda: not _is_running(int(starter.stdout)))


def _is_running(pid: int) -> bool:
    """Whether a process lives; one that ended and waits for its parent to notice does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
