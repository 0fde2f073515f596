"""An incident as a story in sections, for Markdown and HTML. Its texts may contain untrusted log lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.sinks.text import humanize
from epicenter.sinks.text.incident_parts import EvidenceView, ProgressView
from epicenter.sinks.text.incident_view import IncidentView

MAX_SHOWN_NODES: Final = 24
MAX_SHOWN_TEXT: Final = 160


class Facts(msgspec.Struct, frozen=True):
    """Name and value pairs."""

    kind: ClassVar = "facts"
    pairs: tuple[tuple[str, str], ...]


class Points(msgspec.Struct, frozen=True):
    """Sentences, or ordered steps when numbered."""

    kind: ClassVar = "points"
    items: tuple[str, ...]
    is_numbered: bool = False


class Grid(msgspec.Struct, frozen=True):
    """A table; with `quotes`, the last column holds verbatim log lines."""

    kind: ClassVar = "grid"
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    quotes: bool = False


class Quote(msgspec.Struct, frozen=True):
    """Verbatim log lines with their place; `reference` is for `epicenter logs`, empty if there is none."""

    kind: ClassVar = "quote"
    place: str
    text: str
    reference: str = ""


Block = Facts | Points | Grid | Quote


class Section(msgspec.Struct, frozen=True):
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]


class Story(msgspec.Struct, frozen=True):
    """A title, a one-paragraph summary and the non-empty sections."""

    title: str
    summary: str
    sections: tuple[Section, ...]


def story_of(incident: Incident) -> Story:
    """The story of one incident."""
    view = IncidentView(incident)
    sections: list[tuple[str, list[Block]]] = [
        ("Impact", [_impact(view)]),
        ("Root cause", _root_cause(view)),
        ("Next steps", [Points(view.next_steps, is_numbered=True), *_action(incident)]),
        ("Timeline", [_timeline(view)]),
        ("Evidence", [_quote(line) for line in view.evidence]),
        ("Other candidates and missing evidence", _uncertainty(view)),
        ("Recurrence", [Points(view.recurrence)]),
    ]
    filled = [Section(title, tuple(block for block in blocks if _has_content(block))) for title, blocks in sections]
    return Story(view.title, view.summary, tuple(section for section in filled if section.blocks))


def _impact(view: IncidentView) -> Facts:
    incident = view.incident
    pairs = {
        "Severity": incident.severity,
        "Status": incident.status,
        "Cluster": incident.cluster,
        "Jobs": ", ".join(incident.jobs),
        "Impact": view.reach_in_full,
        "Nodes": humanize.names(incident.nodes, MAX_SHOWN_NODES),
        "Cost": view.lost_since,
        "First seen": f"{humanize.date_and_clock(incident.first_seen, 3)} UTC",
        "Last seen": f"{humanize.date_and_clock(incident.last_seen, 3)} UTC",
        **{humanize.capitalized(progress.name): _progress(progress) for progress in view.progress},
        "Incident": f"{incident.incident_id}, revision {incident.revision}",
    }
    return Facts(tuple((name, value) for name, value in pairs.items() if value))


def _progress(progress: ProgressView) -> str:
    pace = f", {progress.pace}" if progress.pace else ""
    return f"last step {progress.last_step} at {progress.seen} UTC{pace}"


def _root_cause(view: IncidentView) -> list[Block]:
    cause = view.cause
    pairs = (
        ("Class", cause.failure_class),
        ("Rule", cause.rule),
        ("Where", cause.where.removeprefix(" on ") or "unknown"),
        ("Confidence", cause.confidence_percent),
    )
    return [Facts(pairs), Points(cause.reasons)]


def _timeline(view: IncidentView) -> Grid:
    """The links of the chain and the changes of the incident, in time order."""
    rows = [
        (link.onset, link.began, link.role, f"{link.failure_class}{link.where}", link.logged, _cut(link.text))
        for link in view.chain
    ]
    rows += [(change.time, change.shown_time, "", change.what, "", "") for change in view.history]
    return Grid(
        ("Started (UTC)", "Role", "Event", "Logged", "Log line"), tuple(row[1:] for row in sorted(rows)), quotes=True
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_TEXT else text[: MAX_SHOWN_TEXT - 1] + "…"


def _uncertainty(view: IncidentView) -> list[Block]:
    rows = tuple(
        (f"{cause.failure_class}{cause.where}", cause.confidence_percent, "; ".join(cause.reasons))
        for cause in view.candidates[1:]
    )
    rows += tuple(_not_known(view.incident))
    return [Grid(("Candidate", "Confidence", "Why"), rows), Points(view.missing)]


def _not_known(incident: Incident) -> Iterator[tuple[str, str, str]]:
    """The row for "none of these", with what would settle it."""
    if found := incident.not_known:
        place = f" on {found.node}" if found.node else ""
        name = f"not known: {found.failure_class or 'another cause'}{place or ' elsewhere' * bool(found.failure_class)}"
        yield name, humanize.percent(found.confidence), f"what would settle it: {'; '.join(found.settled_by)}"


def _action(incident: Incident) -> Iterator[Block]:
    if incident.action not in ("", "none"):
        yield Facts((("Action", incident.action),))


def _quote(line: EvidenceView) -> Quote:
    return Quote(f"{line.place}{line.where}, {line.failure_class}", line.text)


def _has_content(block: Block) -> bool:
    content: Sequence[object] | str
    match block:
        case Facts():
            content = block.pairs
        case Points():
            content = block.items
        case Grid():
            content = block.rows
        case Quote():
            content = block.text
    return bool(content)
