"""A disk that fills up: pages leave, the web page answers, a message names the disk, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench.attack.arena import Arena, Attack, BrokeError, Follower, append, must, off_bus, until
from tests.support.receiver import Receiver
from tests.support.small_disk import SmallDisk, small_disk

DISK_BYTES: Final = 64 << 20
FULL: Final = ("disk", "space")


@contextmanager
def _run_on_small_disk(arena: Arena, receiver: Receiver, size_bytes: int) -> Iterator[tuple[Follower, SmallDisk]]:
    """The data folder is on the disk; logs and the output of the process are elsewhere. Needs the right to mount."""
    place = arena.folder / "run"
    place.mkdir()
    with small_disk(place / "data", size_bytes) as disk:
        if not disk.is_own:
            raise BrokeError("no disk can be mounted here: run it as root, or under `unshare --map-root-user --mount`")
        run = Follower(place, arena.logs, env={"EPICENTER_WEBHOOK_URL": receiver.url})
        yield run, disk


def fills_while_it_runs(arena: Arena) -> None:
    """Full after the start; a failure is sent meanwhile, and stored once there is room, also after a `kill -9`."""
    log, before, during = arena.logs / "kern.log", arena.node(), arena.node()
    append(log, off_bus(before))
    with Receiver().listening() as receiver, _run_on_small_disk(arena, receiver, DISK_BYTES) as (run, disk):
        with run.running():
            run.must_find(before)
            disk.fill()
            append(log, off_bus(during))
            until(lambda: during in str(receiver.requests), 60, "the page of a failure while the disk is full",
                  run.end_of_output)  # fmt: skip
            until(lambda: _has_disk_message(receiver), 60, "a message about the full disk",
                  lambda: f"{receiver.titles} {run.end_of_output()}")  # fmt: skip
            until(lambda: run.text("/"), 20, "the page answers")
            must(run.incidents(), "the list of incidents is empty while the disk is full")
            run.must_be_calm()
            disk.free()
            run.must_find(during, within_s=120)
        with run.running():
            run.must_find(before)
            run.must_find(during)
            run.must_be_calm()
        twice = len(receiver.ids) - len(set(receiver.ids))
        must(twice <= 1, f"{twice} messages came twice: {receiver.titles}")


def full_from_the_start(arena: Arena) -> None:
    """Not a byte is free when it starts: it ends with one message, or runs and sends."""
    log, node = arena.logs / "kern.log", arena.node()
    append(log, off_bus(node))
    with Receiver().listening() as receiver, _run_on_small_disk(arena, receiver, DISK_BYTES) as (run, disk):
        disk.fill()
        try:
            with run.running():
                until(lambda: node in str(receiver.requests), 60, "the page", run.end_of_output)
                run.must_be_calm()
        except BrokeError:
            raise
        except Exception:
            must(any(word in run.output.lower() for word in FULL), f"it ended: {run.end_of_output()}")
            must("Traceback" not in run.output, f"a traceback: {run.end_of_output()}")
        disk.free()
        with run.running():
            run.must_find(node)
            run.must_be_calm()


def grows_until_full(arena: Arena) -> None:
    """Thousands of failures fill the disk by themselves; the newest one is still sent."""
    log, last = arena.logs / "kern.log", arena.node()
    with Receiver().listening() as receiver, _run_on_small_disk(arena, receiver, 4 << 20) as (run, _):
        append(log, off_bus(arena.node()))
        with run.running():
            for _ in range(20):
                append(log, "".join(off_bus(arena.node()) for _ in range(100)))
            append(log, off_bus(last))
            until(lambda: last in str(receiver.requests), 150, "the page of the newest failure", run.end_of_output)
            until(lambda: run.text("/"), 20, "the page answers")
            run.must_be_calm()
        free = shutil.disk_usage(run.data).free
        must(free < 2 << 20, f"the disk did not fill up: {free} bytes are free")


def _has_disk_message(receiver: Receiver) -> bool:
    return any(any(word in str(body).lower() for word in ("disk full", "disk is full", "no space", "enospc"))
               for _, body in receiver.requests)  # fmt: skip


ATTACKS: Final[dict[str, Attack]] = {
    "fills while it runs": fills_while_it_runs,
    "full from the start": full_from_the_start,
    "grows until full": grows_until_full,
}
