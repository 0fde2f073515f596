"""What a Python traceback says: the exception, and where in the job's own code it was raised."""

from __future__ import annotations

import re
from typing import Final

from epicenter.rules.model.signals import Signal

_ERROR: Final = re.compile(
    r"(?<![\w.])(?:[A-Za-z_]\w*\.)*(?P<name>(?=[A-Z])\w*(?:Error|Exception|Exit|Expired|Failure|NotFound|OutOfResources|"
    r"StopIteration|Timeout|Unsupported|Empty)|[a-z]+\.error|StopIteration)(?:: *(?P<message>\S[^\n]*)| *$)",
    re.MULTILINE,
)
_FRAME: Final = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+)')
_LIBRARY: Final = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<")


def error_of(signal: Signal) -> str:
    """`KeyError 'input_ids'`, `ValueError: bad shape`: the line's exception, or else that of its block's last line."""
    for line in (signal.text, *reversed(signal.block[-1:])):
        if found := _ERROR.search(line):
            message = (found["message"] or "").strip()
            break_ = "" if not message else " " if message[0] in "'\"" else ": "
            return f"{found['name'].rpartition('.')[2]}{break_}{message}"
    return ""


def frame_of(signal: Signal) -> str:
    """`data.py:55`: the innermost frame of the job's own code before the signal's line; empty if none is known."""
    own = [found for line in _before(signal) for found in _FRAME.finditer(line) if not _LIBRARY.search(found["path"])]
    return f"{own[-1]['path'].rpartition('/')[2]}:{own[-1]['line']}" if own else ""


def _before(signal: Signal) -> tuple[str, ...]:
    """The block up to the signal's line; the whole block if that line opens it."""
    if found := _ERROR.search(signal.text):
        end = next((number for number, line in enumerate(signal.block) if found[0].strip() in line), len(signal.block))
        return signal.block[: end or len(signal.block)]
    return signal.block
