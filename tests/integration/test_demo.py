"""`epicenter demo` as somebody meets it: the cause is found, there is a past to compare it with, and the page stays."""

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


def asked(url: str) -> Any:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return json.loads(answer.read())


def test_the_demo_finds_the_cause_and_its_page_stays_until_it_is_stopped(tmp_path: Path) -> None:
    told = tmp_path / "stderr"
    with told.open("w") as stderr:
        command = [*EPICENTER, "demo", "--keep", "--nodes", "16", "--folder", str(tmp_path / "demo")]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        eventually(lambda: "the page stays" in told.read_text(), PATIENCE_S, "the cluster has written all")
        truth, found = (
            next(line for line in told.read_text().splitlines() if line.startswith(name)) for name in ("truth", "found")
        )
        assert found.removeprefix("found: ").startswith(truth.removeprefix("truth: ") + ",")

        url = next(line for line in told.read_text().splitlines() if line.startswith("incidents: ")).split()[1]
        incidents = asked(f"{url}api/incidents")
        newest, *past = incidents
        assert (newest["status"], newest["class"]) == ("open", "xid-79")
        assert len(past) == len(WEEK) and {one["status"] for one in past} == {"resolved"}
        node = newest["root_cause"]["node"]
        assert sum(one["root_cause"]["node"] == node for one in past) == sum(one.same_node for one in WEEK)
    finally:
        demo.send_signal(signal.SIGINT)
        out, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0
    assert "root cause  xid-79" in out
