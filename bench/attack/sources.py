"""Hostile sources: `epicenter run` lives, names what it can't read, and finds what a healthy file gets afterwards."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.attack.arena import UNPRIVILEGED, Arena, Attack, Follower, append, kernel, must, off_bus

FEW_DESCRIPTORS: Final = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
MANY_FILES: Final = 500
HEALTHY: Final = "healthy.log"
HOSTILE_NAMES: Final = (
    b"line\nbreak.log",
    b"\x1b[2Jcleared\x1b[31m.log",
    b"{braces} %s {0.__class__}.log",
    b"invalid-\xff\xfe.log",
    "right-to-left-\u202egol.log".encode(),
    b"-rf.log",
    b"x" * 251 + b".log",
)


def _survives(arena: Arena, prepare: Callable[[Path], None], change: Callable[[Path], None], *warns: str,
              before: tuple[str, ...] = UNPRIVILEGED) -> None:  # fmt: skip
    """Prepare the folder, start, change it, and then write a failure into another file of it."""
    append(arena.logs / HEALTHY, kernel("calm", "usb 1-1: new high-speed USB device number 2 using xhci_hcd"))
    prepare(arena.logs)
    with Follower(arena.folder / "run", arena.logs, before=before).running() as run:
        _must_read_on(arena, run)
        change(arena.logs)
        _must_read_on(arena, run)
        if warns:
            run.must_warn(*warns)
        run.must_be_calm()


def _must_read_on(arena: Arena, run: Follower) -> None:
    node = arena.node()
    append(arena.logs / HEALTHY, off_bus(node))
    run.must_find(node)


def _victim(logs: Path) -> Path:
    """A file that is read, and becomes hostile later."""
    file = logs / "victim.log"
    append(file, kernel("calm", "usb 1-2: new high-speed USB device number 3 using xhci_hcd"))
    return file


def _nothing(_: Path) -> None:
    """No change."""


def unreadable_file(arena: Arena) -> None:
    """A file that may not be read is there from the start."""
    _survives(arena, lambda logs: _victim(logs).chmod(0), _nothing, "victim.log")


def unreadable_later(arena: Arena) -> None:
    """A new file may not be read; then it may."""
    _survives(arena, _nothing, lambda logs: _victim(logs).chmod(0), "victim.log")


def unreadable_folder(arena: Arena) -> None:
    """A folder may be listed and not entered."""

    def make(logs: Path) -> None:
        (logs / "closed").mkdir()
        _victim(logs / "closed")
        (logs / "closed").chmod(0o600)

    _survives(arena, make, _nothing, "closed")


def folder_closes(arena: Arena) -> None:
    """A folder may not even be listed any more."""

    def make(logs: Path) -> None:
        (logs / "closed").mkdir()
        _victim(logs / "closed")

    _survives(arena, make, lambda logs: (logs / "closed").chmod(0), "closed")


def _replaced(arena: Arena, make: Callable[[Path], None], *warns: str) -> None:
    def replace(logs: Path) -> None:
        (logs / "victim.log").unlink()
        make(logs / "victim.log")

    _survives(arena, lambda logs: (_victim(logs), None)[1], replace, *warns)


def becomes_folder(arena: Arena) -> None:
    """A file is replaced by a folder."""
    _replaced(arena, lambda file: file.mkdir())


def becomes_pipe(arena: Arena) -> None:
    """A file is replaced by a pipe that no one writes to."""
    _replaced(arena, lambda file: os.mkfifo(file))


def becomes_loop(arena: Arena) -> None:
    """A file is replaced by a link to itself."""
    _replaced(arena, lambda file: file.symlink_to(file))


def becomes_device(arena: Arena) -> None:
    """A file is replaced by a link to a device without end."""
    _replaced(arena, lambda file: file.symlink_to("/dev/zero"))


def folder_in_itself(arena: Arena) -> None:
    """A folder holds a link to itself."""
    _survives(arena, lambda logs: (logs / "again").symlink_to(logs), _nothing)


def pipe_from_the_start(arena: Arena) -> None:
    """A pipe and a device are there before the start."""

    def make(logs: Path) -> None:
        os.mkfifo(logs / "pipe.log")
        (logs / "device.log").symlink_to("/dev/zero")

    _survives(arena, make, _nothing)


def few_descriptors(arena: Arena) -> None:
    """64 descriptors for 500 files; a failure is written into each tenth of them afterwards."""

    def make(logs: Path) -> None:
        for number in range(MANY_FILES):
            append(logs / f"f{number:03}.log", kernel("calm", "usb 1-1: new high-speed USB device number 2"))

    nodes = [arena.node() for _ in range(0, MANY_FILES, 50)]

    def fail(logs: Path) -> None:
        for number, node in enumerate(nodes):
            append(logs / f"f{number * 50:03}.log", off_bus(node))

    make(arena.logs)
    with Follower(arena.folder / "run", arena.logs, before=FEW_DESCRIPTORS).running() as run:
        fail(arena.logs)
        for node in nodes:
            run.must_find(node)
        run.must_be_calm()


def rotated_to_unreadable(arena: Arena) -> None:
    """Rotation makes a new file that may not be read until its rights are mended."""
    node = arena.node()

    def rotate(logs: Path) -> None:
        (logs / "victim.log").rename(logs / "victim.log.1")
        append(logs / "victim.log", off_bus(node))
        (logs / "victim.log").chmod(0)

    append(arena.logs / HEALTHY, kernel("calm", "usb 1-1: new high-speed USB device number 2"))
    _victim(arena.logs)
    with Follower(arena.folder / "run", arena.logs, before=UNPRIVILEGED).running() as run:
        _must_read_on(arena, run)
        rotate(arena.logs)
        _must_read_on(arena, run)
        run.must_warn("victim.log")
        (arena.logs / "victim.log").chmod(0o644)
        run.must_find(node)
        run.must_be_calm()


def rotated_to_packed(arena: Arena) -> None:
    """Lines written right before the rotation are read; the packed file is not read again."""
    nodes = arena.node(), arena.node()
    file = _victim(arena.logs)
    append(arena.logs / HEALTHY, kernel("calm", "usb 1-1: new high-speed USB device number 2"))
    with Follower(arena.folder / "run", arena.logs).running() as run:
        _must_read_on(arena, run)
        append(file, off_bus(nodes[0]))
        run.must_find(nodes[0])
        packed = gzip.compress(file.read_bytes())
        file.rename(arena.logs / "victim.log.1")
        append(file, off_bus(nodes[1]))
        (arena.logs / "victim.log.1.gz").write_bytes(packed)
        (arena.logs / "victim.log.1").unlink()
        run.must_find(nodes[1])
        counts = {node: sum(node in found["nodes"] for found in run.incidents()) for node in nodes}
        must(set(counts.values()) == {1}, f"incidents by node: {counts}")
        run.must_be_calm()


def truncated(arena: Arena) -> None:
    """A file is cut to nothing while it is read, and written anew, to less than its former length."""
    file = _victim(arena.logs)
    append(file, kernel("calm", "usb 1-1: new high-speed USB device number 2") * 200)
    with Follower(arena.folder / "run", arena.logs).running() as run:
        for left in (100, 50, 10):
            _must_read_on(arena, run)
            node = arena.node()
            file.write_text(kernel("calm", "usb 1-1: new high-speed USB device number 2") * left + off_bus(node))
            run.must_find(node)
        run.must_be_calm()


def rewritten_longer(arena: Arena) -> None:
    """A file is cut and has more than before when it is read again."""
    file, node = _victim(arena.logs), arena.node()
    with Follower(arena.folder / "run", arena.logs).running() as run:
        _must_read_on(arena, run)
        file.write_text(off_bus(node))
        run.must_find(node)
        run.must_be_calm()


def hostile_names(arena: Arena) -> None:
    """File names with line breaks, escape codes, braces and bytes that are no UTF-8."""
    nodes = [arena.node() for _ in HOSTILE_NAMES]
    with Follower(arena.folder / "run", arena.logs).running() as run:
        for name, node in zip(HOSTILE_NAMES, nodes, strict=True):
            (arena.logs / os.fsdecode(name)).write_text(off_bus(node))
        for node in nodes:
            run.must_find(node)
        run.must_be_calm()
        must("\x1b[2J" not in run.output, f"an escape code of a file name in the output: {run.end_of_output()}")


def gone_and_back(arena: Arena) -> None:
    """The file, and then the whole folder, is deleted and made again."""
    file = _victim(arena.logs)
    with Follower(arena.folder / "run", arena.logs).running() as run:
        _must_read_on(arena, run)
        file.unlink()
        _must_read_on(arena, run)
        append(file, off_bus(back := arena.node()))
        run.must_find(back)
        for left in arena.logs.iterdir():
            left.unlink()
        arena.logs.rmdir()
        _must_read_on(arena, run)
        run.must_be_calm()


def named_file_gone(arena: Arena) -> None:
    """A file that was named on the command line is deleted, is a folder for a while, and returns."""
    file = _victim(arena.logs)
    append(arena.logs / HEALTHY, kernel("calm", "usb 1-1: new high-speed USB device number 2"))
    with Follower(arena.folder / "run", file, arena.logs / HEALTHY).running() as run:
        file.unlink()
        _must_read_on(arena, run)
        file.mkdir()
        _must_read_on(arena, run)
        file.rmdir()
        append(file, off_bus(node := arena.node()))
        run.must_find(node)
        run.must_be_calm()


ATTACKS: Final[dict[str, Attack]] = {
    "unreadable file": unreadable_file,
    "unreadable later": unreadable_later,
    "folder without x": unreadable_folder,
    "folder closes": folder_closes,
    "becomes a folder": becomes_folder,
    "becomes a pipe": becomes_pipe,
    "becomes a loop": becomes_loop,
    "becomes a device": becomes_device,
    "pipe from the start": pipe_from_the_start,
    "folder in itself": folder_in_itself,
    "few descriptors": few_descriptors,
    "rotated, unreadable": rotated_to_unreadable,
    "rotated, packed": rotated_to_packed,
    "truncated": truncated,
    "rewritten longer": rewritten_longer,
    "hostile names": hostile_names,
    "gone and back": gone_and_back,
    "named file gone": named_file_gone,
}
