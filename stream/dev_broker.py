"""One Apache Kafka broker for tests, `make cluster` and the demo: the one given, a container, or a child process."""

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
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rules.errors import ConfigError, InvariantError, TransientError

KAFKA_VERSION = "4.3.1"
OLDEST_JAVA = 17
REPOSITORY = Path(__file__).parent.parent
POM = REPOSITORY / "deploy/dev/pom.xml"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
FETCH_TIMEOUT_S = 600

_JVM_FLAGS = ["-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
_BROKER_ID = 1
_METADATA_KEY, _METADATA_VERSION = 3, 4

# The kernel kills the child with its parent (prctl 1 = PR_SET_PDEATHSIG, 9 = SIGKILL); exec keeps the process id.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

# "Parent" means the thread that started the child, so one thread that lives as long as we do starts them all.
_LAUNCHER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dev-server-launcher")

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
    """A running Kafka broker: where it is, how we came by it ("given", "container" or "java"), and its end."""

    bootstrap: str
    how: str

    def stop(self) -> None:
        """Stop the broker, if we started it."""


@contextmanager
def dev_broker(work_dir: Path) -> Iterator[DevBroker]:
    """Give a broker that answers; one of ours stops at the end. A native one keeps everything inside `work_dir`.

    Raises:
        ConfigError: nothing here can run a broker; the message says what to install.
        TransientError: the broker did not answer in time.
    """
    broker = _choose_broker(work_dir)
    try:
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


def free_ports(count: int) -> list[int]:
    """Different free ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ChildServer:
    """A server in a child process, which on Linux the kernel kills when we die.

    `command` starts it in `cwd`, its output goes to `folder`/out.log, and `is_ready` says whether it answers.
    """

    def __init__(self, name: str, command: list[str], folder: Path, cwd: Path, is_ready: Callable[[], bool]) -> None:
        self._name = name
        self._command = command
        self._folder = folder
        self._cwd = cwd
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise TransientError(f"{self._name} is not running: call start()")
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it answers; nothing happens when it runs already.

        Raises:
            TransientError: it ended, or did not answer within START_TIMEOUT_S; the message has the end of its log.
        """
        if self._process is not None and self._process.poll() is None:
            return
        with (self._folder / "out.log").open("ab") as out:
            self._process = _LAUNCHER.submit(
                subprocess.Popen,
                _tied_to_us(self._command),
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            ).result()
        try:
            wait_until_ready(self._name, self._is_ready, self._complaint)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the process with SIGTERM, or SIGKILL when it needs longer than STOP_TIMEOUT_S."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would; `start` brings it back with its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _complaint(self) -> str | None:
        if self._process is None or self._process.poll() is None:
            return None
        return f"ended with exit code {self._process.returncode}:\n{_last_lines(self._folder)}"


def wait_until_ready(
    name: str, is_ready: Callable[[], bool], complaint: Callable[[], str | None] = lambda: None
) -> None:
    """Return when `is_ready` says yes.

    Raises:
        TransientError: `complaint` had something to say, or START_TIMEOUT_S went by.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready():
        if problem := complaint():
            raise TransientError(f"{name} {problem}")
        if time.monotonic() > deadline:
            raise TransientError(f"{name} did not answer within {START_TIMEOUT_S} s")
        time.sleep(0.05)


class GivenBroker:
    """A broker that somebody else runs."""

    how: str = "given"

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

    def __init__(self) -> None:
        from testcontainers.core.container import DockerContainer

        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        # Any: testcontainers' port type knows no address, but the Docker client does.
        self._container: Any = DockerContainer(f"apache/kafka:{KAFKA_VERSION}")
        self._container.ports[f"{port}/tcp"] = ("127.0.0.1", port)
        for name, value in _broker_settings(port, controller_port, bind="0.0.0.0").items():
            self._container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
        self._container.start()
        try:
            wait_until_ready("the Kafka container", lambda: _answers("127.0.0.1", port))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove the container."""
        self._container.stop()


class JavaBroker(ChildServer):
    """A broker in a child process on loopback, with its settings, data and logs in a new folder of `work_dir`."""

    how: str = "java"

    def __init__(self, java: str, jars: Path, work_dir: Path) -> None:
        work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="kafka-", dir=work_dir.resolve()))
        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        settings = _broker_settings(port, controller_port, bind="127.0.0.1") | {"log.dirs": str(folder / "data")}
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log4j = folder / "log4j2.properties"
        log4j.write_text(_LOG4J.format(log_path=folder / "broker.log"))
        self._jvm = [java, *_JVM_FLAGS, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{jars}/*"]
        self._format(properties)
        command = [*self._jvm, "kafka.Kafka", str(properties)]
        super().__init__("the Kafka broker", command, folder, folder, lambda: _answers("127.0.0.1", port))

    def _format(self, properties: Path) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
        if result.returncode != 0:
            raise InvariantError(f"{properties}: Kafka can't format its storage: {result.stdout}{result.stderr}")


def _choose_broker(work_dir: Path) -> DevBroker:
    if bootstrap := os.environ.get("EPICENTER_TEST_KAFKA"):
        return GivenBroker(bootstrap)
    if docker_answers():
        return ContainerBroker()
    broker = JavaBroker(_find_java(), _find_jars(), work_dir)
    broker.start()
    return broker


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
    """The folder with the jars, fetched by Maven when it is missing."""
    given = os.environ.get("EPICENTER_KAFKA_LIB")
    lib = Path(given) if given else Path.home() / f".cache/epicenter/kafka-{KAFKA_VERSION}/lib"
    if _has_jars(lib):
        return lib
    maven = shutil.which("mvn")
    if maven is None or not POM.exists():
        raise _nothing_to_run(f"{lib} holds no Kafka jars and mvn is not on PATH")
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
            raise ConfigError([f"{lib}: is in the way of the Kafka jars: {error.strerror}; move it away"]) from error


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


def _tied_to_us(command: list[str]) -> list[str]:
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def _any_answers(bootstrap: str) -> bool:
    addresses = (address.split(":") for address in bootstrap.split(","))
    return any(_answers(host, int(port)) for host, port in addresses)


def _answers(host: str, port: int) -> bool:
    """Whether a broker answers a metadata request with at least one broker that takes requests."""
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


def _last_lines(folder: Path, count: int = 20) -> str:
    lines: list[str] = []
    for path in sorted(folder.glob("*.log")):
        lines += path.read_text(errors="replace").splitlines()[-count:]
    return "\n".join(lines)
