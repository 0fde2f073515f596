"""Lists of hosts as Slurm writes them: `node[0001,0003-0007],login1`, to single names and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

MAX_HOSTS: Final = 1 << 16
"""Longer lists are refused: they are mistakes, or meant to fill the memory."""

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_NAME = re.compile(r"(.*?)(\d{1,18})")


def expand(text: str) -> tuple[str, ...]:
    """Each host once, in the order of the list; numbers keep their zeros in front.

    Raises:
        ValueError: a bracket is left open, a range runs backwards, or there are more than `MAX_HOSTS`.
    """
    parts = [part.strip() for part in _PART.findall(text)]
    if ",".join(parts) != ",".join(part.strip() for part in text.split(",")) and "[" not in text:
        raise ValueError(f"{text!r} is not a list of hosts: write names, or ranges such as node[0001-0064]")
    if text.count("[") != text.count("]") or _PART.sub("", text).strip(", "):
        raise ValueError(f"{text!r}: unbalanced brackets: write node[0001-0064]")
    hosts: dict[str, None] = {}
    for part in parts:
        for host in _hosts(part):
            hosts[host] = None
            if len(hosts) > MAX_HOSTS:
                raise ValueError(f"{text!r}: more than {MAX_HOSTS} hosts")
    return tuple(hosts)


def compress(hosts: Iterable[str]) -> str:
    """The shortest list of these hosts, sorted: runs of numbers with as many digits become ranges."""
    by_head: dict[tuple[str, int], list[int]] = {}
    plain = set()
    for host in set(hosts):
        if found := _NAME.fullmatch(host):
            by_head.setdefault((found[1], len(found[2])), []).append(int(found[2]))
        else:
            plain.add(host)
    lists = [_compressed(head, digits, sorted(numbers)) for (head, digits), numbers in by_head.items()]
    return ",".join(sorted([*plain, *lists]))


def _hosts(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, _, tail = rest.partition("]")
    for number in _numbers(inside, part):
        for ending in _hosts(tail):
            yield head + number + ending


def _numbers(inside: str, part: str) -> Iterator[str]:
    for item in inside.split(","):
        found = _RANGE.fullmatch(item.strip())
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise ValueError(f"{part!r}: {item!r} is not a number or an ascending range: write 0001-0064")
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            yield str(number).rjust(len(found[1]), "0")


def _compressed(head: str, digits: int, numbers: list[int]) -> str:
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    texts = [f"{run[0]:0{digits}}" + (f"-{run[-1]:0{digits}}" if len(run) > 1 else "") for run in runs]
    return f"{head}{texts[0]}" if len(numbers) == 1 else f"{head}[{','.join(texts)}]"
