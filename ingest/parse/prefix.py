"""Prefixes in front of a line: who wrote it. They nest, so they are peeled off again and again.

Shapes: srun --label, Open MPI --tag-output, torchrun --tee, PyTorch's excepthook, Ray's driver log, syslog, CRI.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|#033\[[0-9;]*m")

_DEEPEST_NESTING = 16
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^ ]{0,20}"
_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]{0,20}"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_PREFIXES = tuple(
    re.compile(shape, re.ASCII)
    for shape in (
        rf"{_TIME} (?P<stream>stdout|stderr) [PF] ",
        rf"(?:<\d{{1,3}}>(?:1 )?)?(?:{_RFC3339}|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d) (?!{_LEVEL} )"
        r"(?P<host>\w[\w.-]*) (?P<program>[\w./-]+)(?:(?:\[\d+\])?: | (?:\d+|-) - - )",
        r"<\d{1,3}>",
        r"kern {0,2}:\w+ {0,3}: ",
        rf"(?P<printk>\[(?:[ \d]{{1,9}}\d\.\d{{6}}|{_CTIME})\](?:\[ *[TC]\d+\])?) ?",
        r"\[rank(?P<rank>\d{1,7})\]: ?",
        r"\[\d+,(?P<mpi_rank>\d{1,7})\]<(?:stdout|stderr)>: ?",
        r"\[[a-z_]+\d+\]: ?",
        r" {0,6}(?P<task>\d{1,7}): ",
        r"\((?P<actor>[\w.:\[\]=+<> -]{1,80}?)(?: pid=\d+)?(?:, ip=[\d.]+)?\) ",
    )
)


@dataclass
class Peeled:
    """What is left of a line, and what its prefixes told."""

    body: str
    host: str = ""
    rank: int | None = None
    is_kernel: bool = False


def peel(line: str) -> Peeled:
    """The line without prefixes and colours."""
    peeled = Peeled(ANSI.sub("", line) if "\x1b" in line or "#033[" in line else line)
    for _ in range(_DEEPEST_NESTING):
        if not (found := _first(peeled.body)):
            break
        told = found.groupdict()
        peeled.body = peeled.body[found.end() :]
        peeled.host = peeled.host or told.get("host") or ""
        peeled.is_kernel |= told.get("program") == "kernel" or bool(told.get("printk"))
        number = told.get("rank") or told.get("mpi_rank") or told.get("task")
        if number and peeled.rank is None:
            peeled.rank = int(number)
    return peeled


def _first(body: str) -> re.Match[str] | None:
    for shape in _PREFIXES:
        if (found := shape.match(body)) and found.end():
            return found
    return None
