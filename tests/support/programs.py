"""Programs of Debian that tests drive: a browser, promtool; put in place when they are missing and it can be done."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "epicenter" / "debian"


class ProgramMissingError(Exception):
    """The program is not there and can't be put there; the message says what to do."""


def installed_program(name: str, package: str) -> Path:
    """A program with its libraries, from the PATH, or installed by apt when this user is root."""
    with _alone():
        if not _known(name) and os.geteuid() == 0:
            _apt("install", "--yes", "--no-install-recommends", package)
        return _known(name) or _give_up(name, package)


def unpacked_program(name: str, package: str) -> Path:
    """A program that needs no libraries: from the PATH, else out of its package; no daemon of it is installed."""
    if found := _known(name):
        return found
    folder = CACHE / package
    unpacked = folder / "usr" / "bin" / name
    with _alone():
        if not unpacked.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _apt("download", package, folder=folder)
            for archive in folder.glob("*.deb"):
                subprocess.run(["dpkg", "-x", archive, folder], check=True)
                archive.unlink()
    return unpacked if unpacked.exists() else _give_up(name, package)


@contextmanager
def _alone() -> Iterator[None]:
    """One process of the tests at a time: apt has one lock and does not wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _known(name: str) -> Path | None:
    found = os.environ.get(_variable(name)) or shutil.which(name)
    return Path(found) if found else None


def _apt(*arguments: str, folder: Path | None = None) -> None:
    """Ask apt, and once more with fresh lists of packages."""
    if not shutil.which("apt-get"):
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for attempt in ([], ["update"]):
        if attempt:
            subprocess.run(["apt-get", "--quiet", *attempt], env=env, capture_output=True, check=False)
        done = subprocess.run(["apt-get", "--quiet", *arguments], env=env, cwd=folder, capture_output=True, check=False)
        if done.returncode == 0:
            return


def _give_up(name: str, package: str) -> Path:
    where = _variable(name)
    raise ProgramMissingError(f"{name} is needed: run `apt-get install {package}`, or set {where} to where it is")


def _variable(name: str) -> str:
    return f"EPICENTER_TEST_{name.upper().replace('-', '_')}"
