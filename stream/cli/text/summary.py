"""An incident on one screen: the verdict, why, what to do, and the lines that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from epicenter.ingest.parse.prefix import peel
from epicenter.rules.model.incident import ChainLink, Incident
from epicenter.rules.model.job_names import jobs_in_words
from epicenter.sinks.text.humanize import LIKELY, count, date_and_clock
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.cli.text.layout import Line, command_lines, heading, unit, with_commands
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, safe

MAX_REASONS: Final = 3
MAX_CHECKS: Final = 2
MAX_COMMANDS: Final = 4
MAX_STEPS: Final = 4
MAX_PROOFS: Final = 5
MAX_PROOF_ROWS: Final = 2
MAX_NAMED_NODES: Final = 2
MAX_NODE_COLUMNS: Final = 24


def incident_summary(incident: Incident, more: str = "--full") -> Iterator[Line]:
    """An incident on one screen; `more` shows the rest."""
    view = IncidentView(incident)
    yield from _verdict(view)
    yield from _why(view)
    yield from _to_do(view)
    yield from _proof(view, more)


def _verdict(view: IncidentView) -> Iterator[Line]:
    incident = view.incident
    label = f"{safe(incident.severity).upper()}  "
    yield Line(label, f"[bold]{safe(view.title)}[/]", left_style=SEVERITY_STYLES.get(incident.severity, ""))
    facts = (
        f"{incident.failure_class}, {view.sureness} ({view.cause.confidence_percent})",
        _state(incident),
        jobs_in_words(incident.jobs),
        view.reach,
        view.lost and f"lost {view.lost}",
    )
    yield Line(" " * len(label), " · ".join(unit(safe(fact)) for fact in facts if fact))


def _state(incident: Incident) -> str:
    began, ended = (date_and_clock(time) for time in (incident.first_seen, incident.last_seen))
    if incident.merged_into:
        return f"merged into incident {incident.merged_into}"
    if not incident.first_seen:
        return f"{incident.status}, times not known: in the order of lines"
    if incident.status == "resolved":
        return f"resolved, {began} to {ended.removeprefix(began[:11])} UTC"
    return f"{incident.status} since {began} UTC"


def _why(view: IncidentView) -> Iterator[Line]:
    yield from heading("Why")
    for reason in view.cause.reasons[:MAX_REASONS]:
        yield Line("  - ", safe(reason))
    for check in view.incident.checks[:MAX_CHECKS]:
        yield Line("  - ", f"{safe(check.question)} {safe(check.answer)}")
    if view.cause.confidence < LIKELY:
        for other in view.candidates[1:2]:
            yield Line("  - ", safe(f"or else: {other.failure_class}{other.where}, {other.confidence_percent}"))


def _to_do(view: IncidentView) -> Iterator[Line]:
    steps, commands = view.next_steps, view.incident.commands
    if steps or commands:
        yield from heading("What to do")
    yield from command_lines(commands[:MAX_COMMANDS])
    for number, step in enumerate(steps[:MAX_STEPS], 1):
        yield Line(f"  {number}. ", with_commands(safe(step)))


def _proof(view: IncidentView, more: str) -> Iterator[Line]:
    groups = _shown_groups(view.incident)
    yield from heading("Proof")
    columns = min(MAX_NODE_COLUMNS, max((cell_len(sanitize(group[0].node)) for group in groups), default=0))
    for first, *others in groups:
        node = set_cell_size(sanitize(first.node), columns)
        left = f"  {date_and_clock(first.event_time)[11:]} {node} "
        yield Line(left, safe(peel(first.text).body), _alike(first, others), MAX_PROOF_ROWS)
    hidden = len(view.chain) - sum(map(len, groups))
    left_out = (count(hidden, "more line") if hidden else "", _other_candidates(view))
    rest = f"{', '.join(filter(None, left_out)) or 'times, changes and fields'}: {more}"
    yield Line("", "")
    yield Line("", f"[dim]incident {safe(view.incident.incident_id)} · {rest}[/]")


def _other_candidates(view: IncidentView) -> str:
    others = len(view.candidates) - 1
    return count(others, "other candidate") if others > 0 else ""


def _shown_groups(incident: Incident) -> list[list[ChainLink]]:
    """Lines that are alike, the root's first. Those that it explains count more than others, teardown least."""
    by_class: dict[str, list[ChainLink]] = {}
    class_by_text: dict[str, str] = {}
    for link in incident.chain:
        name = class_by_text.setdefault(link.text, link.failure_class)
        by_class.setdefault(name, []).append(link)
    root = incident.root_cause
    explained = [effect.failure_class for effect in root.explains]

    def importance(name: str) -> int:
        marks = name == root.failure_class, name in explained, by_class[name][0].role != "teardown"
        return next((place for place, is_so in enumerate(marks) if is_so), len(marks))

    chosen = [sorted(by_class[name], key=lambda link: link.role != "root") for name in sorted(by_class, key=importance)]
    return sorted(
        chosen[:MAX_PROOFS], key=lambda group: (group[0].failure_class != root.failure_class, group[0].event_time)
    )


def _alike(first: ChainLink, others: Sequence[ChainLink]) -> str:
    if not others:
        return ""
    nodes = sorted({link.node for link in others if link.node} - {first.node}, key=lambda node: (len(node), node))
    named = ", ".join(nodes) if len(nodes) <= MAX_NAMED_NODES else f"{nodes[0]} … {nodes[-1]}"
    return f"[dim](and {len(others)} more like it{safe(f' on {named}') if nodes else ''})[/]"
