"""Follows a document in an empty folder, and compares the printed output with the document."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from deploy.dev.process import EPICENTER
from tests.support.documents import tokens
from tests.support.waiting import COMPILE_S, eventually

MISTAKEN = "mistaken.yaml"
"""What is checked under this name has a mistake in it: the command ends with 1."""

STOPS_WITHIN_S = 120


class Reader:
    """Has a second terminal for a command that keeps running; call `stop` at the end."""

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
            if token.type == "inline" and (target := re.search(r"into `([^`\s]+\.\w+)`", token.content)):
                named = target[1]
            elif token.type == "fence" and named:
                (self._folder / named).write_text(token.content)
                named = ""
            elif token.type == "fence" and token.info == "sh":
                self._run(token.content)
            elif token.type == "fence" and token.info == "text":
                self._compare(token.content)

    def stop(self) -> None:
        """End the running command."""
        if self._process:
            self._process.terminate()
            assert self._process.wait(STOPS_WITHIN_S) == 0

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
        """Compare with all output of the last commands; without any, find the lines in the running command's output."""
        if self._printed:
            assert re.fullmatch(_pattern_of(shown), self._printed), self._printed
        else:
            lines = "(?s:.*)".join(map(_pattern_of, shown.splitlines()))
            eventually(lambda: re.search(lines, self._live.read_text()), COMPILE_S, shown)


def _pattern_of(shown: str) -> str:
    """`…` means anything within a line."""
    return re.escape(shown).replace("…", ".*")
