"""A draft of a rule: what another tool's rule says, and marks where a person has to decide."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from rules.importing.pattern import Adapted
from rules.importing.samples import near_miss, samples

UNKNOWN_CLASS: Final = "unclassified"
_QUIET: Final = {"context": "job-fact", "harmless": "harmless"}


class Draft(msgspec.Struct, frozen=True):
    """A rule as it will stand in the pack, and where it came from."""

    place: str
    spec: Mapping[str, Any]


class Drafts:
    """What one import has found so far: drafts, losses and mistakes of the input."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.losses: list[str] = []
        self.problems: list[str] = []
        self._ids: set[str] = set()

    def lose(self, place: str, name: str, what: str) -> None:
        """Say what is not carried over."""
        self.losses.append(f"{place}: {name}: {what}")

    def lose_keys(self, place: str, name: str, content: Any, known: Collection[str]) -> None:
        """Say which keys of a mapping have no counterpart here."""
        if unknown := [str(key) for key in content if key not in known]:
            self.lose(place, name, f"not carried over: {', '.join(unknown)}")

    def line(self, place: str, title: str, adapted: Adapted, **said: Any) -> str:
        """Add a rule that looks at lines; its id. `said` holds what the other tool knows: severity, source, role …"""
        for loss in adapted.losses:
            self.lose(place, title, loss)
        role = said.get("role", "root")
        spec = {
            **self._head(place, title, _QUIET.get(role, UNKNOWN_CLASS)),
            "source": "any",
            "patterns": list(adapted.patterns),
            **({"extract": list(adapted.extract)} if adapted.extract else {}),
            **_what_nobody_knows(place, title),
            **({} if role in _QUIET else {"fallback": True}),
            **said,
            "examples": {"matches": samples(adapted.patterns), "near_misses": [near_miss(adapted.patterns)]},
        }
        self.drafts.append(Draft(place, spec))
        return str(spec["id"])

    def window(self, place: str, title: str, when: Mapping[str, Any], **said: Any) -> str:
        """Add a rule that looks at what others find; its id."""
        spec = {
            **self._head(place, title, UNKNOWN_CLASS),
            "source": "any",
            "when": dict(when),
            **_what_nobody_knows(place, title),
            **said,
        }
        self.drafts.append(Draft(place, spec))
        return str(spec["id"])

    def _head(self, place: str, title: str, failure_class: str) -> dict[str, Any]:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", title)
        name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:48].strip("_") or "rule"
        number = next(n for n in range(1, 10_000) if (f"{name}_{n}" if n > 1 else name) not in self._ids)
        self._ids.add(name := f"{name}_{number}" if number > 1 else name)
        return {"id": f"imported.{name}", "title": title, "class": failure_class}


def _what_nobody_knows(place: str, title: str) -> dict[str, Any]:
    return {
        "severity": "warning",
        "role": "root",
        "entity": "node",
        "meaning": title,
        "next_steps": ["TODO: say what to do about it."],
        "action": "none",
        "references": [f"imported from {place}"],
    }
