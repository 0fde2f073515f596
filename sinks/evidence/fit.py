"""A pack cut to a size in bytes: the verdict and the cause's line always stay, of the rest the most telling entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from epicenter.sinks.evidence.shape import LeftOut, Pack

MIN_BYTES: Final = 6_144
"""What stays in any case has room in so many."""

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
"""The most telling first: of two entries at the same place in their sections that of the first section is kept."""

_TIERS: Final = (4, 16, 64)
"""The first four entries of every section come before the fifth of any, and so on."""

Render = Callable[[Pack], bytes]


def fitted(pack: Pack, render: Render, most_bytes: int = DEFAULT_BYTES) -> bytes:
    """What `render` makes of the pack, or of as much of it as `most_bytes` (at least `MIN_BYTES`) hold."""
    order = _in_order_of_worth(pack)
    kept, too_many = 0, len(order) + 1
    best = render(_part(pack, order[:0]))
    while too_many - kept > 1:
        tried = (kept + too_many) // 2 if too_many <= len(order) else len(order)
        shown = render(_part(pack, order[:tried]))
        if len(shown) <= most_bytes:
            kept, best = tried, shown
        else:
            too_many = tried
    return best


def _in_order_of_worth(pack: Pack) -> list[str]:
    """The section of each entry that may be left out. Within a section the first ones are worth most."""
    entries = []
    for place, section in enumerate(SECTIONS):
        for number in range(_always_kept(pack, section), len(getattr(pack, section))):
            tier = sum(number >= size for size in _TIERS)
            entries.append((tier, place, number, section))
    return [section for *_, section in sorted(entries)]


def _always_kept(pack: Pack, section: str) -> int:
    return 1 if section == "lines" and pack.lines and pack.lines[0].reference == pack.verdict.line else 0


def _part(pack: Pack, kept: list[str]) -> Pack:
    """The pack with these entries, the timeline in the order of time again, and what is left out counted."""
    counts = Counter(kept)
    entries: dict[str, Any] = {
        section: getattr(pack, section)[: counts[section] + _always_kept(pack, section)] for section in SECTIONS
    }
    left_out = tuple(
        LeftOut(section, whole - len(entries[section]), whole)
        for section in SECTIONS
        if (whole := len(getattr(pack, section))) > len(entries[section])
    )
    entries["timeline"] = sorted(entries["timeline"], key=lambda event: (event.began, event.said))
    entries["timeline"] = tuple(entries["timeline"])
    return msgspec.structs.replace(pack, left_out=left_out, **entries)
