"""A small process next to a long-running one: it ends what can't end itself, and imports nothing of epicenter.

A regular expression that takes forever holds Python's lock: no handler, thread or timer of its process runs any more.
The kernel still writes the numbers of signals into a pipe (`signal.set_wakeup_fd`), which this process reads.
"""

import os
import select
import signal
import sys
from contextlib import suppress
from time import monotonic, sleep

STOPS = {signal.SIGINT, signal.SIGTERM}
DUMP = signal.SIGUSR2
"""On this signal the guarded process writes where its threads are."""

DUMP_S = 0.1
MESSAGE = (
    "epicenter: killed, since it did not react to a signal to stop: the lines above show what it was doing. "
    "The next process repeats the work in progress\n"
)


def guard(pid: int, within_s: float, twice_after_s: float) -> None:
    """Kill the process `within_s` after its first signal to stop, or at a second one; return when it has ended."""
    stopped_s = float("inf")
    while monotonic() < stopped_s + within_s:
        is_ready, _, _ = select.select([0], [], [], within_s if stopped_s < float("inf") else None)
        signals = os.read(0, 64) if is_ready else b""
        if is_ready and not signals:
            return
        if STOPS.intersection(signals):
            if monotonic() > stopped_s + twice_after_s:
                break
            stopped_s = min(stopped_s, monotonic())
    _kill(pid)


def _kill(pid: int) -> None:
    """Unless the process has ended, and its number may be another's."""
    with suppress(ProcessLookupError):
        for number, wait_s in ((DUMP, DUMP_S), (signal.SIGKILL, 0.0)):
            if os.getppid() == pid:
                os.kill(pid, number)
                sleep(wait_s)
        sys.stderr.write(MESSAGE)


if __name__ == "__main__":
    guard(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
