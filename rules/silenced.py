"""Silences: what people do not want to hear of for a while, and which incidents each of them fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

MATCHERS: Final = ("class", "node", "job", "cluster")
"""What a silence may name; all that it names has to fit."""


class Silence(msgspec.Struct, frozen=True):
    """`matchers` by one of `MATCHERS`; it holds from `begins_ns` up to `ends_ns`, the end not included."""

    silence_id: str
    matchers: Mapping[str, str]
    begins_ns: int
    ends_ns: int
    who: str
    reason: str
    changed_ns: int = 0

    def is_active(self, now_ns: int) -> bool:
        """Whether it holds now."""
        return self.begins_ns <= now_ns < self.ends_ns

    def fits(self, document: Mapping[str, Any]) -> bool:
        """Whether it concerns this incident (the document, as plain lists and mappings).

        A node has to be where it began, or all that it reaches: who silences a drained node wants to hear of a failure
        that begins elsewhere and reaches that node among a thousand.
        """
        root, nodes = document["root_cause"], document["nodes"]
        told = {
            "class": {document["class"], root["class"]},
            "node": {root["node"] or (nodes[0] if len(nodes) == 1 else "")},
            "job": set(document["jobs"]),
            "cluster": {document["cluster"]},
        }
        return bool(self.matchers) and all(value in told.get(name, ()) for name, value in self.matchers.items())


def silenced_by(silences: Sequence[Silence], document: Mapping[str, Any], now_ns: int) -> Silence | None:
    """The silence that keeps people from hearing of this incident now; of several the one that lasts longest."""
    fitting = [one for one in silences if one.is_active(now_ns) and one.fits(document)]
    return max(fitting, key=lambda one: (one.ends_ns, one.silence_id), default=None)
