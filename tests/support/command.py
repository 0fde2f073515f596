"""Runs the console command inside the test's process. Tests of start and shutdown need a real process."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

import pytest

from epicenter.stream.cli.main import main
from epicenter.stream.process.shutdown import SIGNALS


def epicenter(*arguments: object, env: Mapping[str, str] | None = None) -> CompletedProcess[bytes]:
    """What `epicenter …` prints and its exit code; `env` is its whole environment (ours when left out).

    Only in the main thread: the output, the environment and the signals of the process are the command's meanwhile.
    """
    words = ["epicenter", *map(str, arguments)]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(sys, "argv", words)
        for name in () if env is None else os.environ.keys() - env.keys():
            patch.delenv(name)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        for manager in (redirect_stdout(out), redirect_stderr(err), _restored_signals()):
            stack.enter_context(manager)
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        return CompletedProcess(words, code, out.buffer.getvalue(), err.buffer.getvalue())


@contextmanager
def _restored_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
