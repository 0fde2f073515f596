"""One Apache Kafka broker for tests and `make cluster`: an external one, a container, or a child process."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from platformdirs import user_cache_path

from deploy.dev.process import START_TIMEOUT_S, ChildServer, free_ports, wait_until_ready
from epicenter.rules.errors import ConfigError, InvariantError

KAFKA_VERSION = "4.3.1"
OLDEST_JAVA = 17
REPOSITORY = Path(__file__).parents[2]
POM = REPOSITORY / "deploy/dev/pom.xml"
FETCH_TIMEOUT_S = 600

_JVM_FLAGS = ["-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
_BROKER_ID = 1
_METADATA_KEY, _METADATA_VERSION = 3, 4

_LOG4J = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log_path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n
"""


class DevBroker(Protocol):
    """A running Kafka broker: its address, how it was started ("external", "container" or "java"), and `stop`."""

    bootstrap: str
    how: str

    def stop(self) -> None:
        """Stop the broker, if we started it."""


class OwnBroker(DevBroker, Protocol):
    """A broker that we started, which can be made to crash and come back."""

    def kill(self) -> None:
        """End it as a crash would."""

    def start(self) -> None:
        """Bring it back at the same address with its data, and wait until it answers."""


@contextmanager
def dev_broker(work_dir: Path, **settings: str) -> Iterator[DevBroker]:
    """Give the broker of EPICENTER_TEST_KAFKA, else start one, with `settings` (`_` for `.`).

    Raises:
        ConfigError: nothing here can run a broker; the message says what to install.
        TransientError: the broker did not answer in time.
    """
    if bootstrap := os.environ.get("EPICENTER_TEST_KAFKA"):
        yield ExternalBroker(bootstrap)
    else:
        with own_broker(work_dir, **settings) as broker:
            yield broker


@contextmanager
def own_broker(work_dir: Path, **settings: str) -> Iterator[OwnBroker]:
    """Start a broker and stop it at the end. A native one keeps everything inside `work_dir`. Raises as above."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    broker: OwnBroker = (
        ContainerBroker(more) if docker_answers() else JavaBroker(_find_java(), _find_jars(), work_dir, more)
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def docker_answers() -> bool:
    """Whether the Docker client library is installed and an engine answers it."""
    try:
        import docker  # type: ignore[import-untyped, unused-ignore]
        import testcontainers.core.container  # noqa: F401
    except ImportError:
        return False
    try:
        return bool(docker.from_env(timeout=2).ping())
    except (docker.errors.DockerException, OSError):
        return False


class ExternalBroker:
    """A broker that runs already."""

    how: str = "external"

    def __init__(self, bootstrap: str) -> None:
        if not re.fullmatch(r"[^:,]+:\d+(,[^:,]+:\d+)*", bootstrap):
            raise ConfigError([f"EPICENTER_TEST_KAFKA: {bootstrap!r}: write host:port"])
        self.bootstrap = bootstrap
        wait_until_ready(f"EPICENTER_TEST_KAFKA={bootstrap}", lambda: _any_answers(bootstrap))

    def stop(self) -> None:
        """Leave it running."""


class ContainerBroker:
    """A broker in a Docker container, listening on the same port number inside and on our loopback interface."""

    how: str = "container"

    def __init__(self, more: dict[str, str]) -> None:
        from testcontainers.core.container import DockerContainer

        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        # Any: testcontainers' port type knows no address, but the Docker client does.
        self._container: Any = DockerContainer(f"apache/kafka:{KAFKA_VERSION}")
        self._container.ports[f"{port}/tcp"] = ("127.0.0.1", port)
        for name, value in (_broker_settings(port, controller_port, bind="0.0.0.0") | more).items():
            self._container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
        self._port = port

    def start(self) -> None:
        """Start the container, or start it again after `kill`."""
        wrapped = self._container.get_wrapped_container()
        wrapped.start() if wrapped else self._container.start()
        wait_until_ready("the Kafka container", lambda: _answers("127.0.0.1", self._port))

    def kill(self) -> None:
        """Kill the process in the container."""
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        """Remove the container."""
        self._container.stop()


class JavaBroker(ChildServer):
    """A broker in a child process on loopback, with its settings, data and logs in a new folder of `work_dir`.

    `scram_users` exist from the start; their form is that of Kafka's StorageTool. `more` may name further listeners in
    `more.listeners`, each with its port.
    """

    how: str = "java"

    def __init__(
        self, java: str, jars: Path, work_dir: Path, more: dict[str, str], scram_users: Sequence[str] = ()
    ) -> None:
        work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="kafka-", dir=work_dir.resolve()))
        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        extra = {"log.dirs": str(folder / "data"), **more}
        settings = _with_listeners(_broker_settings(port, controller_port, bind="127.0.0.1"), extra)
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log4j = folder / "log4j2.properties"
        log4j.write_text(_LOG4J.format(log_path=folder / "broker.log"))
        self._jvm = [java, *_JVM_FLAGS, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{jars}/*"]
        self._format(properties, scram_users)
        command = [*self._jvm, "kafka.Kafka", str(properties)]
        super().__init__("the Kafka broker", command, folder, folder, lambda: _answers("127.0.0.1", port))

    def _format(self, properties: Path, scram_users: Sequence[str]) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        command += [argument for user in scram_users for argument in ("--add-scram", user)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
        if result.returncode != 0:
            raise InvariantError(f"{properties}: Kafka can't format its storage: {result.stdout}{result.stderr}")


def _find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise _nothing_to_run("java is not on PATH")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=START_TIMEOUT_S).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise _nothing_to_run(f"{java} is older than {OLDEST_JAVA}")
    return java


def _find_jars() -> Path:
    """The folder with the jars. Maven fetches them if it is missing."""
    configured = os.environ.get("EPICENTER_KAFKA_LIB")
    lib = Path(configured) if configured else user_cache_path("epicenter") / f"kafka-{KAFKA_VERSION}/lib"
    if _has_jars(lib):
        return lib
    maven = shutil.which("mvn")
    if maven is None or not POM.exists():
        raise _nothing_to_run(f"{lib} has no Kafka jars and mvn is not on PATH")
    lib.parent.mkdir(parents=True, exist_ok=True)
    with (lib.parent / ".fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _has_jars(lib):
            _fetch_jars(maven, lib)
    return lib


def _has_jars(lib: Path) -> bool:
    return (lib / f"kafka_2.13-{KAFKA_VERSION}.jar").exists()


def _fetch_jars(maven: str, lib: Path) -> None:
    print(f"fetching Kafka {KAFKA_VERSION} into {lib}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=lib.parent) as folder:
        fetched = Path(folder) / "lib"
        command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
        if result.returncode != 0 or not _has_jars(fetched):
            raise ConfigError([f"{POM}: Maven can't fetch Kafka {KAFKA_VERSION}: {result.stdout[-2000:].strip()}"])
        try:
            fetched.replace(lib)
        except OSError as error:
            raise ConfigError([f"{lib}: {error.strerror}: move it, so that the Kafka jars fit there"]) from error


def _nothing_to_run(found: str) -> ConfigError:
    return ConfigError(
        [
            f"no Kafka broker can run here: no Docker engine answers, and {found}. Install Docker, or Java "
            f"{OLDEST_JAVA} and Maven (apt-get install openjdk-17-jre-headless maven), or set EPICENTER_TEST_KAFKA "
            "to the address of a broker"
        ]
    )


def _broker_settings(port: int, controller_port: int, bind: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(_BROKER_ID),
        "controller.quorum.voters": f"{_BROKER_ID}@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "num.partitions": "4",
        "log.cleaner.dedupe.buffer.size": "8388608",
        # A killed broker may register again only when its last session is over: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


def _with_listeners(settings: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """The settings with more of them, and with the listeners of `more.listeners`: names, addresses, protocols."""
    added = [pair.split("=") for pair in more.get("more.listeners", "").split(",") if pair]
    joined = dict(settings)
    for name, address, protocol in added:
        joined["listeners"] += f",{name}://{address}"
        joined["advertised.listeners"] += f",{name}://{address}"
        joined["listener.security.protocol.map"] += f",{name}:{protocol}"
    return joined | {name: value for name, value in more.items() if name != "more.listeners"}


def _any_answers(bootstrap: str) -> bool:
    addresses = (address.split(":") for address in bootstrap.split(","))
    return any(_answers(host, int(port)) for host, port in addresses)


def _answers(host: str, port: int) -> bool:
    """Whether a broker answers a metadata request with at least one broker that accepts requests."""
    body = struct.pack(">hhihi?", _METADATA_KEY, _METADATA_VERSION, 1, -1, 0, False)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as reply:
                header = reply.read(16)
    except OSError:
        return False
    if len(header) < 16:
        return False
    _length, _correlation_id, _throttle_ms, brokers = struct.unpack(">iiii", header)
    return bool(brokers > 0)
