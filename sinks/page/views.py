"""What became of an incident, gathered from its history, revisions, deliveries and what people said; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from epicenter.rules.model.incident import Change
from epicenter.rules.model.notification import Acknowledgement
from epicenter.sinks.text import humanize

Row = Mapping[str, Any]


def changes(
    history: Iterable[Change],
    revisions: Sequence[Row],
    deliveries: Sequence[Row] = (),
    acknowledgements: Sequence[Acknowledgement] = (),
) -> list[tuple[int, str]]:
    """What happened to the incident, oldest first: time in nanoseconds, and words.

    Of deliveries those that were sent; what was decided on the others stands under "Who was told".
    """
    found = [(humanize.ns(change.time) or 0, change.what) for change in history]
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
    return humanize.sure(value) if isinstance(value, float) else str(value)
