"""What templates show of an incident's document, worked out in words and short lists; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from rules.model import Acknowledgement
from sinks import words
from sinks.story import LIKELY

Document = Mapping[str, Any]

SHOWN_LINES: Final = 6
_SURENESS: Final = ((0.9, "almost certain"), (LIKELY, "likely"), (0.5, "more likely than not"), (0.0, "a guess"))


_LATER_FIELDS: Final[Document] = {
    "candidates": [],
    "missing": [],
    "history": [],
    "recurrence": None,
    "verdict": "",
    "reopened": 0,
}
_COST: Final = {"steps_lost": None, "gpu_hours_lost": None, "gpus": None}


class EvidenceLine(msgspec.Struct, frozen=True):
    """A line (or block) word for word; `is_root` when it is what the root cause says."""

    place: str
    node: str
    failure_class: str
    text: str
    is_root: bool


def complete(document: Document) -> dict[str, Any]:
    """The document with what an earlier epicenter did not write yet."""
    cost, blast = {**_COST, **(document.get("cost") or {})}, {"gpus": 0, **document["blast_radius"]}
    return {**_LATER_FIELDS, **document, "cost": cost, "blast_radius": blast}


def cause_sentence(document: Document) -> str:
    """One sentence: what came first, where and when, and how it led to the rest: to another node, if it reached one."""
    root = document["root_cause"]
    where = f" on {root['node']}" if root["node"] else ""
    began_ns = words.ns(next((link["onset"] for link in document["chain"] if link["role"] == "root"), ""))
    when = f" at {words.clock(began_ns)} UTC" if began_ns is not None else ""
    effects = sorted(root.get("explains", ()), key=lambda effect: effect["node"] == root["node"])
    how = effects[0]["why"] if effects else ""
    doubt = "" if root["confidence"] >= LIKELY else "probably "
    return f"{root['class']}{where} {doubt}came first{when}" + (f": {how}." if how else ".")


def sureness(confidence: float) -> str:
    """A confidence from 0 to 1 in words."""
    return next(word for least, word in _SURENESS if confidence >= least)


def evidence(document: Document) -> list[EvidenceLine]:
    """The lines, those of the root cause first, else in the order of the chain."""
    root = document["root_cause"]
    lines = [
        EvidenceLine(
            place=f"{line['source']}:{line['line']}",
            node=line["node"],
            failure_class=line["class"],
            text=line["text"],
            is_root=line["class"] == root["class"] and line["node"] == root["node"],
        )
        for line in document["evidence"]
    ]
    return sorted(lines, key=lambda line: not line.is_root)


def lasted(document: Document, now_ns: int) -> str:
    """How long an open incident has gone on, or how long one that is over took."""
    first_ns, last_ns = words.ns(document["first_seen"]), words.ns(document["last_seen"])
    if first_ns is None or last_ns is None:
        return ""
    return words.length((now_ns if document["status"] == "open" else last_ns) - first_ns)


def changes(
    document: Document,
    revisions: Sequence[Document],
    deliveries: Sequence[Document],
    acknowledgements: Sequence[Acknowledgement] = (),
) -> list[tuple[int, str]]:
    """What happened to the incident, oldest first: time in nanoseconds, and words.

    Of deliveries those that were sent; what was decided on the others stands under "Who was told".
    """
    found = [(words.ns(change["time"]) or 0, change["what"]) for change in document.get("history") or ()]
    for before, after in pairwise(revisions):
        told = [
            f"{name} {_shown(before[name])} → {_shown(after[name])}"
            for name in ("class", "confidence")
            if before[name] != after[name]
        ]
        if told:
            found.append((after["last_seen_ns"], f"revision {after['revision']}: {', '.join(told)}"))
    found += [
        (one["decided_ns"], f"{one['target']}: {one['kind']} sent") for one in deliveries if one["outcome"] == "sent"
    ]
    found += [(word.given_ns, _said(word)) for word in acknowledgements]
    return sorted(found)


def _said(word: Acknowledgement) -> str:
    what = "says that nobody takes care of it any more" if word.is_taken_back else "takes care of it"
    return f"{word.who} {what}{f': {word.note}' if word.note else ''}"


def _shown(value: object) -> str:
    return words.sure(value) if isinstance(value, float) else str(value)
