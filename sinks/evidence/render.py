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


def as_json(pack: Pack, most_bytes: int = DEFAULT_BYTES) -> bytes:
    """One line of JSON, in the shape of `pack.schema.json`."""
    return fitted(pack, lambda part: msgspec.json.encode(part) + b"\n", most_bytes)


def as_markdown(pack: Pack, most_bytes: int = DEFAULT_BYTES) -> bytes:
    """Markdown in which log text stands in fences, each line of it behind a bar."""
    return fitted(pack, lambda part: story_markdown(_story(part)).encode(), most_bytes)


RENDERERS: Final[dict[str, Callable[[Pack, int], bytes]]] = {"markdown": as_markdown, "json": as_json}


def _story(pack: Pack) -> Story:
    of_cause = 1 if pack.lines and pack.lines[0].reference == pack.verdict.line else 0
    sections = (
        Section("Verdict", (_verdict(pack), Points((pack.notice,)), *_quotes(pack.lines[:of_cause]))),
        _section("Why", ("Reason", "Reference"), [(one.says, one.reference) for one in pack.reasons]),
        _section("Timeline", ("Began (UTC)", "Said", "Role", "What", "Reference"), _timeline(pack)),
        _section(
            "Roles",
            ("Role", "Class", "Nodes", "Ranks", "First line"),
            [(one.role, one.failure_class, one.nodes, one.ranks, one.reference) for one in pack.roles],
        ),
        _section(
            "Edges",
            ("Cause", "explains", "Because", "Its line"),
            [(one.cause, one.effect, one.why, one.effect_reference) for one in pack.edges],
        ),
        _section("Ranks", ("Ranks", "Job", "Nodes", "Said first", "From", "To", "First line"), _ranks(pack)),
        _section("Gaps", ("Missing", "Reference"), [(one.says, one.reference) for one in pack.gaps]),
        _section("Alternatives", ("Or else", "Confidence", "Reasons", "Reference"), _alternatives(pack)),
        _section(
            "Next checks",
            ("Check", "Command or reference"),
            [(one.says, shlex.join(one.command) or one.reference) for one in pack.next_checks],
        ),
        _section(
            "History",
            ("Time (UTC)", "What", "Reference"),
            [(humanize.date_and_clock(one.time, 3), one.says, one.reference) for one in pack.history],
        ),
        Section("Lines", _quotes(pack.lines[of_cause:])),
        Section("Left out", _left_out(pack)),
    )
    title = f"Incident {pack.incident}, revision {pack.revision}: {pack.title}"
    return Story(title, _sentence(pack), tuple(section for section in sections if section.blocks))


def _sentence(pack: Pack) -> str:
    verdict = pack.verdict
    place = humanize.where(verdict.node, verdict.gpu, verdict.rank)
    cost = _lost(pack) or "not known"
    sure = f"confidence {humanize.percent(verdict.confidence)}, {verdict.sureness}"
    return f"{verdict.cause}{place} came first ({sure}). Cost: {cost}. State: {verdict.state}."


def _section(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Section:
    return Section(title, (Grid(head, tuple(rows), quotes=True),) if rows else ())


def _verdict(pack: Pack) -> Grid:
    verdict = pack.verdict
    place = humanize.where(verdict.node, verdict.gpu, verdict.rank)
    reach, lost = verdict.reach, verdict.lost
    state = f"{verdict.state}, {verdict.severity}" + (f", {verdict.silence}" if verdict.silence else "")
    counts = humanize.reach_in_full(BlastRadius(reach.nodes, reach.ranks, reach.jobs, reach.gpus))
    action = verdict.action.kind + humanize.where(verdict.action.node, verdict.action.gpu)
    rows = (
        ("Cause", f"{verdict.cause}{place} (rule {verdict.rule})", verdict.line),
        ("Confidence", f"{humanize.percent(verdict.confidence)}: {verdict.sureness}", verdict.reference),
        ("Cost", _lost(pack) or "not known", lost.reference),
        ("State", f"{state}; {humanize.count(verdict.signals, 'signal')}", f"incident:{pack.incident}@{pack.revision}"),
        (
            "Seen",
            f"from {humanize.date_and_clock(verdict.first_seen, 3)} "
            f"to {humanize.date_and_clock(verdict.last_seen, 3)} UTC",
            "",
        ),
        ("Reaches", counts, reach.reference),
        ("Nodes", humanize.names(reach.first_nodes, len(reach.first_nodes)), ""),
        ("Jobs", humanize.names(reach.first_jobs, len(reach.first_jobs)), ""),
        ("Action", f"{action}; epicenter itself does nothing", verdict.action.reference),
    )
    return Grid(("Verdict", "", "Reference"), rows, quotes=True)


def _lost(pack: Pack) -> str:
    lost = pack.verdict.lost
    cost = Cost(lost.steps, lost.gpu_hours, lost.gpus, lost.since_checkpoint_step)
    return name(humanize.lost_since(cost), MAX_PLACE_BYTES)


def _timeline(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            humanize.date_and_clock(one.began, 3),
            "" if one.said == one.began else humanize.date_and_clock(one.said, 3)[11:],
            one.role,
            f"{one.failure_class}{humanize.where(one.node, rank=one.rank)}",
            one.reference,
        )
        for one in pack.timeline
    ]


def _ranks(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.ranks} ({one.count})",
            one.job,
            str(one.nodes),
            one.failure_class,
            humanize.date_and_clock(one.first, 3),
            humanize.date_and_clock(one.last, 3)[11:],
            one.reference,
        )
        for one in pack.ranks
    ]


def _alternatives(pack: Pack) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.failure_class}{humanize.where(one.node, one.gpu, one.rank)}",
            humanize.percent(one.confidence),
            "; ".join(one.reasons),
            one.reference,
        )
        for one in pack.alternatives
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


def _left_out(pack: Pack) -> tuple[Points, ...]:
    sentences = [f"{one.entries} of {one.of} entries of {one.section.replace('_', ' ')}" for one in pack.left_out]
    return (Points(tuple(f"{sentence} left out for want of room" for sentence in sentences)),) if sentences else ()
