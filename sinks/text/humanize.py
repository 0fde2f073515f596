"""Numbers, times and places for people: `12 min`, `1,019 nodes`, `job 7801`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from epicenter.rules.errors import InvariantError
from epicenter.rules.model.incident import BlastRadius, Cost
from epicenter.rules.model.times import NS_PER_S, iso_ns

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_LONG_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_MAX_AHEAD_S: Final = 60

MAX_NAMES: Final = 3
"""How many names a short list has."""

LIKELY: Final = 0.7
"""Below this confidence a cause is called probable."""

_SURENESS: Final = ((0.9, "almost certain"), (LIKELY, "likely"), (0.5, "more likely than not"), (0.0, "a guess"))


def ns(iso: str) -> int | None:
    """Nanoseconds of an ISO time; None if it can't be parsed."""
    try:
        return iso_ns(iso)
    except InvariantError:
        return None


def iso(time_ns: int) -> str:
    """ISO 8601 in UTC to the millisecond, for `<time datetime>`."""
    seconds, rest_ns = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1_000_000:03d}Z"


def day(time_ns: int) -> str:
    """`2 Mar 2026`."""
    date = datetime.fromtimestamp(time_ns // NS_PER_S, UTC)
    return f"{date.day} {date:%b %Y}"


def clock(time_ns: int, digits: int = 0) -> str:
    """`09:03:29`, with `digits` decimals of the second."""
    whole = f"{datetime.fromtimestamp(time_ns // NS_PER_S, UTC):%H:%M:%S}"
    return f"{whole}.{time_ns % NS_PER_S:09d}"[: 9 + digits] if digits else whole


def clock_or_date(time_ns: int, now_ns: int) -> str:
    """The time of day, with the date unless it is today."""
    is_today = time_ns // (86_400 * NS_PER_S) == now_ns // (86_400 * NS_PER_S)
    return clock(time_ns) if is_today else f"{day(time_ns)}, {clock(time_ns)}"


def length(length_ns: int) -> str:
    """The two largest units: `10 min 2 s`, `3 h`, `450 ms`."""
    if length_ns < NS_PER_S:
        return f"{max(0, length_ns) // 1_000_000} ms"
    left_s = round(length_ns / NS_PER_S)
    parts: list[str] = []
    for unit_s, name in _UNITS:
        whole, left_s = divmod(left_s, unit_s)
        if whole:
            parts.append(f"{whole} {name}")
        elif parts:
            break
    return " ".join(parts[:2])


def ago(time_ns: int, now_ns: int) -> str:
    """The largest unit: `12 min ago`, `in 3 h (clock skew?)`; `just now` up to 5 s ago and a minute ahead."""
    passed_s = (now_ns - time_ns) // NS_PER_S
    if -_MAX_AHEAD_S <= passed_s < 5:
        return "just now"
    unit_s, name = next(unit for unit in _UNITS if abs(passed_s) >= unit[0])
    number = abs(passed_s) // unit_s
    return f"{number} {name} ago" if passed_s > 0 else f"in {number} {name} (clock skew?)"


def old(time_ns: int, now_ns: int) -> str:
    """The age in its largest unit, in words: `265 days`, `1 hour`."""
    passed_s = max(0, now_ns - time_ns) // NS_PER_S
    unit_s, name = next((unit for unit in _LONG_UNITS if passed_s >= unit[0]), _LONG_UNITS[-1])
    return count(passed_s // unit_s, name)


def percent(confidence: float) -> str:
    """A confidence from 0 to 1 as `87%`; at most 99 %, because nothing is certain."""
    return f"{min(confidence, 0.99):.0%}"


sure = percent  # its name in users' notification templates


def count(number: int, noun: str) -> str:
    """`1 node`, `1,019 nodes`."""
    ending = "" if number == 1 else "s"
    return f"{number:,} {noun}{ending}"


def hours(number: float) -> str:
    """GPU-hours, with one decimal below 100."""
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def capitalized(text: str) -> str:
    """The text with a capital at its head; names after that keep theirs."""
    return text[:1].upper() + text[1:]


def names(items: Sequence[str], max_names: int = MAX_NAMES) -> str:
    """The first few, and how many more."""
    shown = ", ".join(items[:max_names])
    return f"{shown} and {len(items) - max_names:,} more" if len(items) > max_names else shown


def date_and_clock(iso_time: str, digits: int = 0) -> str:
    """`2026-03-02 09:08:45` of an ISO time, with `digits` decimals of the second; as wide where it is not known."""
    if not iso_time:
        return f"{'not known':<11}--:--:--"
    return iso_time.replace("T", " ").rstrip("Z")[: 19 + (digits and digits + 1)]


def sureness(confidence: float) -> str:
    """A confidence from 0 to 1 in words."""
    return next(phrase for minimum, phrase in _SURENESS if confidence >= minimum)


def place(node: str, gpu: str = "", rank: int | None = None) -> str:
    """`node0002 · GPU 0000:52:00 · rank 10`; unknown parts are left out."""
    return " · ".join(_place_parts(node, gpu, rank))


def where(node: str, gpu: str = "", rank: int | None = None) -> str:
    """A place for the end of a sentence: ` on node0002, GPU 0000:52:00, rank 10`; empty when nothing is known."""
    parts = _place_parts(node, gpu, rank)
    return f" on {', '.join(parts)}" if parts else ""


def reach(blast: BlastRadius) -> str:
    """`15 nodes, 113 ranks, 120 GPUs`: without jobs and without zero counts."""
    counts = (("node", blast.nodes), ("rank", blast.ranks), ("GPU", blast.gpus))
    return ", ".join(count(number, noun) for noun, number in counts if number)


def reach_in_full(blast: BlastRadius) -> str:
    """`1 node, 0 ranks, 1 job, 8 GPUs`: every count."""
    counts = (("node", blast.nodes), ("rank", blast.ranks), ("job", blast.jobs), ("GPU", blast.gpus))
    return ", ".join(count(number, noun) for noun, number in counts)


def lost(cost: Cost) -> str:
    """`23.6 GPU-hours, 120 steps`; empty when nothing is known."""
    parts = [f"{hours(cost.gpu_hours_lost)} GPU-hours"] if cost.gpu_hours_lost is not None else []
    parts += [count(cost.steps_lost, "step")] if cost.steps_lost is not None else []
    return ", ".join(parts)


def lost_since(cost: Cost) -> str:
    """The cost, with the checkpoint from which the work must be repeated."""
    since, what = cost.since_checkpoint_step, lost(cost)
    return f"{what} since the checkpoint of step {since}" if what and since is not None else what


def _place_parts(node: str, gpu: str, rank: int | None) -> list[str]:
    parts = (node, gpu and f"GPU {gpu}", "" if rank is None else f"rank {rank}")
    return [part for part in parts if part]
