"""Shutdown of long-running processes: the first signal ends them within ten seconds, a second one at once.

The first signal sets one deadline, and every wait during shutdown asks how long it may take. Work that exceeds it is
abandoned. Nothing is lost: undelivered notifications stay in the journal, uncommitted records stay in Kafka, and the
next process or another worker repeats the work, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from epicenter.stream.process import shutdown_guard

WITHIN_S: Final = 9.0
"""Less than the promised ten seconds, which include what happens after it."""

FOR_THE_STORE_S: Final = 2.5
FOR_TARGETS_S: Final = 4.0
"""Reserved for what follows deliveries (journals, consumer groups) and writes to the store."""

FLUSH_S: Final = 0.5
GUARD_RESERVE_S: Final = 0.1
"""A process that can still exit by itself does so this much earlier than it is killed."""

FOR_THE_INTERPRETER_S: Final = 3.0
"""What Python may take to exit on a busy machine; no thread of ours, nor a handler, runs then."""

TWICE_AFTER_S: Final = 0.5
"""Terminals and `timeout` send the same signal to a process and to its group: that is one request."""

STDERR: Final = 2
EXIT_INTERRUPTED: Final = 130
"""As a shell counts it: 128 and the number of SIGINT."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
Result = TypeVar("Result")


class Shutdown:
    """The shutdown deadline of this process; there is none before the first request."""

    def __init__(self, leave: Callable[[int], Any] = os._exit, within_s: float = WITHIN_S):
        self._leave = leave
        self._within_s = within_s
        self._requested_s = inf

    def request(self, number: int = signal.SIGTERM, late_exit_code: int = 0) -> None:
        """Set the deadline, after which the process exits with `late_exit_code`; a second request exits at once."""
        if self._requested_s == inf:
            self._requested_s = monotonic()
            self.last = threading.Timer(self._within_s, self._leave_with, (late_exit_code, self._log_giving_up))
            self.last.daemon = True
            self.last.start()
        elif monotonic() - self._requested_s > TWICE_AFTER_S:
            self._leave_with(128 + number)

    def left_s(self, most_s: float, reserve_s: float = 0.0) -> float:
        """Seconds that something may still take: at most `most_s`, and `reserve_s` before the deadline."""
        deadline_s = self._requested_s + self._within_s
        return most_s if deadline_s == inf else max(0.0, min(most_s, deadline_s - reserve_s - monotonic()))

    def leave_if_late(self, code: int) -> None:
        """The work is done: exit at once if Python's own way might exceed the deadline."""
        if self.left_s(FOR_THE_INTERPRETER_S) < FOR_THE_INTERPRETER_S:
            self._leave_with(code)

    def _log_giving_up(self) -> None:
        from epicenter.sinks.log import get_logger  # not at the top: every command imports this module, and few log

        detail = "the next process repeats the work in progress"
        get_logger(__name__).warning("shutdown_deadline_passed", within_s=self._within_s, detail=detail)

    def _leave_with(self, code: int, before_exit: Callable[[], None] = lambda: None) -> None:
        """Exit after flushing output for at most `FLUSH_S`: its reader may have stopped."""

        def finish() -> None:
            before_exit()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()

        finishing = threading.Thread(target=finish, daemon=True)
        finishing.start()
        finishing.join(FLUSH_S)
        self._leave(code)


SHUTDOWN: Final = Shutdown()


def stop_on_signals(stop: Callable[[], object], late_exit_code: int = 0) -> None:
    """On SIGINT or SIGTERM set the deadline and call `stop` on the running loop.

    A service has succeeded when it is stopped, at the deadline too; a command that owes a result has not.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _: object) -> None:
        SHUTDOWN.request(number, late_exit_code)
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop)

    for number in SIGNALS:
        signal.signal(number, on_signal)
    _start_guard()


@cache
def _start_guard() -> subprocess.Popen[bytes]:
    """The process that ends this one, should it be too busy to notice a signal."""
    faulthandler.register(shutdown_guard.DUMP, STDERR)
    arguments = (os.getpid(), WITHIN_S + FLUSH_S + GUARD_RESERVE_S, TWICE_AFTER_S)
    command = [sys.executable, "-I", "-S", shutdown_guard.__file__, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    assert process.stdin
    pipe = os.dup(process.stdin.fileno())
    process.stdin.close()
    os.set_blocking(pipe, False)
    signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
    return process


def _end_guard() -> None:
    """The process continues without it."""
    os.close(signal.set_wakeup_fd(-1))
    guard = _start_guard()
    guard.kill()
    guard.wait()
    _start_guard.cache_clear()


def exit_on_sigterm_as_pid_1() -> None:
    """Until `stop_on_signals`: process 1 of a container ignores signals without a handler."""
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


def run_until_signal(work: Coroutine[Any, Any, Result]) -> Result:
    """Run the work and return its result. A signal cancels it; its cleanup may take until the deadline.

    After the work, signals do what they did before it.

    Raises:
        KeyboardInterrupt: a signal cancelled it.
    """

    async def cancelled_on_signals() -> Result:
        task = asyncio.ensure_future(work)
        stop_on_signals(task.cancel, EXIT_INTERRUPTED)
        return await task

    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    try:
        result = asyncio.run(cancelled_on_signals())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    for number, handler in before:
        signal.signal(number, handler)
    _end_guard()
    return result
