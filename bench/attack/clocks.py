"""A wall clock that steps by days: what a target could not take leaves after the back-off in real seconds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.attack.arena import Arena, Attack, Follower, append, must, off_bus, until
from tests.support.receiver import Receiver

DAY_S: Final = 86_400
SENT_WITHIN_S: Final = 90
"""After some failures the next attempt comes within 32 s; the rest is for a slow machine."""

FAILURES: Final = 3

_SHIM: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long *step_s;
__attribute__((constructor)) static void open_clock(void) {
  void *at = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, open(getenv("ATTACK_CLOCK"), O_RDONLY), 0);
  if (at != MAP_FAILED) step_s = at;
}
static long stepped(void) { return step_s ? *step_s : 0; }
int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, now);
  if (!result && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += stepped();
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  int result = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
  return result;
}
time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
"""
"""Adds the number in a file to the wall clock of a process, the store's engine included; monotonic clocks stay."""


class Clock:
    """The wall clock of the processes that are started with `env`. Needs a C compiler."""

    def __init__(self, folder: Path, step_s: int = 0):
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._file, self._step_s = folder / "clock", step_s
        self.step(0)
        self.env = {"LD_PRELOAD": str(library), "ATTACK_CLOCK": str(self._file)}

    @property
    def now_s(self) -> float:
        """The time that the processes see."""
        return time.time() + self._step_s

    def step(self, by_s: int) -> None:
        """Forwards, or backwards."""
        self._step_s += by_s
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(self._step_s.to_bytes(8, "little", signed=True))


class _Site(NamedTuple):
    """A failure on a node, a run that follows its log by a separate clock, and the target of that run."""

    arena: Arena
    clock: Clock
    node: str
    receiver: Receiver
    run: Follower

    def add_failure(self) -> str:
        """A failure now, by the clock of the run, on another node."""
        append(self.arena.logs / "kern.log", off_bus(node := self.arena.node(), self.clock.now_s))
        return node

    def must_notify(self, node: str, within_s: float = SENT_WITHIN_S) -> None:
        """The target gets the message about this node, each message once."""
        _must_get(self.receiver, node, self.run, within_s)

    def must_go_on(self) -> None:
        """A later failure is found, and its message sent."""
        self.run.must_find(node := self.add_failure())
        self.must_notify(node)
        self.run.must_be_calm()


@contextmanager
def _site(arena: Arena, status: int = 503, headers: dict[str, str] | None = None) -> Iterator[_Site]:
    """The target answers with this at first."""
    clock = Clock(arena.folder)
    append(arena.logs / "kern.log", off_bus(node := arena.node()))
    with Receiver().listening() as receiver:
        receiver.status, receiver.headers = status, headers or {}
        env = {**clock.env, "EPICENTER_WEBHOOK_URL": receiver.url}
        yield _Site(arena, clock, node, receiver, Follower(arena.folder / "run", arena.logs, env=env))


def _steps_while_target_fails(by_days: int) -> Attack:
    def attack(arena: Arena) -> None:
        with _site(arena) as site, site.run.running():
            requests = site.receiver.requests
            until(lambda: len(requests) >= FAILURES, 60, f"{FAILURES} attempts")
            site.clock.step(by_days * DAY_S)
            until(lambda: len(requests) > FAILURES, SENT_WITHIN_S, "another attempt after the step",
                  site.run.end_of_output)  # fmt: skip
            site.receiver.status = 200
            site.must_notify(site.node)
            site.must_go_on()

    return attack


def _steps_while_killed(by_days: int) -> Attack:
    def attack(arena: Arena) -> None:
        with _site(arena) as site:
            with site.run.running():
                until(lambda: len(site.receiver.requests) >= FAILURES, 60, f"{FAILURES} attempts")
            site.clock.step(by_days * DAY_S)
            site.receiver.status = 200
            with site.run.running():
                site.must_notify(site.node)
                site.must_go_on()

    return attack


def retry_after_in_real_seconds(arena: Arena) -> None:
    """A target asks for 5 s, then the clock steps back by a day."""
    with _site(arena, 429, {"Retry-After": "5"}) as site, site.run.running():
        until(lambda: site.receiver.requests, 60, "an attempt")
        site.clock.step(-DAY_S)
        site.receiver.status = 200
        site.must_notify(site.node, within_s=30)
        site.run.must_be_calm()


def steps_often(arena: Arena) -> None:
    """The clock steps to and fro by days between failures; each one is found, and sent."""
    with _site(arena, 200) as site, site.run.running():
        for _ in range(4):
            site.clock.step(arena.draw.choice((-4, -1, 1, 4)) * DAY_S)
            site.must_go_on()


def _must_get(receiver: Receiver, node: str, run: Follower, within_s: float) -> None:
    def is_there() -> bool:
        return any(node in str(body["incident"]) and body["notification_id"] in receiver.accepted
                   for _, body in receiver.requests)  # fmt: skip

    until(is_there, within_s, f"the message about {node}; {len(receiver.requests)} requests", run.end_of_output)
    must(len(set(receiver.accepted)) == len(receiver.accepted), f"a message came twice: {receiver.accepted}")


def _each_step(name: str, make: Callable[[int], Attack]) -> dict[str, Attack]:
    return {f"{name} {days:+d} d": make(days) for days in (1, -1, 4, -4)}


ATTACKS: Final[dict[str, Attack]] = {
    **_each_step("target fails", _steps_while_target_fails),
    **_each_step("killed", _steps_while_killed),
    "Retry-After": retry_after_in_real_seconds,
    "to and fro": steps_often,
}
