"""Somebody who does in an empty folder what a document says, and compares what is printed with what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from deploy.dev.process import EPICENTER
from tests.support.documents import tokens
from tests.support.waiting import eventually

MISTAKEN = "mistaken.yaml"
"""What is checked under this name has a mistake in it: the command ends with 1."""

WITHIN_S = 120


class Reader:
    """Has a second terminal for what goes on; stop it at the end."""

    def __init__(self, folder: Path):
        self._folder, self._live = folder, folder / "live.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = ""
        command = folder / "bin/epicenter"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.join(EPICENTER)} "$@"\n')
        command.chmod(0o755)
        self._env = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"}

    def follow(self, document: str) -> None:
        """Everything in order; a block after the words `into FILE` is written there, other snippets are passed over."""
        named = ""
        for token in tokens(document):
            if token.type == "inline" and (told := re.search(r"into `([^`\s]+\.\w+)`", token.content)):
                named = told[1]
            elif token.type == "fence" and named:
                (self._folder / named).write_text(token.content)
                named = ""
            elif token.type == "fence" and token.info == "sh":
                self._run(token.content)
            elif token.type == "fence" and token.info == "text":
                self._compare(token.content)

    def stop(self) -> None:
        """End what goes on."""
        if self._process:
            self._process.terminate()
            assert self._process.wait(WITHIN_S) == 0

    def _run(self, block: str) -> None:
        if block.startswith("epicenter run "):
            with self._live.open("w") as output:
                self._process = subprocess.Popen(
                    f"exec {block}", shell=True, cwd=self._folder, env=self._env, stdout=output, stderr=output
                )
            self._printed = ""
            return
        done = subprocess.run(["sh", "-ec", block], cwd=self._folder, env=self._env, capture_output=True, text=True)
        assert done.returncode == (MISTAKEN in block), done.stderr
        self._printed = done.stdout + done.stderr

    def _compare(self, shown: str) -> None:
        """The whole of what the last commands printed; where that is nothing, lines of what goes on, in their order."""
        if self._printed:
            assert re.fullmatch(_pattern_of(shown), self._printed), self._printed
        else:
            lines = "(?s:.*)".join(map(_pattern_of, shown.splitlines()))
            eventually(lambda: re.search(lines, self._live.read_text()), WITHIN_S, shown)


def _pattern_of(shown: str) -> str:
    """`…` stands for anything within a line."""
    return re.escape(shown).replace("…", ".*")
