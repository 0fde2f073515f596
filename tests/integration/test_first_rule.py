"""docs/first-rule.md, command by command in one folder, prints what it shows there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.dev_process import EPICENTER
from tests.support.documents import tokens
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

DOCUMENT = "docs/first-rule.md"
MISTAKEN = "mistaken.yaml"
WITHIN_S = 120


class Reader:
    """Does in a folder what somebody does who reads the document, with a second terminal for what goes on."""

    def __init__(self, folder: Path):
        self._folder, self._live = folder, folder / "live.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = ""
        command = folder / "bin/epicenter"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.join(EPICENTER)} "$@"\n')
        command.chmod(0o755)
        self._env = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"}

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def run(self, block: str) -> None:
        if block.startswith("epicenter run "):
            with self._live.open("w") as output:
                self._process = subprocess.Popen(
                    f"exec {block}",
                    shell=True,
                    cwd=self._folder,
                    env=self._env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            self._printed = ""
            return
        done = subprocess.run(["sh", "-ec", block], cwd=self._folder, env=self._env, capture_output=True, text=True)
        assert done.returncode == (MISTAKEN in block), done.stderr
        self._printed = done.stdout + done.stderr

    def compare(self, shown: str) -> None:
        """The whole of what the last commands printed; where that is nothing, lines of what goes on, in their order."""
        if self._printed:
            assert re.fullmatch(pattern_of(shown), self._printed), self._printed
        else:
            lines = "(?s:.*)".join(map(pattern_of, shown.splitlines()))
            eventually(lambda: re.search(lines, self._live.read_text()), WITHIN_S, shown)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            assert self._process.wait(WITHIN_S) == 0


def pattern_of(shown: str) -> str:
    return re.escape(shown).replace("…", ".*")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    someone = Reader(tmp_path)
    yield someone
    someone.stop()


def test_every_step_prints_what_is_shown(reader: Reader) -> None:
    named = ""
    for token in tokens(DOCUMENT):
        if token.type == "inline" and (told := re.search(r"into `(\S+\.yaml)`", token.content)):
            named = told[1]
        if token.type != "fence":
            continue
        if token.info == "yaml" and named:
            reader.write(named, token.content)
            named = ""
        elif token.info == "sh":
            reader.run(token.content)
        elif token.info == "text":
            reader.compare(token.content)
