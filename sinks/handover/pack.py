"""An incident's document -> its evidence pack: every claim short, inert, and with a reference; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rules.hostlist import compress
from sinks.handover.links import References, lines_of_links
from sinks.handover.ranges import ranges
from sinks.handover.reference import line_reference, part_reference
from sinks.handover.shape import (
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
from sinks.handover.untrusted import NOTICE, log_lines, name
from sinks.page.views import sureness

Document = Mapping[str, Any]

SENTENCE_BYTES: Final = 320
TITLE_BYTES: Final = 200
CAUSE_BYTES: Final = 800
LINE_BYTES: Final = 480
MOST_NAMED: Final = 6
MOST_REASONS: Final = 6
NOTHING_KNOWN: Final = FromStore()


def pack_of(document: Document, known: FromStore = NOTHING_KNOWN) -> Pack:
    """The whole pack of a document as `checked` gives it; each section's entries in the order of their worth."""
    references = References(document)
    lines: dict[str, Line] = {}
    for line in _lines(document, references, known):
        lines.setdefault(line.reference, line)
    return Pack(
        schema=SCHEMA,
        incident=document["incident_id"],
        revision=document["revision"],
        title=name(document["title"], TITLE_BYTES),
        cluster=name(document["cluster"]),
        verdict=_verdict(document, references),
        notice=NOTICE,
        reasons=tuple(_claims(document, document["root_cause"]["reasons"], "root_cause", "reasons")),
        timeline=tuple(_timeline(document, references)),
        roles=tuple(_roles(document, references)),
        edges=tuple({(one.cause, one.effect, one.why): one for one in _edges(document, references)}.values()),
        ranks=tuple(map(_ranks, known.ranks)) or tuple(_ranks_of_chain(document, references)),
        gaps=tuple(_claims(document, document["missing"], "missing")),
        alternatives=tuple(_alternatives(document, references)),
        next_checks=tuple(_next_checks(document, references)),
        history=(*_history(document), *known.changes),
        lines=tuple(lines.values()),
    )


def _verdict(document: Document, references: References) -> Verdict:
    root, reach, cost = document["root_cause"], document["blast_radius"], document["cost"]
    return Verdict(
        cause=name(root["class"]),
        rule=name(root["rule"]),
        node=name(root["node"]),
        rank=root["rank"],
        gpu=name(root["gpu"], 40),
        confidence=root["confidence"],
        sureness=sureness(root["confidence"]),
        state=f"merged into {name(document['merged_into'])}"
        if document["merged_into"]
        else name(document["status"], 40),
        severity=name(document["severity"], 40),
        silence=name(document["verdict"], 40),
        first_seen=name(document["first_seen"], 40),
        last_seen=name(document["last_seen"], 40),
        signals=document["signal_count"],
        reach=Reach(
            nodes=reach["nodes"],
            ranks=reach["ranks"],
            jobs=reach["jobs"],
            gpus=reach["gpus"],
            first_nodes=_first(document["nodes"]),
            first_jobs=_first(document["jobs"]),
            reference=part_reference(document, "blast_radius"),
        ),
        lost=Lost(
            steps=cost["steps_lost"],
            gpu_hours=cost["gpu_hours_lost"],
            gpus=cost["gpus"],
            since_checkpoint_step=cost["since_checkpoint_step"],
            reference=part_reference(document, "cost"),
        ),
        action=Action(
            kind=name(document["action"], 60),
            node=name(root["node"]),
            gpu=name(root["gpu"], 40),
            reference=part_reference(document, "action"),
        ),
        line=references.of_root,
        reference=part_reference(document, "root_cause"),
    )


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name(one, 60) for one in names[:MOST_NAMED])


def _claims(document: Document, sentences: Sequence[str], *path: str) -> Iterator[Claim]:
    for number, sentence in enumerate(sentences):
        yield Claim(name(sentence, SENTENCE_BYTES), part_reference(document, *path, number))


def _timeline(document: Document, references: References) -> Iterator[Event]:
    """The root first, then the first of each class, then the others."""
    seen: dict[tuple[bool, str], int] = {}
    order: list[tuple[int, int]] = []
    for number, link in enumerate(document["chain"]):
        key = (link["role"] == "root", link["class"])
        order.append((-1 if key[0] else seen.get(key, 0), number))
        seen[key] = seen.get(key, 0) + 1
    for _, number in sorted(order):
        link = document["chain"][number]
        yield Event(
            began=name(link["onset"], 40),
            said=name(link["event_time"], 40),
            role=name(link["role"], 40),
            failure_class=name(link["class"]),
            node=name(link["node"]),
            rank=link["rank"],
            reference=references.of_link[number],
        )


def _roles(document: Document, references: References) -> Iterator[Part]:
    groups: dict[tuple[str, str], list[int]] = {}
    for number, link in enumerate(document["chain"]):
        groups.setdefault((link["role"], link["class"]), []).append(number)
    for (role, failure_class), numbers in sorted(groups.items(), key=lambda group: group[0][0] != "root"):
        links = [document["chain"][number] for number in numbers]
        yield Part(
            role=name(role, 40),
            failure_class=name(failure_class),
            nodes=name(compress(link["node"] for link in links if link["node"]), 120),
            ranks=ranges(link["rank"] for link in links if link["rank"] is not None),
            reference=references.of_link[numbers[0]],
        )


def _edges(document: Document, references: References) -> Iterator[Edge]:
    """What the root explains, and what explains each candidate."""
    root = document["root_cause"]
    for number, effect in enumerate(root["explains"]):
        yield _edge(
            (root["class"], references.of_root),
            (effect["class"], references.of(effect["class"])),
            effect["why"],
            part_reference(document, "root_cause", "explains", number),
        )
    for number, candidate in enumerate(document["candidates"]):
        if cause := candidate["explained_by"]:
            yield _edge(
                (cause["class"], references.of(cause["class"], cause["node"])),
                (candidate["class"], references.of(candidate["class"], candidate["node"])),
                cause["why"],
                part_reference(document, "candidates", number, "explained_by"),
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
        reference=_of_group(group),
    )


def _of_group(group: RankGroup) -> str:
    return line_reference(group.source, group.number, f"signal:{group.signal_id}")


def _ranks_of_chain(document: Document, references: References) -> Iterator[Ranks]:
    """Of a document without a store: the ranks that the chain names, by what each of them said first."""
    first: dict[int, int] = {}
    for number, link in enumerate(document["chain"]):
        if link["rank"] is not None:
            first.setdefault(link["rank"], number)
    groups: dict[str, list[int]] = {}
    for rank, number in first.items():
        groups.setdefault(document["chain"][number]["class"], []).append(rank)
    for failure_class, ranks in groups.items():
        links = [document["chain"][first[rank]] for rank in ranks]
        yield Ranks(
            job=name(document["jobs"][0]) if len(document["jobs"]) == 1 else "",
            ranks=ranges(ranks),
            count=len(ranks),
            failure_class=name(failure_class),
            nodes=len({link["node"] for link in links if link["node"]}),
            first=name(min(link["onset"] for link in links), 40),
            last=name(max(link["onset"] for link in links), 40),
            reference=references.of_link[first[ranks[0]]],
        )


def _alternatives(document: Document, references: References) -> Iterator[Alternative]:
    for number, one in list(enumerate(document["candidates"]))[1:]:
        line = references.of(one["class"], one["node"])
        yield Alternative(
            failure_class=name(one["class"]),
            node=name(one["node"]),
            rank=one["rank"],
            gpu=name(one["gpu"], 40),
            confidence=one["confidence"],
            reasons=tuple(name(reason, SENTENCE_BYTES) for reason in one["reasons"][:MOST_REASONS]),
            reference=line or part_reference(document, "candidates", number),
        )


def _next_checks(document: Document, references: References) -> Iterator[Check]:
    """Steps of the rule, then what this program can be asked; a name that a shell could misread is in one argument."""
    for number, step in enumerate(document["next_steps"]):
        yield Check(name(step, SENTENCE_BYTES), (), part_reference(document, "next_steps", number))
    root, incident_id = document["root_cause"], document["incident_id"]
    asked = [("Read what was logged around the cause's line", _logs(references.of_root))]
    if others := document["candidates"][1:2]:
        line = references.of(others[0]["class"], others[0]["node"]) or part_reference(document, "candidates", 1)
        asked.append(("Read the same of the next candidate", _logs(line)))
    asked.append(("Read the rule that found it", ("epicenter", "rules", "show", root["rule"])))
    if root["node"] and not re.search(r"\s", root["node"]):
        search = ("epicenter", "incidents", "list", "--search", f"node:{root['node']}")
        asked.append(("Look for earlier incidents of the same node", search))
    asked.append(("Read the whole incident", ("epicenter", "incidents", "show", incident_id, "--json")))
    for says, command in asked:
        if all(argument == name(argument, 240) for argument in command):
            yield Check(says, command, part_reference(document, "root_cause"))


def _logs(reference: str) -> tuple[str, ...]:
    return ("epicenter", "logs", "--before", "20", "--after", "20", "--", reference)


def _history(document: Document) -> Iterator[Change]:
    for number, change in enumerate(document["history"]):
        reference = part_reference(document, "history", number)
        yield Change(name(change["time"], 40), name(change["what"], SENTENCE_BYTES), reference)


def _lines(document: Document, references: References, known: FromStore) -> Iterator[Line]:
    """The cause's words first, then those of the other links, then those of ranks that the chain does not name."""
    numbers = lines_of_links(document)
    order = sorted(range(len(numbers)), key=lambda number: references.of_link[number] != references.of_root)
    for number in order:
        link, of_line = document["chain"][number], numbers[number]
        text = link["text"] if of_line is None else document["evidence"][of_line]["text"]
        yield _line(
            references.of_link[number],
            link["node"],
            link["class"],
            text,
            CAUSE_BYTES if number == order[0] else LINE_BYTES,
        )
    for number, line in enumerate(document["evidence"]):
        yield _line(references.of_evidence[number], line["node"], line["class"], line["text"], LINE_BYTES)
    for group in known.ranks:
        yield _line(_of_group(group), group.node, group.failure_class, group.text, LINE_BYTES)


def _line(reference: str, node: str, failure_class: str, text: str, most_bytes: int) -> Line:
    shown, is_cut = log_lines(text, most_bytes)
    return Line(reference, name(node), name(failure_class), shown, is_cut)
