"""`make cluster` as a user runs it: an incident appears, a killed worker restarts, Ctrl-C leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.dev.process import free_ports, port_or_free
from tests.support.alertmanager import program_for
from tests.support.programs import unpacked_program
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration
START_S, PATIENCE_S, GOODBYE_S = 240.0, 120.0, 60.0
"""Eight seconds, five and six on a machine with nothing else to do; one that is busy with other tests needs more."""


class Running:
    """The command, its folders and its log."""

    def __init__(self, folder: Path):
        self.log = folder / "log"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        command = [sys.executable, "-m", "deploy.dev.cluster", "--nodes", "4", "--speed", "20"]
        path = os.pathsep.join([str(with_programs(folder / "bin")), os.environ["PATH"]])
        web_port, page_port = map(str, free_ports(2))
        ports = {"EPICENTER_WEB_PORT": web_port, "EPICENTER_PAGE_PORT": page_port}
        env = {**os.environ, **ports, "TMPDIR": str(self.temporary), "PATH": path}
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=env)

    def text(self) -> str:
        return self.log.read_text()

    def table(self) -> dict[str, tuple[str, int]]:
        """The address and the process id of each part."""
        lines = re.findall(r"^  (\w+) +(\S+).*, process (\d+)$", self.text(), re.MULTILINE)
        return {name: (where.rstrip(","), int(pid)) for name, where, pid in lines}


def with_programs(folder: Path) -> Path:
    """A folder with Prometheus and Alertmanager as if they were installed."""
    folder.mkdir()
    (folder / "prometheus").symlink_to(unpacked_program("prometheus", "prometheus"))
    alertmanager = folder / "alertmanager"
    alertmanager.write_text(f'#!/bin/sh\ncd {folder} && exec {program_for(folder)} "$@"\n')
    alertmanager.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("cluster"))
    try:
        eventually(lambda: "Ctrl-C" in running.text() or running.process.poll() is not None, START_S, "it has started")
        assert running.process.poll() is None, running.text()
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def fetched(url: str) -> Any:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_incident_appears_on_the_page(cluster: Running) -> None:
    page, _ = cluster.table()["page"]
    found = eventually(lambda: fetched(f"{page}/api/incidents"), PATIENCE_S, "an incident on the page")
    assert (found[0]["class"], found[0]["root_cause"]["node"][:4]) == ("xid-79", "node")


def test_alertmanager_is_notified_and_prometheus_scrapes_the_worker(cluster: Running) -> None:
    alertmanager, prometheus = (cluster.table()[name][0] for name in ("Alertmanager", "Prometheus"))
    alerts = eventually(lambda: fetched(f"{alertmanager}/api/v2/alerts"), PATIENCE_S, "an alert")
    assert {alert["labels"]["alertname"] for alert in alerts} == {"EpicenterIncident"}
    question = f"{prometheus}/api/v1/query?query=up%7Bjob%3D%22epicenter%22%7D"
    (up,) = eventually(lambda: fetched(question)["data"]["result"], PATIENCE_S, "the worker's metrics")
    assert up["value"][1] == "1"


def test_a_killed_worker_is_restarted(cluster: Running) -> None:
    worker, pid = cluster.table()["worker"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: "worker ended and was restarted" in cluster.text(), PATIENCE_S, "it is noticed")
    eventually(lambda: fetched(f"{worker}/healthz"), PATIENCE_S, "the worker answers again")


def test_ctrl_c_ends_everything_in_time(cluster: Running) -> None:
    pids = [pid for _, pid in cluster.table().values()]
    assert len(pids) == 7
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(GOODBYE_S) == 0
    assert [pid for pid in pids if is_alive(pid)] == []
    assert list(cluster.temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--keep", ".", "give a new or an empty folder"),
        ("--keep", "/proc/here", "give another folder"),
        ("--store", "postgres://me:hidden@x", "store DSN"),
    ],
)
def test_invalid_options_are_refused_at_once(tmp_path: Path, option: str, value: str, message: str) -> None:
    (tmp_path / "mine").touch()
    command = [sys.executable, "-m", "deploy.dev.cluster", option, value]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert not {"Traceback", "hidden"} & set(re.findall(r"\w+", done.stderr))


def test_a_port_in_use_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port_or_free(port) != port
    assert port_or_free(port) == port
