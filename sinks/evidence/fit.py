"""A pack cut to a size limit: the verdict and the cause's line stay, then the most important entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from epicenter.sinks.evidence.shape import LeftOut, Pack

MIN_BYTES: Final = 6_144
"""The parts that are never cut fit in this size."""

DEFAULT_BYTES: Final = 16_384

SECTIONS: Final = (
    "reasons",
    "next_checks",
    "timeline",
    "edges",
    "gaps",
    "alternatives",
    "ranks",
    "lines",
    "roles",
    "history",
)
"""Sections by importance: at equal positions, the entry of the earlier section wins."""

_TIERS: Final = (4, 16, 64)
"""The first four entries of every section rank before the fifth of any, and so on."""

Render = Callable[[Pack], bytes]


def fitted(pack: Pack, render: Render, max_bytes: int = DEFAULT_BYTES) -> bytes:
    """The rendered pack, cut so that it fits in `max_bytes` (at least `MIN_BYTES`)."""
    order = _by_importance(pack)
    fits, too_many = 0, len(order) + 1
    best = render(_part(pack, order[:0]))
    while too_many - fits > 1:
        tried = (fits + too_many) // 2 if too_many <= len(order) else len(order)
        rendered = render(_part(pack, order[:tried]))
        if len(rendered) <= max_bytes:
            fits, best = tried, rendered
        else:
            too_many = tried
    return best


def _by_importance(pack: Pack) -> list[str]:
    """The section of each entry that may be cut, the most important first."""
    entries = []
    for place, section in enumerate(SECTIONS):
        for number in range(_required(pack, section), len(getattr(pack, section))):
            tier = sum(number >= size for size in _TIERS)
            entries.append((tier, place, number, section))
    return [section for *_, section in sorted(entries)]


def _required(pack: Pack, section: str) -> int:
    return 1 if section == "lines" and pack.lines and pack.lines[0].reference == pack.verdict.line else 0


def _part(pack: Pack, sections: list[str]) -> Pack:
    """The pack with one entry per listed section name, the timeline sorted, and omitted entries counted."""
    counts = Counter(sections)
    entries: dict[str, Any] = {
        section: getattr(pack, section)[: counts[section] + _required(pack, section)] for section in SECTIONS
    }
    left_out = tuple(
        LeftOut(section, whole - len(entries[section]), whole)
        for section in SECTIONS
        if (whole := len(getattr(pack, section))) > len(entries[section])
    )
    entries["timeline"] = sorted(entries["timeline"], key=lambda event: (event.began, event.logged))
    entries["timeline"] = tuple(entries["timeline"])
    return msgspec.structs.replace(pack, left_out=left_out, **entries)
