"""Where an attack takes place: a folder, a seed, `epicenter run` as a process, and an end after a bounded time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from deploy.dev.process import EPICENTER, ChildServer, answers, free_ports

FOUND_WITHIN_S: Final = 60
MAX_ROUND_S: Final = 60
MAX_ATTACK_S: Final = 600
COMMAND_WITHIN_S: Final = 90
UNPRIVILEGED: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Makes root subject to the permissions of files."""


class BrokeError(Exception):
    """The attack had an effect that it must not have; the message has what was seen."""


class Arena(NamedTuple):
    """The place of a single attack; everything random in it is drawn from `draw`. `rounds` is for repeated ones."""

    folder: Path
    draw: Random
    rounds: int = 10

    @property
    def logs(self) -> Path:
        """The folder that epicenter follows."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder

    def node(self) -> str:
        """The name of a node that no other failure of this attack has."""
        return f"n{self.draw.randrange(10**9):09}"


Attack = Callable[[Arena], None]


class Answer(NamedTuple):
    """A finished command."""

    code: int
    out: str
    seconds: float

    @property
    def document(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


class Follower(ChildServer):
    """`epicenter run` on these sources. Its folder outlives a kill; `before` are words in front of its command."""

    def __init__(self, folder: Path, *sources: Path | str, env: Mapping[str, str] | None = None,
                 before: Sequence[str] = (), is_awaited: bool = True):  # fmt: skip
        folder.mkdir(exist_ok=True)
        self.folder, self.data = folder, folder / "data"
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.headers: dict[str, str] = {}
        port = self.url.rpartition(":")[2]
        command = [*before, *EPICENTER, "run", "--data-dir", str(self.data), "--page-port", port, *map(str, sources)]
        is_ready = (lambda: answers(f"{self.url}/livez")) if is_awaited else (lambda: True)
        super().__init__("epicenter run", command, folder, folder, is_ready, {**os.environ, **(env or {})})

    @contextmanager
    def running(self) -> Iterator[Follower]:
        """Runs until the end of the `with`."""
        self.start()
        try:
            yield self
        finally:
            self.kill()

    @property
    def output(self) -> str:
        """What it has printed so far, warnings included."""
        return (self.folder / "out.log").read_bytes().decode(errors="backslashreplace")

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had."""
        return _status_kb(self.pid, "VmHWM") / 1024

    def text(self, path: str, timeout_s: float = 20) -> str:
        """What its page shows there."""
        request = urllib.request.Request(f"{self.url}{path}", headers=self.headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return str(answer.read().decode())

    def get(self, path: str, timeout_s: float = 20) -> Any:
        """A JSON document of its page."""
        return json.loads(self.text(path, timeout_s))

    def incidents(self) -> list[dict[str, Any]]:
        """All incidents; none while its page does not answer."""
        with suppress(OSError, ValueError):
            found: list[dict[str, Any]] = self.get("/api/incidents")
            return found
        return []

    def must_find(self, node: str, name: str = "xid-79", within_s: float = FOUND_WITHIN_S) -> dict[str, Any]:
        """The incident of this class and node, as soon as it is there."""

        def find() -> dict[str, Any] | None:
            if self.has_ended:
                raise BrokeError(f"epicenter run ended: {self.end_of_output()}")
            return next(
                (found for found in self.incidents() if found["class"] == name and node in found["nodes"]), None
            )

        found: dict[str, Any] = until(find, within_s, f"an incident {name} on {node}", self.end_of_output)
        return found

    def must_warn(self, *words: str, within_s: float = 20) -> None:
        """Its output names each of these."""
        until(lambda: all(word in self.output for word in words), within_s,
              f"a warning with {words!r}", self.end_of_output)  # fmt: skip

    def must_be_calm(self) -> None:
        """It runs, and has printed no traceback."""
        must(not self.has_ended, f"epicenter run ended: {self.end_of_output()}")
        must("Traceback" not in self.output, f"a traceback: {self.end_of_output()}")

    def end_of_output(self) -> str:
        """The last lines, for a message."""
        return repr(self.output[-1500:])


def must(holds: Any, what: str) -> None:
    """What has to be true.

    Raises:
        BrokeError: it is not.
    """
    if not holds:
        raise BrokeError(what)


def until(holds: Callable[[], Any], within_s: float, what: str, details: Callable[[], str] = str) -> Any:
    """Poll until the answer is true, and return it."""
    end_s = time.monotonic() + within_s
    while not (answer := holds()):
        must(time.monotonic() < end_s, f"not within {within_s:g} s: {what}; {details()}")
        time.sleep(0.1)
    return answer


def command(*words: object, env: Mapping[str, str] | None = None, cwd: Path | None = None, text: str = "",
            within_s: float = COMMAND_WITHIN_S) -> Answer:  # fmt: skip
    """Run a command of epicenter to its end; both its outputs together.

    Raises:
        BrokeError: it takes longer than it may, or prints a traceback.
    """
    begun_s = time.monotonic()
    try:
        done = subprocess.run([*EPICENTER, *map(str, words)], env={**os.environ, **(env or {})}, cwd=cwd,
                              input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=within_s, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BrokeError(f"epicenter {words[0]}: no end within {within_s:g} s") from None
    out = done.stdout.decode(errors="backslashreplace")
    must("Traceback" not in out, f"epicenter {' '.join(map(str, words))}: a traceback: {out[-1500:]!r}")
    return Answer(done.returncode, out, time.monotonic() - begun_s)


def kernel(node: str, text: str, at_s: float | None = None) -> str:
    """A line of kern.log, of now."""
    moment = datetime.fromtimestamp(time.time() if at_s is None else at_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}+00:00 {node} kernel: [ 8000.123456] {text}\n"


def off_bus(node: str, at_s: float | None = None) -> str:
    """The line of a GPU that has fallen off its bus."""
    text = "NVRM: Xid (PCI:0000:43:00): 79, pid=812492, name=python3, GPU has fallen off the bus."
    return kernel(node, text, at_s)


def append(file: Path, text: str) -> None:
    """Write at the end of the file."""
    with file.open("a") as log:
        log.write(text)


def _status_kb(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:"))


class _TimeOverError(BaseException):
    """The attack took longer than it may; no `except Exception` of a library catches it."""


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """End what hangs. In the main thread only.

    Raises:
        BrokeError: the time is over.
    """

    def end(*_: object) -> None:
        raise _TimeOverError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    except _TimeOverError:
        raise BrokeError(f"no end within {seconds} s") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
