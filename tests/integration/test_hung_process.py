"""A process that is busy in a regular expression for good ends like any other: ten seconds after a signal to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

import pytest

from epicenter.stream.process.shutdown import TWICE_AFTER_S

pytestmark = pytest.mark.integration

PROMISED_S = 10.0
SLOW_MACHINE_S = 5.0

PROGRAM = """
import asyncio, re, sys
from epicenter.stream.process.shutdown import stop_on_signals

def hang():
    print("busy", flush=True)
    re.search("(a+)+b", "a" * 100)

async def work():
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    {work}

asyncio.run(work())
"""
WORK = {
    "thread": "await asyncio.to_thread(hang)",
    "main thread": "hang()",
}


@contextmanager
def running(work: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM.format(work=work)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == "busy\n"
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("where", WORK)
def test_a_process_that_hangs_in_an_expression_ends_in_time_and_shows_where(where: str) -> None:
    with running(WORK[where]) as process:
        begun_s = monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert monotonic() - begun_s < PROMISED_S + SLOW_MACHINE_S
    assert process.returncode == -signal.SIGKILL
    assert "in hang" in errors
    assert "killed, since it did not react to a signal to stop" in errors


def test_a_second_signal_ends_a_process_that_hangs_at_once() -> None:
    with running(WORK["thread"]) as process:
        begun_s = monotonic()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=2 * TWICE_AFTER_S)
        assert monotonic() - begun_s < PROMISED_S - 1


def test_a_process_that_stops_by_itself_leaves_nothing_behind() -> None:
    with running('print("busy", flush=True); await stop.wait()') as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PROMISED_S - 2)
    assert process.returncode == 0
    assert not errors
