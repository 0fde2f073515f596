"""Progress bars: on a terminal's standard error with rate and time left, and never in piped output."""

from __future__ import annotations

import gzip
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.logs import kernel

COMMAND = Path(sys.executable).with_name("epicenter")
AT_ONCE = """
import sys
from epicenter.stream.cli.main import main
from epicenter.stream.cli.text import terminal
terminal.PATIENCE_S = -1
main()
"""
"""Draws a bar for what takes no second too."""

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kern.log").write_bytes(kernel("n1", 1, XID) + b"\n")
    return tmp_path / "logs"


def on_a_terminal(command: list[object], stdout: Path) -> str:
    """What a terminal gets as standard error, while standard output goes to a file."""
    leader, follower = pty.openpty()
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", "COLUMNS": "100"}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    with stdout.open("wb") as file:
        ran = subprocess.Popen([str(word) for word in command], stdout=file, stderr=follower, env=environment)
    os.close(follower)
    shown = b""
    while part := _read(leader):
        shown += part
    os.close(leader)
    assert ran.wait(60) == 0
    return shown.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65_536)
    except OSError:
        return b""


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("command", [["replay"], ["match"], ["triage"], ["run", "--once", "--data-dir", "store"]])
def test_bar_is_on_the_terminal_and_not_in_the_file(command: list[str], logs: Path, tmp_path: Path) -> None:
    options = [tmp_path / word if word == "store" else word for word in command]
    shown = plain(on_a_terminal([sys.executable, "-c", AT_ONCE, *options, logs], tmp_path / "out"))
    assert re.search(r"reading .*\d+/\d+ \w*bytes .*:--|reading .*\d+/\d+ \w*bytes .*\d:\d\d", shown)
    out = (tmp_path / "out").read_text()
    assert out and "reading" not in out and "\x1b" not in out


def test_bar_of_packed_logs_counts_their_packed_bytes(logs: Path, tmp_path: Path) -> None:
    packed = gzip.compress((logs / "kern.log").read_bytes() * 50_000)
    (logs / "kern.log").write_bytes(packed)
    shown = plain(on_a_terminal([sys.executable, "-c", AT_ONCE, "match", logs / "kern.log"], tmp_path / "out"))
    assert f"{len(packed) / 1000:.1f}/{len(packed) / 1000:.1f} kB" in shown


def test_what_takes_no_second_shows_no_bar(logs: Path, tmp_path: Path) -> None:
    assert "reading" not in plain(on_a_terminal([COMMAND, "match", logs], tmp_path / "out"))


@pytest.mark.parametrize("command", ["replay", "match", "triage"])
def test_pipes_get_no_bar(command: str, logs: Path) -> None:
    ran = subprocess.run([COMMAND, command, logs], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert "reading" not in ran.stdout + ran.stderr and "\x1b" not in ran.stdout + ran.stderr
