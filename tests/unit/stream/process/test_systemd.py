"""What systemd receives of a service, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from epicenter.stream.process.systemd import Systemd


@contextmanager
def receiving(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.setblocking(False)
        yield receiver


def received(receiver: socket.socket) -> list[str]:
    messages = []
    with suppress(BlockingIOError):
        while True:
            messages.append(receiver.recv(100).decode())
    return messages


@pytest.fixture(params=["path", "abstract"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The address to bind, and the same as systemd writes it."""
    name = f"epicenter-{uuid4()}"
    return (f"\0{name}", f"@{name}") if request.param == "abstract" else (f"{tmp_path}/notify", f"{tmp_path}/notify")


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_loop_is_ready_at_its_first_round_then_alive_twice_within_the_time_that_systemd_waits(
    place: tuple[str, str],
) -> None:
    address, shown = place
    clock = Clock()
    with receiving(address) as receiver:
        systemd = Systemd(
            {"NOTIFY_SOCKET": shown, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}, clock
        )
        assert received(receiver) == []
        systemd.alive()
        assert received(receiver) == ["READY=1\nWATCHDOG=1"]
        for _ in range(100):
            clock.now_s += 0.1
            systemd.alive()
        assert received(receiver) == ["WATCHDOG=1"] * 2
        systemd.stopping()
        assert received(receiver) == ["STOPPING=1"]


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}]
)
def test_without_a_watchdog_for_this_process_only_the_start_and_the_end_are_sent(
    more: dict[str, str], tmp_path: Path
) -> None:
    clock = Clock()
    with receiving(f"{tmp_path}/notify") as receiver:
        systemd = Systemd({"NOTIFY_SOCKET": f"{tmp_path}/notify", **more}, clock)
        for _ in range(3):
            systemd.alive()
            clock.now_s += 60
        assert received(receiver) == ["READY=1\nWATCHDOG=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_without_systemd_nothing_happens(environment: dict[str, str]) -> None:
    systemd = Systemd(environment)
    systemd.alive()
    systemd.stopping()


def test_a_full_socket_delays_no_loop(tmp_path: Path) -> None:
    clock = Clock()
    with receiving(f"{tmp_path}/notify"):
        systemd = Systemd({"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "1"}, clock)
        for _ in range(10_000):
            clock.now_s += 1
            systemd.alive()
