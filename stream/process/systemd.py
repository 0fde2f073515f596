"""Reports to systemd, where a unit of `Type=notify` runs this process: ready, alive, stopping.

A report is one datagram, as sd_notify(3) describes it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from time import monotonic


class Systemd:
    """Reports of one loop. Without systemd, nothing happens; a report that can't be sent is lost."""

    def __init__(self, environment: Mapping[str, str] = os.environ, clock_s: Callable[[], float] = monotonic):
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._every_s = _watchdog_s(environment) / 2
        self._clock_s = clock_s
        self._next_s = -inf

    def alive(self) -> None:
        """Call this in each round: it reports that the loop is alive, often enough for the unit's `WatchdogSec`."""
        now_s = self._clock_s()
        if now_s >= self._next_s:
            self._send("READY=1\nWATCHDOG=1" if self._next_s == -inf else "WATCHDOG=1")
            self._next_s = now_s + self._every_s

    def stopping(self) -> None:
        """Report that the process ends."""
        self._send("STOPPING=1")

    def _send(self, report: str) -> None:
        if self._address:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(report.encode(), self._address)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """After how long without a report systemd ends this process; infinite without a watchdog."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID") or str(os.getpid())
    is_ours = microseconds.isdecimal() and int(microseconds) and process == str(os.getpid())
    return int(microseconds) / 1e6 if is_ours else inf
