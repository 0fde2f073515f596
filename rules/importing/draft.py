"""A draft of a rule from another tool's rule, with marks where you must decide."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from epicenter.rules.importing.pattern import Adapted
from epicenter.rules.importing.samples import near_miss, samples

UNKNOWN_CLASS: Final = "unclassified"


class Draft(msgspec.Struct, frozen=True):
    """A rule as the pack will have it, and where it came from."""

    place: str
    spec: Mapping[str, Any]


class Drafts:
    """The drafts, losses and problems of one import so far."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.losses: list[str] = []
        self.problems: list[str] = []
        self._ids: set[str] = set()

    def lose(self, place: str, name: str, what: str) -> None:
        """Record what is lost."""
        self.losses.append(f"{place}: {name}: {what}")

    def lose_keys(self, place: str, name: str, content: Any, supported: Collection[str]) -> None:
        """Record which keys of a mapping have no counterpart here."""
        if unknown := [str(key) for key in content if key not in supported]:
            self.lose(place, name, f"not carried over: {', '.join(unknown)}")

    def line(self, place: str, title: str, adapted: Adapted, **fields: Any) -> None:
        """Add a rule that matches lines. `fields` are those that the other tool has too: severity, source."""
        for loss in adapted.losses:
            self.lose(place, title, loss)
        spec = {
            "id": f"imported.{self._unused_name(title)}",
            "title": title,
            "class": UNKNOWN_CLASS,
            "source": "any",
            "patterns": [adapted.pattern],
            **({"extract": [adapted.extract]} if adapted.extract else {}),
            "severity": "warning",
            "role": "root",
            "entity": "node",
            "meaning": title,
            "next_steps": ["TODO: write what to do about it."],
            "action": "none",
            "references": [f"imported from {place}"],
            "fallback": True,
            **fields,
            "examples": {"matches": samples(adapted.pattern), "near_misses": [near_miss(adapted.pattern)]},
        }
        self.drafts.append(Draft(place, spec))

    def _unused_name(self, title: str) -> str:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", title)
        name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:48].strip("_") or "rule"
        number = next(n for n in range(1, 10_000) if (f"{name}_{n}" if n > 1 else name) not in self._ids)
        self._ids.add(name := f"{name}_{number}" if number > 1 else name)
        return name
