"""The notation of times, names and ranks in scenarios: `+10m3s`, `40m`, `n1..n4`, `0..63`."""

from __future__ import annotations

import re
from typing import Any, Final

from epicenter.rules.model.times import duration_ns
from epicenter.rules.placement.hostlist import expand

ALL_RANKS: Final = "all"
MAX_IN_RANGE: Final = 20_000

_RANGE = re.compile(r"(?P<stem>.*?)(?P<first>\d+)\.\.(?P<again>.*?)(?P<last>\d+)")
_DURATION = re.compile(r"\d+(?:\.\d+)?(?:ms|s|m|h|d)")


def offset_ns(written: Any) -> int:
    """Nanoseconds after the scenario's start of `+10m3s`.

    Raises:
        ValueError: this is not an offset.
    """
    parts = _DURATION.findall(str(written))
    if not parts or str(written) != "+" + "".join(parts):
        raise ValueError(f"{str(written)!r} is not an offset: write how long after the start, such as +10m3s")
    return sum(map(duration_ns, parts))


def length_ns(written: Any) -> int:
    """Nanoseconds of `40m` or `1h30m`.

    Raises:
        ValueError: this is not a duration.
    """
    parts = _DURATION.findall(str(written))
    if not parts or str(written) != "".join(parts):
        raise ValueError(
            f"{str(written)!r} is not a duration: write a number and a unit (ms, s, m, h or d), such as 40m"
        )
    return sum(map(duration_ns, parts))


def names_of(written: Any) -> tuple[str, ...]:
    """The names that `n1`, `n1..n4`, `n[1-4]` or a list of them means; `n01..n04` keeps the zeros.

    Raises:
        ValueError: a range that runs backwards, has two stems, or is too long.
    """
    return tuple(name for item in _as_list(written) for name in _expanded(str(item)))


def ranks_of(written: Any) -> tuple[int, ...] | str:
    """The ranks that `3`, `0..63`, a list of both, or `all` means.

    Raises:
        ValueError: this is none of these.
    """
    if written == ALL_RANKS:
        return ALL_RANKS
    names = names_of(written)
    if bad := [name for name in names if not (name.isascii() and name.isdigit())]:
        raise ValueError(f"{bad[0]!r} is not a rank: write a number, a range such as 0..63, or all")
    return tuple(map(int, names))


def _as_list(written: Any) -> list[Any]:
    return list(written) if isinstance(written, list | tuple) else [written]


def _expanded(name: str) -> list[str]:
    if "[" in name:
        return list(expand(name))
    found = _RANGE.fullmatch(name)
    if not found:
        return [name]
    first, last, stem = int(found["first"]), int(found["last"]), found["stem"]
    if stem != found["again"] or last < first or last - first >= MAX_IN_RANGE:
        raise ValueError(f"{name!r} is not a range: write n1..n4, with the same prefix and rising numbers")
    return [f"{stem}{number:0{len(found['first'])}d}" for number in range(first, last + 1)]
