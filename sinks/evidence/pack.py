"""An incident -> its evidence pack: every claim is short, sanitized and has a reference. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ranges import ranges
from epicenter.rules.placement.hostlist import compress
from epicenter.sinks.evidence.links import References, lines_of_links
from epicenter.sinks.evidence.reference import line_reference, part_reference
from epicenter.sinks.evidence.shape import (
    SCHEMA,
    Action,
    Alternative,
    Change,
    Check,
    Claim,
    Edge,
    Event,
    FromStore,
    Line,
    Lost,
    Pack,
    Part,
    RankGroup,
    Ranks,
    Reach,
    Verdict,
)
from epicenter.sinks.evidence.untrusted import NOTICE, log_lines, name
from epicenter.sinks.text import humanize

SENTENCE_BYTES: Final = 320
TITLE_BYTES: Final = 200
CAUSE_BYTES: Final = 800
LINE_BYTES: Final = 480
MAX_NAMED: Final = 6
MAX_REASONS: Final = 6
NO_STORE: Final = FromStore()


def pack_of(incident: Incident, known: FromStore = NO_STORE) -> Pack:
    """The full pack of an incident; each section has its most important entries first."""
    references = References(incident)
    lines: dict[str, Line] = {}
    for line in _lines(incident, references, known):
        lines.setdefault(line.reference, line)
    return Pack(
        schema=SCHEMA,
        incident=incident.incident_id,
        revision=incident.revision,
        title=name(incident.title, TITLE_BYTES),
        cluster=name(incident.cluster),
        verdict=_verdict(incident, references),
        notice=NOTICE,
        reasons=tuple(_claims(incident, incident.root_cause.reasons, "root_cause", "reasons")),
        timeline=tuple(_timeline(incident, references)),
        roles=tuple(_roles(incident, references)),
        edges=tuple({(edge.cause, edge.effect, edge.why): edge for edge in _edges(incident, references)}.values()),
        ranks=tuple(map(_ranks, known.ranks)) or tuple(_ranks_of_chain(incident, references)),
        gaps=tuple(_claims(incident, incident.missing, "missing")),
        alternatives=tuple(_alternatives(incident, references)),
        next_checks=tuple(_next_checks(incident, references)),
        history=(*_history(incident), *known.changes),
        lines=tuple(lines.values()),
    )


def _verdict(incident: Incident, references: References) -> Verdict:
    root, reach, cost = incident.root_cause, incident.blast_radius, incident.cost
    return Verdict(
        cause=name(root.failure_class),
        rule=name(root.rule),
        node=name(root.node),
        rank=root.rank,
        gpu=name(root.gpu, 40),
        confidence=root.confidence,
        sureness=humanize.sureness(root.confidence),
        state=f"merged into {name(incident.merged_into)}" if incident.merged_into else name(incident.status, 40),
        severity=name(incident.severity, 40),
        silence=name(incident.verdict, 40),
        first_seen=name(incident.first_seen, 40),
        last_seen=name(incident.last_seen, 40),
        signals=incident.signal_count,
        reach=Reach(
            nodes=reach.nodes,
            ranks=reach.ranks,
            jobs=reach.jobs,
            gpus=reach.gpus,
            first_nodes=_first(incident.nodes),
            first_jobs=_first(incident.jobs),
            reference=part_reference(incident, "blast_radius"),
        ),
        lost=Lost(
            steps=cost.steps_lost,
            gpu_hours=cost.gpu_hours_lost,
            gpus=cost.gpus,
            since_checkpoint_step=cost.since_checkpoint_step,
            reference=part_reference(incident, "cost"),
        ),
        action=Action(
            kind=name(incident.action, 60),
            node=name(root.node),
            gpu=name(root.gpu, 40),
            reference=part_reference(incident, "action"),
        ),
        line=references.of_root,
        reference=part_reference(incident, "root_cause"),
    )


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name(text, 60) for text in names[:MAX_NAMED])


def _claims(incident: Incident, sentences: Sequence[str], *path: str) -> Iterator[Claim]:
    for number, sentence in enumerate(sentences):
        yield Claim(name(sentence, SENTENCE_BYTES), part_reference(incident, *path, number))


def _timeline(incident: Incident, references: References) -> Iterator[Event]:
    """The root first, then the first of each class, then the others."""
    seen: dict[tuple[bool, str], int] = {}
    order: list[tuple[int, int]] = []
    for number, link in enumerate(incident.chain):
        key = (link.role == "root", link.failure_class)
        order.append((-1 if key[0] else seen.get(key, 0), number))
        seen[key] = seen.get(key, 0) + 1
    for _, number in sorted(order):
        link = incident.chain[number]
        yield Event(
            began=name(link.onset, 40),
            logged=name(link.event_time, 40),
            role=name(link.role, 40),
            failure_class=name(link.failure_class),
            node=name(link.node),
            rank=link.rank,
            reference=references.of_link[number],
        )


def _roles(incident: Incident, references: References) -> Iterator[Part]:
    groups: dict[tuple[str, str], list[int]] = {}
    for number, link in enumerate(incident.chain):
        groups.setdefault((link.role, link.failure_class), []).append(number)
    for (role, failure_class), numbers in sorted(groups.items(), key=lambda group: group[0][0] != "root"):
        links = [incident.chain[number] for number in numbers]
        yield Part(
            role=name(role, 40),
            failure_class=name(failure_class),
            nodes=name(compress(link.node for link in links if link.node), 120),
            ranks=ranges(link.rank for link in links if link.rank is not None),
            reference=references.of_link[numbers[0]],
        )


def _edges(incident: Incident, references: References) -> Iterator[Edge]:
    """What the root cause explains, and what explains each candidate."""
    root = incident.root_cause
    for number, effect in enumerate(root.explains):
        yield _edge(
            (root.failure_class, references.of_root),
            (effect.failure_class, references.of(effect.failure_class)),
            effect.why,
            part_reference(incident, "root_cause", "explains", number),
        )
    for number, candidate in enumerate(incident.candidates):
        if cause := candidate.explained_by:
            yield _edge(
                (cause.failure_class, references.of(cause.failure_class, cause.node)),
                (candidate.failure_class, references.of(candidate.failure_class, candidate.node)),
                cause.why,
                part_reference(incident, "candidates", number, "explained_by"),
            )


def _edge(cause: tuple[str, str], effect: tuple[str, str], why: str, reference: str) -> Edge:
    return Edge(
        cause=name(cause[0]),
        cause_reference=cause[1] or reference,
        effect=name(effect[0]),
        effect_reference=effect[1] or reference,
        why=name(why, SENTENCE_BYTES),
        reference=reference,
    )


def _ranks(group: RankGroup) -> Ranks:
    return Ranks(
        job=name(group.job),
        ranks=name(group.ranks, 200),
        count=group.count,
        failure_class=name(group.failure_class),
        nodes=group.nodes,
        first=group.first,
        last=group.last,
        reference=_group_reference(group),
    )


def _group_reference(group: RankGroup) -> str:
    return line_reference(group.source, group.number, f"signal:{group.signal_id}")


def _ranks_of_chain(incident: Incident, references: References) -> Iterator[Ranks]:
    """Without a store: the ranks of the chain, grouped by the class of their first signal."""
    first: dict[int, int] = {}
    for number, link in enumerate(incident.chain):
        if link.rank is not None:
            first.setdefault(link.rank, number)
    groups: dict[str, list[int]] = {}
    for rank, number in first.items():
        groups.setdefault(incident.chain[number].failure_class, []).append(rank)
    for failure_class, ranks in groups.items():
        links = [incident.chain[first[rank]] for rank in ranks]
        yield Ranks(
            job=name(incident.jobs[0]) if len(incident.jobs) == 1 else "",
            ranks=ranges(ranks),
            count=len(ranks),
            failure_class=name(failure_class),
            nodes=len({link.node for link in links if link.node}),
            first=name(min(link.onset for link in links), 40),
            last=name(max(link.onset for link in links), 40),
            reference=references.of_link[first[ranks[0]]],
        )


def _alternatives(incident: Incident, references: References) -> Iterator[Alternative]:
    for number, candidate in list(enumerate(incident.candidates))[1:]:
        line = references.of(candidate.failure_class, candidate.node)
        yield Alternative(
            failure_class=name(candidate.failure_class),
            node=name(candidate.node),
            rank=candidate.rank,
            gpu=name(candidate.gpu, 40),
            confidence=candidate.confidence,
            reasons=tuple(name(reason, SENTENCE_BYTES) for reason in candidate.reasons[:MAX_REASONS]),
            reference=line or part_reference(incident, "candidates", number),
        )


def _next_checks(incident: Incident, references: References) -> Iterator[Check]:
    """The rule's steps, then commands to run; a name with shell characters stays one argument."""
    for number, step in enumerate(incident.next_steps):
        yield Check(name(step, SENTENCE_BYTES), (), part_reference(incident, "next_steps", number))
    root, incident_id = incident.root_cause, incident.incident_id
    commands = [("Read the log around the cause's line", _logs(references.of_root))]
    if others := incident.candidates[1:2]:
        line = references.of(others[0].failure_class, others[0].node) or part_reference(incident, "candidates", 1)
        commands.append(("Read the log around the next candidate's line", _logs(line)))
    commands.append(("Read the rule that matched", ("epicenter", "rules", "show", root.rule)))
    if root.node and not re.search(r"\s", root.node):
        search = ("epicenter", "incidents", "list", "--search", f"node:{root.node}")
        commands.append(("List earlier incidents of this node", search))
    commands.append(("Read the full incident", ("epicenter", "incidents", "show", incident_id, "--json")))
    for text, command in commands:
        if all(argument == name(argument, 240) for argument in command):
            yield Check(text, command, part_reference(incident, "root_cause"))


def _logs(reference: str) -> tuple[str, ...]:
    return ("epicenter", "logs", "--before", "20", "--after", "20", "--", reference)


def _history(incident: Incident) -> Iterator[Change]:
    for number, change in enumerate(incident.history):
        reference = part_reference(incident, "history", number)
        yield Change(name(change.time, 40), name(change.what, SENTENCE_BYTES), reference)


def _lines(incident: Incident, references: References, known: FromStore) -> Iterator[Line]:
    """The cause's line first, then the other links' lines, then those of ranks outside the chain."""
    numbers = lines_of_links(incident)
    order = sorted(range(len(numbers)), key=lambda number: references.of_link[number] != references.of_root)
    for number in order:
        link, of_line = incident.chain[number], numbers[number]
        text = link.text if of_line is None else incident.evidence[of_line].text
        yield _line(
            references.of_link[number],
            link.node,
            link.failure_class,
            text,
            CAUSE_BYTES if number == order[0] else LINE_BYTES,
        )
    for number, line in enumerate(incident.evidence):
        yield _line(references.of_evidence[number], line.node, line.failure_class, line.text, LINE_BYTES)
    for group in known.ranks:
        yield _line(_group_reference(group), group.node, group.failure_class, group.text, LINE_BYTES)


def _line(reference: str, node: str, failure_class: str, text: str, max_bytes: int) -> Line:
    shown, is_cut = log_lines(text, max_bytes)
    return Line(reference, name(node), name(failure_class), shown, is_cut)
