"""Clusters whose machines have the same names, each in a separate folder.

A kernel counts from when its machine started. Two kernels of the same name at the same time that started at different
times are of two machines; a copy of a log, or the same messages by another reader, show the same start.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Final, NamedTuple

from epicenter.ingest.parse.envelope import parse
from epicenter.rules.errors import RecordError
from epicenter.rules.model.records import Origin, Position, RawRecord
from epicenter.rules.model.times import NS_PER_S

_MARKS: Final = (" kernel: [", '"sec":', '"__MONOTONIC_TIMESTAMP":')
_UPTIME: Final = re.compile(
    r' kernel: \[ {0,6}(?P<s>\d{1,8}\.\d{6})\] |"sec": ?(?P<sec>\d{1,8})\b'
    r'|"__MONOTONIC_TIMESTAMP": ?"(?P<us>\d{1,15})"'
)
"""In a line of syslog, of Fluent Bit's kmsg input, of a journal's export."""

_MAX_LINES: Final = 200
_MINUTE_NS: Final = 60 * NS_PER_S
_MIN_APART_NS: Final = 10 * _MINUTE_NS


class Uptime(NamedTuple):
    """When a machine wrote the lines of a file, and the minutes in which it had started by them."""

    first_ns: int
    last_ns: int
    starts_ns: frozenset[int]

    def is_another_machine(self, other: Uptime) -> bool:
        """Whether both wrote at one time, but none of their starts are the same."""
        is_at_one_time = self.first_ns <= other.last_ns and other.first_ns <= self.last_ns
        apart_ns = (abs(own - theirs) for own in self.starts_ns for theirs in other.starts_ns)
        return is_at_one_time and min(apart_ns) > _MIN_APART_NS


def uptimes(text: str, origin: Origin, received_ns: int, zone: str) -> dict[str, Uptime]:
    """The uptime of each machine, by its name, from the first lines of its kernel that state time and uptime."""
    found = defaultdict[str, list[tuple[int, int]]](list)
    for uptime in islice(_UPTIME.finditer(text) if any(mark in text for mark in _MARKS) else (), _MAX_LINES):
        end = text.find("\n", uptime.end())
        line = text[text.rfind("\n", 0, uptime.start()) + 1 : end if end >= 0 else None]
        record = RawRecord(line.encode(), Position("", 0), received_ns, origin=origin, zone=zone)
        try:
            event = parse(record, "").event
        except RecordError:
            continue
        if event.has_own_time and event.node:
            start_ns = event.event_time_ns - _uptime_ns(uptime)
            found[event.node].append((event.event_time_ns, start_ns - start_ns % _MINUTE_NS))
    return {
        node: Uptime(min(times)[0], max(times)[0], frozenset(start_ns for _, start_ns in times))
        for node, times in found.items()
    }


def clusters_by_folder(
    nodes: Mapping[Path, str], uptimes_of: Callable[[Path], Mapping[str, Uptime]]
) -> dict[Path, str]:
    """The cluster of each file in a folder whose machines have the names of those in another: the folder's name.

    `nodes` has the node of each file by its path, empty if that names none.
    """
    namesakes = defaultdict[tuple[str, int, tuple[str, ...]], list[Path]](list)
    for file, node in nodes.items():
        for level in range(len(file.parts) - 1):
            namesakes[node, level, file.parts[:level] + file.parts[level + 1 :]].append(file)
    known = cache(uptimes_of)
    clusters = {
        (level, file.parts[level])
        for (_, level, _), files in namesakes.items()
        if len(files) > 1
        for file in _of_different_machines({file: known(file) for file in files})
    }
    of_files = ((file, next((part for part in enumerate(file.parts[:-1]) if part in clusters), None)) for file in nodes)
    return {file: cluster[1] for file, cluster in of_files if cluster}


def _of_different_machines(uptimes_by_file: Mapping[Path, Mapping[str, Uptime]]) -> set[Path]:
    """The files of machines that have the name of another one."""
    by_name = defaultdict[str, list[tuple[Path, Uptime]]](list)
    for file, by_machine in uptimes_by_file.items():
        for name, uptime in by_machine.items():
            by_name[name].append((file, uptime))
    pairs = (pair for of_name in by_name.values() for pair in combinations(of_name, 2))
    different = (pair for pair in pairs if pair[0][1].is_another_machine(pair[1][1]))
    return {file for pair in different for file, _ in pair}


def _uptime_ns(uptime: re.Match[str]) -> int:
    if uptime["us"]:
        return int(uptime["us"]) * 1000
    return int(float(uptime["s"] or uptime["sec"]) * NS_PER_S)
