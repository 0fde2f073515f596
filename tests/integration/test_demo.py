"""`epicenter demo` as a new user runs it: the cause is found, a history is there to compare it with, the page stays."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from deploy.dev.process import EPICENTER
from epicenter.stream.cli.demo_history import WEEK
from tests.support.waiting import eventually

PATIENCE_S = 60.0


def fetched(url: str) -> Any:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return json.loads(answer.read())


def test_the_demo_finds_the_cause_and_its_page_stays_until_it_is_stopped(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        command = [*EPICENTER, "demo", "--keep", "--nodes", "16", "--folder", str(tmp_path / "demo")]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        eventually(lambda: "the page stays" in log.read_text(), PATIENCE_S, "the end of the simulated logs")
        truth, found = (
            next(line for line in log.read_text().splitlines() if line.startswith(name)) for name in ("truth", "found")
        )
        assert found.removeprefix("found: ").startswith(truth.removeprefix("truth: ") + ",")

        url = next(line for line in log.read_text().splitlines() if line.startswith("incidents: ")).split()[1]
        incidents = fetched(f"{url}api/incidents")
        newest, *past = incidents
        assert (newest["status"], newest["class"]) == ("open", "xid-79")
        assert len(past) == len(WEEK) and {incident["status"] for incident in past} == {"resolved"}
        node = newest["root_cause"]["node"]
        assert sum(incident["root_cause"]["node"] == node for incident in past) == sum(
            failure.same_node for failure in WEEK
        )
    finally:
        demo.send_signal(signal.SIGINT)
        out, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0
    assert "xid-79, almost certain" in out


def test_a_demo_stopped_before_its_end_is_no_success(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        command = [*EPICENTER, "demo", "--nodes", "512", "--fault", "hang", "--folder", str(tmp_path / "demo")]
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        eventually(lambda: "incidents: " in log.read_text(), PATIENCE_S, "the page of the demo")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(PATIENCE_S)
    assert demo.returncode == 130
    assert "truth: " not in log.read_text()
