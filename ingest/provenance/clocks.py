"""The zone of a file's clock where its times name none, from its own lines or from other files.

A line shows it where its text states the same moment again, with a zone: the kernel's audit messages, containerd,
Telegraf, exporters of Prometheus. A site's machines often keep local time, and its containers UTC. Then Slurm's log
shows it where jobs begin and end some half hours earlier or later than their own logs do, and so do all logs of the
machines together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from epicenter.ingest.parse.times import shown_in, time_at_head, time_from_field
from epicenter.ingest.provenance.first_lines import head_time_ns
from epicenter.rules.model.records import Origin
from epicenter.rules.model.times import NS_PER_S, UTC_ZONE

_AUDIT: Final = re.compile(r"audit\((?P<moment>1\d{9}\.\d{3}):\d")
_ISO: Final = re.compile(r"(?P<moment>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))")
_WRITTEN_ZONE: Final = re.compile(
    r"(?m)^(?:<\d{1,3}>(?:1 )?)?20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]{0,10}"
    r"(?:Z|(?P<distance>[+-](?:0\d|1[0-4]):[0-5]\d)) "
)
_QUARTER_S: Final = 900
"""All zones are whole quarters of an hour from UTC."""

_OF_JOB: Final = re.compile(r" JobId=(?P<job>\d{1,10})\b")
_STARTS: Final = ("Allocate", "Started")
_ENDS: Final = "_job_complete:"
"""Slurm's controller starts and ends a job (src/slurmctld/node_scheduler.c, job_scheduler.c, job_mgr.c)."""

_HALF_HOUR_S: Final = 1800
"""Nearly all zones are whole half hours from UTC."""

_FARTHEST_S: Final = 14 * 3600
"""UTC+14, the farthest zone."""

_APART_S: Final = 5
"""A program states its time so shortly before syslog does."""

_JOB_APART_S: Final = 120
"""A job's first line comes so shortly after its start, its last one before its end."""

_SLACK_NS: Final = 1800 * NS_PER_S
"""A program may log for so long before and after the lines that were kept of machines."""

_ENOUGH: Final = 2
_ANOTHER_ZONE: Final = "UTC+00:15"


class Clock(NamedTuple):
    """The first and the last time in a file, in the zone that was given for times that name none.

    `origin` is that of the file, by its path. `names_zone`: its times need none. `shown_zone` is the one that its lines
    show, empty where none does. `starts_ns` and `ends_ns` are those of jobs, by Slurm's log.
    """

    first_ns: int
    last_ns: int
    origin: Origin
    names_zone: bool
    shown_zone: str = ""
    starts_ns: Mapping[str, int] = MappingProxyType({})
    ends_ns: Mapping[str, int] = MappingProxyType({})

    def span_ns(self, zone: str) -> tuple[int, int]:
        """The first and the last time, if those that name no zone are of this one instead of UTC."""
        own_zone = UTC_ZONE if self.names_zone else zone
        return shown_in(self.first_ns, own_zone), shown_in(self.last_ns, own_zone)


def clock_of(text: str, received_ns: int, origin: Origin, zone: str = UTC_ZONE) -> Clock | None:
    """The clock of a file with these first and last lines; None if they state no time."""
    lines = text.encode().split(b"\n")
    first_ns, last_ns = (head_time_ns(end, received_ns, zone) for end in (lines, reversed(lines)))
    if first_ns is None or last_ns is None:
        return None
    names_zone = head_time_ns(lines, received_ns, UTC_ZONE) == head_time_ns(lines, received_ns, _ANOTHER_ZONE)
    shown_zone = _written_zone(text) if names_zone else _shown_zone(text, received_ns, zone)
    starts_ns, ends_ns = _jobs(text, received_ns, zone) if origin.is_system else ({}, {})
    return Clock(first_ns, last_ns, origin, names_zone, shown_zone, starts_ns, ends_ns)


def zones(clocks: Mapping[str, Clock], may_compare: bool) -> dict[str, str]:
    """The zone of the times that name none, for each file that shows it, and for others that keep that of the machines.

    These are the logs of machines, if no two show different zones. If one `may_compare` first and last times that were
    read as UTC, these may show the zone of the machines, and that a program keeps it too.
    """
    found = {name: clock.shown_zone for name, clock in clocks.items() if clock.shown_zone}
    machines = {name: clock for name, clock in clocks.items() if clock.origin.is_system}
    programs = {name: clock for name, clock in clocks.items() if not (clock.origin.is_system or clock.shown_zone)}
    shown = {found[name] for name in machines if name in found}
    if may_compare and not shown:
        undecided = [clock for clock in machines.values() if not clock.names_zone]
        shown = {_zone_of_jobs(undecided, programs.values()) or _zone_of_spans(undecided, programs.values())}
    if len(shown) == 1 and (zone := shown.pop()):
        local = _local(programs, list(machines.values()), zone) if may_compare else ()
        found = dict.fromkeys([*machines, *local], zone) | found
    return {name: zone for name, zone in found.items() if not clocks[name].names_zone}


def _local(programs: Mapping[str, Clock], machines: list[Clock], zone: str) -> Iterable[str]:
    """The programs whose logs begin and end within those of the machines in the machines' zone, but not in UTC.

    Those that do in both are like the others, if these agree.
    """
    spans = [clock.span_ns(zone) for clock in machines]
    begin_ns, end_ns = min(first for first, _ in spans) - _SLACK_NS, max(last for _, last in spans) + _SLACK_NS

    def fits(first_ns: int, last_ns: int) -> bool:
        return begin_ns <= first_ns and last_ns <= end_ns

    undecided = {name: clock for name, clock in programs.items() if not clock.names_zone}
    in_zone = {name for name, clock in undecided.items() if fits(*clock.span_ns(zone))}
    in_utc = {name for name, clock in undecided.items() if fits(clock.first_ns, clock.last_ns)}
    return in_zone if in_zone - in_utc and not in_utc - in_zone else in_zone - in_utc


def _written_zone(text: str) -> str:
    """The zone that the first line with a time of RFC 3339 names as a distance from UTC; empty if it doesn't."""
    found = _WRITTEN_ZONE.search(text)
    distance = found and found["distance"]
    return f"{UTC_ZONE}{distance}" if distance and distance[1:] != "00:00" else ""


def _shown_zone(text: str, received_ns: int, zone: str) -> str:
    """The given zone if its clock is right, else the distance from UTC at which it is; empty if no lines show it."""
    if _usual(_ahead_s(text, received_ns, zone), _QUARTER_S, _APART_S) == 0:
        return zone
    ahead_s = _usual(_ahead_s(text, received_ns, UTC_ZONE), _QUARTER_S, _APART_S)
    return "" if ahead_s is None else _named(ahead_s)


def _usual(ahead_s: Iterable[int], step_s: int, apart_s: int) -> int | None:
    """What more than half of these distances are in whole steps, each but for `apart_s`; None if too few are.

    Those that are no time zone's don't count.
    """
    near_s = ((distance_s, round(distance_s / step_s) * step_s) for distance_s in ahead_s)
    counts = Counter(
        whole_s
        for distance_s, whole_s in near_s
        if abs(distance_s - whole_s) <= apart_s and abs(whole_s) <= _FARTHEST_S
    )
    for whole_s, count in counts.most_common(1):
        return whole_s if count >= _ENOUGH and count * 2 > counts.total() else None
    return None


def _ahead_s(text: str, received_ns: int, zone: str) -> Iterator[int]:
    """How far the head of each line is ahead of the moment that its text states."""
    for found in chain(_AUDIT.finditer(text), _ISO.finditer(text)):
        stated_ns = time_from_field(found["moment"])
        head_ns = time_at_head(_line_before(text, found.start()), received_ns, zone)
        if stated_ns is not None and head_ns is not None:
            yield (head_ns - stated_ns) // NS_PER_S


def _line_before(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 : place]


def _jobs(text: str, received_ns: int, zone: str) -> tuple[dict[str, int], dict[str, int]]:
    """When jobs first started and last ended, by the lines of Slurm's controller."""
    starts_ns: dict[str, int] = {}
    ends_ns: dict[str, int] = {}
    for found in _OF_JOB.finditer(text):
        head = _line_before(text, found.start())
        time_ns = time_at_head(head, received_ns, zone) if head.endswith((*_STARTS, _ENDS)) else None
        if time_ns is not None and head.endswith(_STARTS):
            starts_ns.setdefault(found["job"], time_ns)
        elif time_ns is not None:
            ends_ns[found["job"]] = time_ns
    return starts_ns, ends_ns


def _zone_of_jobs(machines: Iterable[Clock], programs: Iterable[Clock]) -> str:
    """The zone in which Slurm starts and ends most jobs when their own logs begin and end; empty if there is none."""
    first_ns: dict[str, int] = {}
    last_ns: dict[str, int] = {}
    for clock in programs:
        job = clock.origin.job
        first_ns[job] = min(clock.first_ns, first_ns.get(job, clock.first_ns))
        last_ns[job] = max(clock.last_ns, last_ns.get(job, clock.last_ns))
    pairs = [pair for clock in machines for pair in ((clock.starts_ns, first_ns), (clock.ends_ns, last_ns))]
    ahead_ns = (of_slurm[job] - own[job] for of_slurm, own in pairs for job in of_slurm.keys() & own.keys())
    ahead_s = _usual((ns // NS_PER_S for ns in ahead_ns), _HALF_HOUR_S, _JOB_APART_S)
    return "" if ahead_s is None else _named(ahead_s)


def _zone_of_spans(machines: Iterable[Clock], programs: Iterable[Clock]) -> str:
    """The zone in which all logs of the machines begin and end with those of the programs; empty if there is none."""
    if not (machines and programs):
        return ""
    begin_ns, end_ns = _span(machines)
    other_begin_ns, other_end_ns = _span(programs)
    half_hour_ns = _HALF_HOUR_S * NS_PER_S
    halves = {round(ns / half_hour_ns) for ns in (begin_ns - other_begin_ns, end_ns - other_end_ns)}
    is_apart = end_ns < other_begin_ns or other_end_ns < begin_ns
    if len(halves) > 1 or not is_apart or other_end_ns - other_begin_ns < half_hour_ns:
        return ""
    return _named(halves.pop() * _HALF_HOUR_S)


def _span(clocks: Iterable[Clock]) -> tuple[int, int]:
    return min(clock.first_ns for clock in clocks), max(clock.last_ns for clock in clocks)


def _named(ahead_s: int) -> str:
    """A zone by its distance from UTC, as `UTC-07:00`."""
    hours, minutes = divmod(abs(ahead_s) // 60, 60)
    return f"{UTC_ZONE}{'-' if ahead_s < 0 else '+'}{hours:02}:{minutes:02}" if ahead_s else UTC_ZONE
