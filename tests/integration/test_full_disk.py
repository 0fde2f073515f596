"""`epicenter run` while the disk of its data folder is full: a separate process with a small disk."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_embedded import COMMAND, ENVIRONMENT, PATIENCE_S, append, fetched, now, xid_line
from tests.support.receiver import Receiver
from tests.support.small_disk import SmallDisk, disk_of, on_own_disk, why_no_own_disk
from tests.support.waiting import COMPILE_S, eventually

pytestmark = pytest.mark.integration
DISK_BYTES = 128 << 20
FULL = "the disk of the store is full: free some space"


class Running:
    """A run with its own disk, a log that grows, and a webhook that gets its notifications."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, receiver: Receiver):
        self.process = process
        self.receiver = receiver
        self.log = folder / "logs" / "kern.log"
        self.errors = folder / "errors"
        self.disk: SmallDisk = disk_of(process, folder / "data")
        note = self.disk.folder / "page.url"
        self.page = eventually(lambda: note.exists() and note.read_text().split()[0], COMPILE_S, "its page")

    def incidents(self) -> list[dict[str, Any]]:
        """As the page shows them."""
        found: list[dict[str, Any]] = fetched(f"{self.page}api/incidents")
        return found

    def shows(self, *nodes: str) -> bool:
        """Whether the page has an incident of a lost GPU on each of these nodes."""
        return all([node] in [found["nodes"] for found in self.incidents()] for node in nodes)

    def has_notified(self, kind: str, beginning: str) -> bool:
        """Whether the webhook accepted a notification with such a title."""
        return any(title[0] == kind and title[1].startswith(beginning) for title in self.receiver.titles)

    def health(self) -> tuple[int, str]:
        """The status of /healthz, as number and in words."""
        try:
            return 200, fetched(f"{self.page}healthz")["status"]
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["status"]

    def stop(self) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    data, logs, config = folder / "data", folder / "logs", folder / "epicenter.toml"
    data.mkdir()
    logs.mkdir()
    if missing := why_no_own_disk(data):
        pytest.skip(missing)
    append(logs / "kern.log", xid_line("n1"))
    with Receiver().listening() as receiver, (folder / "errors").open("w") as errors:
        config.write_text(f'allowed_lateness = "200ms"\nwebhook_url = "{receiver.url}"\n')
        command = [COMMAND, "run", logs, "--data-dir", data, "--config", config, "--page-port", "0"]
        process = subprocess.Popen(
            on_own_disk(data, DISK_BYTES, command),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
            env=ENVIRONMENT,
        )
        try:
            yield Running(process, folder, receiver)
        finally:
            process.kill()
            process.wait()


def fail(run: Running, node: str) -> None:
    """A GPU is lost, and the job on its node stops."""
    append(run.log, xid_line(node))
    stopped = {"message": "Traceback (most recent call last):", "host": node, "job": f"job-{node}", "time": now()}
    append(run.log.with_name(f"{node}.jsonl"), json.dumps(stopped) + "\n")


def test_failures_are_notified_while_the_disk_is_full_and_stored_when_there_is_room(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        eventually(lambda: run.shows("n1") and run.has_notified("opened", "GPU has fallen"), PATIENCE_S, "the first")
        run.disk.fill()
        fail(run, "n2")
        eventually(lambda: run.has_notified("opened", "epicenter's data disk is full on "), PATIENCE_S, "word of it")
        eventually(lambda: "on n2" in str(run.receiver.titles), PATIENCE_S, "the failure on n2")
        status, problem = eventually(run.health, PATIENCE_S, "its health")
        assert (status, FULL in problem, "waiting in memory: " in problem) == (503, True, True)
        assert run.shows("n1") and not run.shows("n2")
        assert waiting_rows(run) > 0

        run.disk.free()
        eventually(lambda: run.shows("n1", "n2"), PATIENCE_S, "the failure on n2 on the page")
        eventually(lambda: run.has_notified("resolved", "epicenter's data disk is full"), PATIENCE_S, "the end of it")
        eventually(lambda: run.health() == (200, "ok"), PATIENCE_S, "a healthy run")
        assert waiting_rows(run) == 0
        (own,) = (found for found in run.incidents() if found["class"] == "disk-full")
        assert (own["status"], own["revision"]) == ("resolved", 2)
        assert "data disk is full" in text_of(f"{run.page}incidents/{own['incident_id']}")
        eventually(lambda: journal_has(run, "n2"), PATIENCE_S, "the journal to have the failure on n2")
        assert len(run.receiver.accepted) == len(set(run.receiver.accepted))
        assert run.stop() == 0
        errors = run.errors.read_text()
    assert "Traceback" not in errors
    for event in ("store_write_failed", "alert_journal_not_written", "alert_journal_written_again", "store_caught_up"):
        assert event in errors


def test_run_stopped_while_the_disk_is_full_reports_what_is_not_stored(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        eventually(lambda: run.shows("n1"), PATIENCE_S, "the first")
        run.disk.fill()
        fail(run, "n2")
        eventually(lambda: "on n2" in str(run.receiver.titles), PATIENCE_S, "the failure on n2")
        assert run.stop() == 69
        errors = run.errors.read_text()
    assert re.search(f"{FULL}; not stored: .* incidents, .* matches, .*; the next run on these logs", errors)
    assert "Traceback" not in errors


def waiting_rows(run: Running) -> float:
    (value,) = (line.split()[1] for line in text_of(f"{run.page}metrics").splitlines() if line.startswith(WAITING))
    return float(value)


WAITING = "epicenter_waiting_rows "


def journal_has(run: Running, node: str) -> bool:
    """Whether the journal file holds the incident of the node; its records have the incident's id as key."""
    (incident,) = (found for found in run.incidents() if found["nodes"] == [node])
    return f"incident/{incident['incident_id']}".encode() in (run.disk.folder / "alerts.sqlite").read_bytes()


def text_of(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return str(answer.read().decode())
