"""`kill -9` at random moments, while lines are written and files rotated: incidents and messages are as without."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.attack.arena import Arena, Attack, BrokeError, Follower, append, kernel, must, off_bus, until
from bench.attack.clocks import Clock
from tests.support.receiver import Receiver

LIVES: Final = 1.5
"""A life lasts at most so many times as long as a start."""

SETTLED_WITHIN_S: Final = 90
TWO_HOURS_S: Final = 7200
CHAOS_WITHIN_S: Final = 500
KILLS_OF_CHAOS: Final = ("worker killed", "worker killed and alone")


def killed_at_random(arena: Arena) -> None:
    """A run that is never killed reads the same files at the same time; both end with the same.

    The one that is killed has once begun before: what is rotated away before its first start is not its log.
    """
    _compare_with_calm(arena, rotates=False)


def killed_and_rotated(arena: Arena) -> None:
    """The same; in between the file is renamed and a new one begins, also while no process runs."""
    _compare_with_calm(arena, rotates=True)


def _compare_with_calm(arena: Arena, rotates: bool) -> None:
    log = arena.logs / "kern.log"
    append(log, kernel("calm", "usb 1-1: new high-speed USB device number 2"))
    with Receiver().listening() as at_calm, Receiver().listening() as at_killed:
        calm = Follower(arena.folder / "calm", arena.logs, env={"EPICENTER_WEBHOOK_URL": at_calm.url})
        env = {"EPICENTER_WEBHOOK_URL": at_killed.url}
        begun_s = time.monotonic()
        with Follower(arena.folder / "killed", arena.logs, env=env).running():
            start_s = time.monotonic() - begun_s
        killed = Follower(arena.folder / "killed", arena.logs, env=env, is_awaited=False)
        with calm.running():
            away: list[str] = []
            for _ in range(arena.rounds):
                with killed.running():
                    _write(arena, log, away)
                    time.sleep(arena.draw.uniform(0, LIVES * start_s))
                _write(arena, log, away)
                if rotates and arena.draw.random() < 0.5:
                    _rotate(log)
            append(log, off_bus(last := arena.node()))
            with killed.running():
                calm.must_find(last)
                killed.must_find(last)
                until(lambda: _state(calm) == _state(killed), SETTLED_WITHIN_S, "the same incidents as the calm run",
                      lambda: _difference(_state(calm), _state(killed)))  # fmt: skip
                until(lambda: not _missing_messages(killed, at_killed), SETTLED_WITHIN_S, "all messages",
                      lambda: str(_missing_messages(killed, at_killed)))  # fmt: skip
                killed.must_be_calm()
        must(len(at_calm.ids) == len(set(at_calm.ids)), "a message came twice from the calm run")
        must(len(at_killed.ids) - len(set(at_killed.ids)) <= arena.rounds,
             f"more repeats than kills: {Counter(at_killed.ids).most_common(5)}")  # fmt: skip


def _write(arena: Arena, log: Path, away: list[str]) -> None:
    """A failure that stays, a failure that will be over, or the end of one."""
    kind = arena.draw.choice(("gpu", "server away", "server back", "none"))
    if kind == "gpu":
        append(log, off_bus(arena.node()))
    elif kind == "server away":
        away.append(node := arena.node())
        append(log, kernel(node, f"nfs: server nas-{node} not responding, still trying"))
    elif kind == "server back" and away:
        node = away.pop(0)
        append(log, kernel(node, f"nfs: server nas-{node} OK"))


def _rotate(log: Path) -> None:
    """As logrotate does without packing."""
    rotated = sorted(log.parent.glob(f"{log.name}.*"), key=lambda file: -int(file.suffix[1:]))
    for file in rotated:
        file.rename(file.with_suffix(f".{int(file.suffix[1:]) + 1}"))
    log.rename(f"{log}.1")
    append(log, kernel("calm", "usb 1-1: new high-speed USB device number 2"))


def _state(run: Follower) -> dict[str, tuple[str, str]]:
    return {found["incident_id"]: (found["status"], found["class"]) for found in run.incidents()}


def _missing_messages(run: Follower, receiver: Receiver) -> list[str]:
    """What the receiver has not heard: of each open incident its beginning, and the end of each that it heard of.

    A process that was away reads several changes at once, so how many updates come in between depends on when it ran.
    """
    kinds: dict[str, set[str]] = {}
    for _, body in receiver.requests:
        kinds.setdefault(body["incident"]["incident_id"], set()).add(body["kind"])
    state = _state(run)
    unheard = [f"began: {name}" for name, (status, _) in state.items() if status == "open" and name not in kinds]
    return unheard + [f"ended: {name}" for name in kinds if state[name][0] != "open" and "resolved" not in kinds[name]]


def _difference(calm: Mapping[str, Any], killed: Mapping[str, Any]) -> str:
    only_calm = {name: value for name, value in calm.items() if killed.get(name) != value}
    only_killed = {name: value for name, value in killed.items() if calm.get(name) != value}
    return f"only calm: {only_calm}; only killed: {only_killed}"


def ended_in_a_file_that_is_gone(arena: Arena) -> None:
    """The process is killed before it reads the end of an incident, and the file with both is packed meanwhile.

    Two hours later the incident is over, its receiver knows, and nothing more comes.
    """
    log, node = arena.logs / "kern.log", arena.node()
    append(log, kernel(node, f"nfs: server nas-{node} not responding, still trying"))
    with Receiver().listening() as receiver:
        env = {"EPICENTER_WEBHOOK_URL": receiver.url}
        run = Follower(arena.folder / "run", arena.logs, env=env)
        with run.running():
            opened = run.must_find(node, "nfs-server-not-responding")
            until(lambda: receiver.ids, 30, "the message that it began")
        append(log, kernel(node, f"nfs: server nas-{node} OK"))
        log.unlink()
        clock = Clock(arena.folder, TWO_HOURS_S)
        later = clock.now_s
        append(log, kernel("calm", "usb 1-1: new high-speed USB device number 2", later))
        run = Follower(run.folder, arena.logs, env={**env, **clock.env})
        with run.running():
            until(lambda: _state(run).get(opened["incident_id"], ("",))[0] == "resolved", 60,
                  "the incident is over", lambda: f"{_state(run)} {run.end_of_output()}")  # fmt: skip
            until(lambda: "resolved" in [kind for kind, _ in receiver.titles], 30, "the message that it is over",
                  lambda: str(receiver.titles))  # fmt: skip
        for _ in range(2):
            run = Follower(run.folder, arena.logs, env={**env, **clock.env})
            with run.running():
                append(log, off_bus(other := arena.node(), clock.now_s))
                run.must_find(other)
        about = [kind for _, body in receiver.requests for kind in [body["kind"]] if node in str(body["incident"])]
        must(about == ["opened", "resolved"], f"messages about one incident: {about}")


def worker_on_kafka(arena: Arena) -> None:
    """The same for workers on a real broker, by the bench that has that: `python -m bench.chaos --attack …`."""
    words = [word for kind in KILLS_OF_CHAOS for word in ("--attack", kind)]
    seed = str(arena.draw.randrange(1000))
    chaos = [sys.executable, "-m", "bench.chaos", "--rounds", "1", "--jobs", "1", "--seed", seed, *words]
    try:
        done = subprocess.run(chaos, capture_output=True, text=True, timeout=CHAOS_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise BrokeError(f"{' '.join(chaos)}: no end within {CHAOS_WITHIN_S} s") from None
    must(done.returncode == 0, f"{' '.join(chaos)}: {(done.stdout or done.stderr)[-1500:]}")


ATTACKS: Final[dict[str, Attack]] = {
    "random moments": killed_at_random,
    "and rotated": killed_and_rotated,
    "end is gone": ended_in_a_file_that_is_gone,
    "worker on Kafka": worker_on_kafka,
}
