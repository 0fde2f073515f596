"""Exceptions of Python that nothing caught, and those that a function caught and printed."""

from __future__ import annotations

import re
from typing import Final

from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.vocabulary import vocabulary

_RANK: Final = "[rank"
_UNCAUGHT: Final = re.compile(r"(?:^|[\s:>])\[rank\d{1,6}\]: \S")
_FIRST_FRAME: Final = re.compile(r'File "(?P<path>[^"\n]+)", line \d+, in (?P<function>\S+)')
_TYPED: Final = re.compile(r"<(?:stdin|ipython-input|python-input)|/tmp/ipykernel_\d")
_CELL: Final = re.compile(r"\bCell In ?\[\d{1,6}\], line \d|^(?:Input )?In \[\d{1,6}\], in <")
_JOB_OF_A_SHELL: Final = re.compile(
    r"\[\d{1,4}\][+-]? {1,3}(?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Exit \d)"
)
_PROGRAM: Final = re.compile(r"/(?!(?:var/)?tmp/(?!ray/))")
"""The path of a program, not of code that one writes into a temporary file to run it; Ray unpacks programs there."""

_FRAME_PATH: Final = re.compile(r'File "([^"\n]+)", line \d')
_SANDBOX: Final = re.compile(r"/(?:var/)?tmp/(?:[^/]*sandbox[^/]*|tmp[a-z0-9_]{6,8})/")
"""A folder of Python's `tempfile`, or one of this name."""

_OF_EXEC: Final = "<string>"

_TEST: Final = re.compile(r"(?:^|/)(?:test_[^/]+|[^/]+_test)\.py$")
_TEST_OF_WAITING: Final = re.compile(r"Timeout\(ms\)=\d{1,4}\)")
_IMPORT: Final = "import-error"
_MODULE: Final = "<module>"


def is_uncaught(signal: Signal) -> bool:
    """Whether it is an exception that ended its process.

    `_distributed_excepthook` of PyTorch names the rank before each line, behind what launchers and shippers add.
    Any other traceback begins at the module that was run, or in `runpy`; that of an exception which a function
    caught begins in this function. Python writes the whole path of the module that it was started with: another one,
    or one in a temporary folder, is of code that the program runs, as a model's answer. A module that imports what is
    missing may catch that itself, and print it with no other frame.
    """
    is_of_python = signal.failure_class == "python-exception" or bool(signal.block)
    if is_of_python and _RANK in signal.text and _UNCAUGHT.search(signal.text):
        return True
    first = _first_frame(signal)
    if first is None or _may_be_caught_by_its_module(signal):
        return False
    is_of_program = first["function"] == _MODULE and bool(_PROGRAM.match(first["path"]))
    return is_of_program or first["path"] == "<frozen runpy>"


def is_of_a_shell(signal: Signal) -> bool:
    """Whether a person typed what failed: at a prompt of Python, in a cell of a notebook, or as a job of a shell.

    Shells tell of jobs that ended (`[1]+  Killed`) only if they are interactive.
    """
    first = _first_frame(signal)
    is_typed = first is not None and bool(_TYPED.match(first["path"]))
    return is_typed or bool(_JOB_OF_A_SHELL.match(signal.text)) or any(map(_CELL.search, signal.block))


def is_of_a_thread(signal: Signal) -> bool:
    """Whether it ended a thread of Python, not the process."""
    first = _first_frame(signal)
    return first is not None and first["function"].startswith("_bootstrap") and first["path"].endswith("/threading.py")


def is_of_a_test(signal: Signal) -> bool:
    """Whether a test raised it, or called what did, as pytest finds tests by their names; or whether its peers had less
    than ten seconds, where jobs give them minutes.
    """
    if signal.failure_class == "nccl-timeout" and _TEST_OF_WAITING.search(signal.text):
        return True
    first = _first_frame(signal)
    return first is not None and bool(_TEST.search(first["path"])) and first["function"].startswith("test")


def is_of_a_sandbox(signal: Signal) -> bool:
    """Whether only code raised it that a program has written to a temporary folder, or passes to `exec`, to try it: as
    an answer of a model. `python -c` begins at the module too.
    """
    first = _first_frame(signal)
    if first is None or (first["path"] == _OF_EXEC and first["function"] == _MODULE):
        return False
    paths = (path for line in signal.block for path in _FRAME_PATH.findall(line))
    return all(path == _OF_EXEC or _SANDBOX.match(path) for path in paths)


def is_an_end(signal: Signal) -> bool:
    """Whether it reports that a process or the job has ended."""
    ends_its_process = signal.failure_class in vocabulary().ends_its_process or is_uncaught(signal)
    return signal.role == "finished" or ends_its_process


def is_caught(signal: Signal) -> bool:
    """Whether it is an exception that a function caught, and printed."""
    return _first_frame(signal) is not None and not is_uncaught(signal)


def _may_be_caught_by_its_module(signal: Signal) -> bool:
    return signal.failure_class == _IMPORT and sum(map(bool, map(_FIRST_FRAME.search, signal.block))) == 1


def _first_frame(signal: Signal) -> re.Match[str] | None:
    return next(filter(None, map(_FIRST_FRAME.search, signal.block)), None)
