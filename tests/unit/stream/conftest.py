"""The console command in the process of the test."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from epicenter.stream.cli.main import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    """The command in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epicenter", *map(str, arguments)])
        try:
            main()
            code: Any = 0
        except SystemExit as left:
            code = left.code or 0
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
