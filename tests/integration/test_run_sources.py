"""`epicenter run` as a process whose sources fail while it follows them: it stays, and says so once."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_embedded import COMMAND, ENVIRONMENT, PATIENCE_S, append, documents, fetched, now, xid_line
from tests.support.privileges import bound_by_rights
from tests.support.waiting import COMPILE_S, eventually

pytestmark = pytest.mark.integration


class Run:
    """A run in the background, with its output so far."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        self.output.extend(iter(self.process.stderr.readline, ""))

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        return code

    @property
    def page(self) -> str:
        return next((line.split()[1] for line in self.output if line.startswith("incidents: ")), "")

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = fetched(f"{self.page}healthz")
        return answer

    def wait_for(self, number: int, what: str) -> None:
        """Until so many lines were read."""
        eventually(lambda: self.health()["records"] == number, PATIENCE_S, what)


@contextmanager
def running(*arguments: object, open_files: int = 0) -> Iterator[Run]:
    """`epicenter run` with a page, as a user whom the rights of files bind."""
    limit = ["prlimit", f"--nofile={open_files}", "--"] if open_files else []
    command = [*limit, *bound_by_rights(), COMMAND, "run", *map(str, arguments), "--page-port", "0"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    run = Run(subprocess.Popen(command, text=True, env=ENVIRONMENT, **pipes))  # type: ignore[call-overload]
    try:
        eventually(lambda: run.page or run.process.poll() is not None, COMPILE_S, "the page to be served")
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.stop()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    append(folder / "n1.log", kernel_line("n1"))
    append(folder / "n2.log", kernel_line("n2"))
    return folder


def kernel_line(node: str) -> str:
    return f"{now()} {node} kernel: [ 8000.000000] usb 1-1: new device\n"


def test_sources_that_fail_are_reported_once_each_way_and_no_line_is_lost(logs: Path, tmp_path: Path) -> None:
    with running(logs, "--data-dir", tmp_path / "data") as run:
        run.wait_for(2, "the first lines")
        (logs / "n1.log").rename(tmp_path / "aside")
        (logs / "n1.log").mkdir()
        eventually(lambda: run.health()["sources_failing"] == 1, PATIENCE_S, "the fault to be shown")
        assert run.health()["failing"] == [f"{logs}/n1.log: a folder is in its place"]
        append(logs / "n2.log", kernel_line("n2"))
        run.wait_for(3, "the other file to be read")
        append(tmp_path / "aside", kernel_line("n1"))
        (logs / "n1.log").rmdir()
        (tmp_path / "aside").rename(logs / "n1.log")
        run.wait_for(4, "the line that was written meanwhile")
        logs.chmod(0o600)
        eventually(lambda: run.health()["sources_failing"], PATIENCE_S, "the folder to fail")
        append_anyway(logs, "n1.log", kernel_line("n1"))
        run.wait_for(5, "the line that was written meanwhile")
        text = metrics(run)
        assert run.stop() == 0
    assert "epicenter_sources 2.0" in text
    assert "epicenter_source_failures_total 0" not in text
    output = [line for line in run.output if f"{logs}/n1.log" in line and "a folder is in its place" in line]
    assert len(output) == 1, "".join(run.output)
    assert any(line.startswith(f"read again: {logs}/n1.log, after ") for line in run.output)
    assert not any("Traceback" in line for line in run.output)


def append_anyway(folder: Path, name: str, text: str) -> None:
    folder.chmod(0o700)
    append(folder / name, text)


def metrics(run: Run) -> str:
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(f"{run.page}metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_an_incident_names_the_lines_that_were_not_read(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "epicenter.toml").write_text('allowed_lateness = "200ms"\n')
    with running(logs, "--data-dir", tmp_path / "data", "--config", tmp_path / "epicenter.toml") as run:
        run.wait_for(2, "the first lines")
        worker = {"message": "Traceback (most recent call last):", "host": "n1", "job": "7877", "time": now()}
        append(logs / "worker.jsonl", json.dumps(worker) + "\n")
        append(logs / "n1.log", xid_line("n1"))
        eventually(lambda: fetched(f"{run.page}api/incidents"), PATIENCE_S, "the incident")
        (logs / "n1.log").rename(tmp_path / "aside")
        (logs / "n1.log").mkdir()
        sentence = f"lines are not read: {logs}/n1.log: a folder is in its place"
        eventually(lambda: sentence in missing(run), PATIENCE_S, "the gap in the evidence")
        (logs / "n1.log").rmdir()
        (tmp_path / "aside").rename(logs / "n1.log")
        eventually(lambda: sentence not in missing(run), PATIENCE_S, "the gap to be closed")
        assert run.stop() == 0
    assert documents("incidents", "list", "--data-dir", tmp_path / "data")


def missing(run: Run) -> str:
    return json.dumps([incident["missing"] for incident in fetched(f"{run.page}api/incidents")])


def test_what_exists_and_can_not_be_read_at_the_start_is_waited_for(logs: Path, tmp_path: Path) -> None:
    (logs / "n1.log").chmod(0)
    with running(logs / "n1.log", "--data-dir", tmp_path / "data") as run:
        eventually(lambda: run.health()["sources_failing"] == 1, PATIENCE_S, "the fault to be shown")
        assert any("Permission denied: give this user the right to read it" in line for line in run.output)
        (logs / "n1.log").chmod(0o600)
        run.wait_for(1, "the line")
        assert run.stop() == 0


def test_a_path_that_does_not_exist_is_refused_at_once(logs: Path, tmp_path: Path) -> None:
    command = [COMMAND, "run", logs / "n1.log", logs / "n1.lgo", "--data-dir", tmp_path / "data"]
    refused = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=COMPILE_S)
    sentence = f"{logs}/n1.lgo: no such file or folder; to wait for it, give its folder"
    assert (refused.returncode, sentence in refused.stderr) == (66, True), refused.stderr


def test_more_files_than_may_be_open_are_followed(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(600):
        append(logs / f"{number}.log", kernel_line(f"n{number}"))
    with running(logs, "--data-dir", tmp_path / "data", open_files=400) as run:
        run.wait_for(600, "all of them")
        for number in range(600):
            append(logs / f"{number}.log", kernel_line(f"n{number}"))
        run.wait_for(1200, "the second line of each")
        assert run.health()["sources_failing"] == 0
        assert run.stop() == 0
