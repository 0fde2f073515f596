"""On a signal every long-running process ends within ten seconds, even with hanging peers, and loses nothing."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from deploy.dev.process import EPICENTER
from epicenter.stream.process.shutdown import WITHIN_S
from tests.support.cluster import Cluster
from tests.support.logs import kernel
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

PROMISED_S = 10.0
SLOW_MACHINE_S = 5.0
"""The deadline is a second before that; what Python and the kernel do after it takes longer under load."""

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


class Hanging:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(120)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/epicenter"
        self._connections: list[socket.socket] = []

    def wait_for_connection(self) -> None:
        self._connections.append(self._listening.accept()[0])

    def close(self) -> None:
        for open_socket in (self._listening, *self._connections):
            open_socket.close()


@contextmanager
def hanging() -> Iterator[Hanging]:
    server = Hanging()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def started(*arguments: object, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*EPICENTER, *map(str, arguments)], stderr=subprocess.PIPE, env=environment(**env))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def environment(**env: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"} | {f"EPICENTER_{name}": env[name] for name in env}


def end_in_time(*processes: subprocess.Popen[bytes]) -> None:
    begun_s = monotonic()
    for process in processes:
        process.send_signal(signal.SIGINT)
    assert [process.wait(PROMISED_S + 50) for process in processes] == [0 for _ in processes]
    assert monotonic() - begun_s < PROMISED_S + SLOW_MACHINE_S


@pytest.mark.parametrize("command", [("run", "-"), ("page", "--port", 0)], ids=["run", "page"])
def test_a_second_signal_ends_a_start_with_a_hanging_store_at_once(command: tuple[object, ...], tmp_path: Path) -> None:
    with hanging() as store, started(*command, STORE=store.url, DATA_DIR=str(tmp_path)) as process:
        store.wait_for_connection()
        process.terminate()
        begun_s = monotonic()
        eventually(lambda: process.poll() is not None or process.terminate(), 60, "the second signal ends it at once")
        assert monotonic() - begun_s < WITHIN_S, "without waiting for the deadline"
        assert process.returncode == 128 + signal.SIGTERM


def test_run_and_worker_end_in_time_with_hanging_peers_and_the_next_worker_delivers(
    clusters: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = clusters(MATCH_PARTITIONS="1", RAW_PARTITIONS="1")
    (tmp_path / "kern.log").write_bytes(kernel("n1", 25, XID) + b"\n")
    with hanging() as store, hanging() as target, hanging() as target_of_run:
        follow = ("run", tmp_path / "kern.log", "--data-dir", tmp_path / "data", "--page-port", 0)
        with started(*follow, WEBHOOK_URL=target_of_run.url) as run:
            worker = cluster.start_worker(STORE=store.url, WEBHOOK_URL=target.url, LOG_FORMAT="json")
            cluster.feed([("n0", kernel("n0", 1, "eth0: Link is Up"))])
            eventually(lambda: worker.metric("epicenter_records_total"), 60, "it reads")
            cluster.feed([("n1", kernel("n1", 25, XID)), ("n1", kernel("n1", 95, "eth0: Link is Up"))])
            for peer in (store, target, target_of_run):
                peer.wait_for_connection()
            end_in_time(run, worker.process)
    lines = [json.loads(line) for line in worker.log.read_text().splitlines()]
    assert "operator_actions_unread" in [line.get("event") for line in lines]
    with Receiver(target.port).listening() as receiver:
        cluster.start_worker(WEBHOOK_URL=receiver.url)
        eventually(lambda: receiver.titles, 60, "the notification by the next worker")
    eventually(
        lambda: [incident["class"] for incident in cluster.incidents()] == ["xid-79"], 60, "the incident in the store"
    )
