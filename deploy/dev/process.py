"""Servers as child processes: started on free loopback ports, waited for, stopped by their process ids."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from epicenter.rules.errors import TransientError
from epicenter.stream.process.shutdown import SHUTDOWN

EPICENTER = [sys.executable, "-c", "from epicenter.stream.cli.main import main; main()"]
"""The command line of the console command, whether or not its folder is on PATH."""

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 15

# The kernel kills the child with its parent (prctl 1 = PR_SET_PDEATHSIG, 9 = SIGKILL); exec keeps the process id.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

# "Parent" means the thread that started the child, so one thread that lives as long as this process starts them all.
_LAUNCHER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dev-server-launcher")


def free_ports(count: int) -> list[int]:
    """Different free ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def port_or_free(wanted: int) -> int:
    """The wanted port of the loopback interface, or another one if that is in use."""
    try:
        socket.create_server(("127.0.0.1", wanted)).close()
    except OSError:
        return free_ports(1)[0]
    return wanted


def answers(url: str) -> bool:
    """Whether the URL answers with 200, without a proxy."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


class ChildServer:
    """A server in a child process, which on Linux the kernel kills with its parent.

    `command` starts it in `cwd` with `env` (default: ours); its output goes to `folder`/out.log; `is_ready` is
    whether it answers.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        folder: Path,
        cwd: Path,
        is_ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._folder = folder
        self._cwd = cwd
        self._env = env
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise TransientError(f"{self._name} is not running: call start()")
        return self._process.pid

    @property
    def name(self) -> str:
        """The name for messages."""
        return self._name

    @property
    def has_ended(self) -> bool:
        """Whether the process was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the process and return when it answers; nothing happens if it runs already.

        Raises:
            TransientError: it ended, or did not answer within START_TIMEOUT_S; the message has the end of its log.
        """
        if self._process is not None and self._process.poll() is None:
            return
        with (self._folder / "out.log").open("ab") as out:
            self._process = _LAUNCHER.submit(
                subprocess.Popen,
                _tied_to_us(self._command),
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            ).result()
        try:
            wait_until_ready(self._name, self._is_ready, self._complaint)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the process with SIGTERM, or with SIGKILL if it takes longer than STOP_TIMEOUT_S."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(SHUTDOWN.left_s(STOP_TIMEOUT_S, 1.0))
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would; `start` brings it back with its data."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._process = None

    def _complaint(self) -> str | None:
        if self._process is None or self._process.poll() is None:
            return None
        return f"ended with exit code {self._process.returncode}:\n{_last_lines(self._folder)}"


def wait_until_ready(
    name: str, is_ready: Callable[[], bool], complaint: Callable[[], str | None] = lambda: None
) -> None:
    """Return once `is_ready` is true.

    Raises:
        TransientError: there is a `complaint`, or START_TIMEOUT_S is over.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready():
        if problem := complaint():
            raise TransientError(f"{name} {problem}")
        if time.monotonic() > deadline:
            raise TransientError(f"{name} did not answer within {START_TIMEOUT_S} s")
        time.sleep(0.05)


def _tied_to_us(command: list[str]) -> list[str]:
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def _last_lines(folder: Path, count: int = 20) -> str:
    lines: list[str] = []
    for path in sorted(folder.glob("*.log")):
        lines += path.read_text(errors="replace").splitlines()[-count:]
    return "\n".join(lines)
