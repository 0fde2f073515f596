"""The history of an incident from its document, revisions, deliveries and acknowledgements. Pure."""

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
    """Changes of the incident, oldest first: time in nanoseconds and a sentence.

    Includes sent deliveries only; all notification decisions are under "Notifications".
    """
    found = [(humanize.ns(change.time) or 0, change.what) for change in history]
    for before, after in pairwise(revisions):
        changed = [
            f"{name} {_shown(before[name])} → {_shown(after[name])}"
            for name in ("class", "confidence")
            if before[name] != after[name]
        ]
        if changed:
            found.append((after["last_seen_ns"], f"revision {after['revision']}: {', '.join(changed)}"))
    found += [
        (row["decided_ns"], f"{row['target']}: {row['kind']} sent") for row in deliveries if row["outcome"] == "sent"
    ]
    found += [(action.given_ns, _sentence(action)) for action in acknowledgements]
    return sorted(found)


def _sentence(action: Acknowledgement) -> str:
    what = "withdrew the acknowledgement" if action.is_taken_back else "acknowledged the incident"
    return f"{action.who} {what}{f': {action.note}' if action.note else ''}"


def _shown(value: object) -> str:
    return humanize.percent(value) if isinstance(value, float) else str(value)
