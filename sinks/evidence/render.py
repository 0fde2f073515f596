"""A pack as bytes: Markdown for people and language models, JSON for programs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

import msgspec

from epicenter.rules.model.incident import BlastRadius, Cost
from epicenter.sinks.evidence.fit import DEFAULT_BYTES, fitted
from epicenter.sinks.evidence.shape import Line, Pack
from epicenter.sinks.evidence.untrusted import name
from epicenter.sinks.text import humanize
from epicenter.sinks.text.markdown import story_markdown
from epicenter.sinks.text.story import Grid, Points, Quote, Section, Story

MAX_PLACE_BYTES: Final = 240


def as_json(pack: Pack, max_bytes: int = DEFAULT_BYTES) -> bytes:
    """One line of JSON, in the shape of `pack.schema.json`."""
    return fitted(pack, lambda part: msgspec.json.encode(part) + b"\n", max_bytes)


def as_markdown(pack: Pack, max_bytes: int = DEFAULT_BYTES) -> bytes:
    """Markdown with log text in fences, each line behind a bar."""
    return fitted(pack, lambda part: story_markdown(_story(part)).encode(), max_bytes)


RENDERERS: Final[dict[str, Callable[[Pack, int], bytes]]] = {"markdown": as_markdown, "json": as_json}


def _story(pack: Pack) -> Story:
    of_cause = 1 if pack.lines and pack.lines[0].reference == pack.verdict.line else 0
    sections = (
        Section("Verdict", (Points((pack.notice,)), _title(pack), _verdict(pack), *_quotes(pack.lines[:of_cause]))),
        _section("Reasons", ("Reason", "Reference"), [(claim.text, claim.reference) for claim in pack.reasons]),
        _section("Timeline", ("Started (UTC)", "Logged", "Role", "Event", "Reference"), _timeline(pack)),
        _section(
            "Roles",
            ("Role", "Class", "Nodes", "Ranks", "First line"),
            [(part.role, part.failure_class, part.nodes, part.ranks, part.reference) for part in pack.roles],
        ),
        _section(
            "Explanations",
            ("Cause", "Effect", "Reason", "Line of the effect"),
            [(edge.cause, edge.effect, edge.why, edge.effect_reference) for edge in pack.edges],
        ),
        _section("Ranks", ("Ranks", "Job", "Nodes", "First class", "From", "To", "First line"), _ranks(pack)),
        _section("Missing evidence", ("Missing", "Reference"), [(claim.text, claim.reference) for claim in pack.gaps]),
        _section("Alternatives", ("Candidate", "Confidence", "Reasons", "Reference"), _alternatives(pack)),
        _section(
            "Next checks",
            ("Check", "Command or reference"),
            [(check.text, shlex.join(check.command) or check.reference) for check in pack.next_checks],
        ),
        _section(
            "History",
            ("Time (UTC)", "Event", "Reference"),
            [(humanize.date_and_clock(change.time, 3), change.text, change.reference) for change in pack.history],
        ),
        Section("Log lines", _quotes(pack.lines[of_cause:])),
        Section("Omitted", _omitted(pack)),
    )
    title = f"Incident {pack.incident}, revision {pack.revision}: {pack.verdict.cause}"
    return Story(title, _sentence(pack), tuple(section for section in sections if section.blocks))


def _title(pack: Pack) -> Quote:
    """What has names in it: names come from logs, as the lines do."""
    verdict = pack.verdict
    place = f"{verdict.cause}{humanize.where(verdict.node, verdict.gpu, verdict.rank)}"
    return Quote("Untrusted names, title and place", f"| {pack.title}\n| {place}", verdict.reference)


def _sentence(pack: Pack) -> str:
    """What came first, without names: readers meet them after the notice."""
    verdict = pack.verdict
    cost = _lost(pack) or "not known"
    confidence = f"confidence {humanize.percent(verdict.confidence)}, {verdict.sureness}"
    return f"{verdict.cause} came first ({confidence}). Cost: {cost}. State: {verdict.state}."


def _section(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Section:
    return Section(title, (Grid(head, tuple(rows), quotes=True),) if rows else ())


def _verdict(pack: Pack) -> Grid:
    verdict = pack.verdict
    reach, lost = verdict.reach, verdict.lost
    state = f"{verdict.state}, {verdict.severity}" + (f", {verdict.silence}" if verdict.silence else "")
    counts = humanize.reach_in_full(BlastRadius(reach.nodes, reach.ranks, reach.jobs, reach.gpus))
    action = verdict.action.kind + humanize.where(verdict.action.node, verdict.action.gpu)
    rows = (
        ("Cause", f"{verdict.cause} (rule {verdict.rule})", verdict.line),
        ("Confidence", f"{humanize.percent(verdict.confidence)}: {verdict.sureness}", verdict.reference),
        ("Cost", _lost(pack) or "not known", lost.reference),
        ("State", f"{state}; {humanize.count(verdict.signals, 'signal')}", f"incident:{pack.incident}@{pack.revision}"),
        (
            "Seen",
            f"from {humanize.date_and_clock(verdict.first_seen, 3)} "
            f"to {humanize.date_and_clock(verdict.last_seen, 3)} UTC",
            "",
        ),
        ("Impact", counts, reach.reference),
        ("Nodes", humanize.names(reach.first_nodes, len(reach.first_nodes)), ""),
        ("Jobs", humanize.names(reach.first_jobs, len(reach.first_jobs)), ""),
        ("Action", f"{action}; epicenter never executes it", verdict.action.reference),
    )
    return Grid(("Field", "Value", "Reference"), rows, quotes=True)


def _lost(pack: Pack) -> str:
    lost = pack.verdict.lost
    cost = Cost(lost.steps, lost.gpu_hours, lost.gpus, lost.since_checkpoint_step)
    return name(humanize.lost_since(cost), MAX_PLACE_BYTES)


def _timeline(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            humanize.date_and_clock(event.began, 3),
            "" if event.logged == event.began else humanize.date_and_clock(event.logged, 3)[11:],
            event.role,
            f"{event.failure_class}{humanize.where(event.node, rank=event.rank)}",
            event.reference,
        )
        for event in pack.timeline
    ]


def _ranks(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            f"{group.ranks} ({group.count})",
            group.job,
            str(group.nodes),
            group.failure_class,
            humanize.date_and_clock(group.first, 3),
            humanize.date_and_clock(group.last, 3)[11:],
            group.reference,
        )
        for group in pack.ranks
    ]


def _alternatives(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            f"{candidate.failure_class}{humanize.where(candidate.node, candidate.gpu, candidate.rank)}",
            humanize.percent(candidate.confidence),
            "; ".join(candidate.reasons),
            candidate.reference,
        )
        for candidate in pack.alternatives
    ]


def _quotes(lines: tuple[Line, ...]) -> tuple[Quote, ...]:
    return tuple(
        Quote(
            f"Untrusted log text, {line.failure_class}{humanize.where(line.node)}{', cut' * line.is_cut}",
            "\n".join(f"| {text}" for text in line.untrusted_log_lines),
            line.reference,
        )
        for line in lines
    )


def _omitted(pack: Pack) -> tuple[Points, ...]:
    sentences = [f"{cut.entries} of {cut.of} entries of {cut.section.replace('_', ' ')}" for cut in pack.left_out]
    return (Points(tuple(f"{sentence} omitted to fit the size limit" for sentence in sentences)),) if sentences else ()
