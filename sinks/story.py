"""An incident's document as a story in sections, for Markdown and HTML; its texts are as untrusted as log lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from sinks import words

Document = Mapping[str, Any]

LIKELY: Final = 0.7
"""A cause that is less sure is called probable."""

SHOWN_NODES: Final = 24
SHOWN_TEXT: Final = 160


class Facts(msgspec.Struct, frozen=True):
    """Names with their values."""

    kind: ClassVar = "facts"
    pairs: tuple[tuple[str, str], ...]


class Points(msgspec.Struct, frozen=True):
    """Sentences, or steps in their order when they are numbered."""

    kind: ClassVar = "points"
    items: tuple[str, ...]
    is_numbered: bool = False


class Grid(msgspec.Struct, frozen=True):
    """A table; with `quotes`, its last column holds lines word for word."""

    kind: ClassVar = "grid"
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    quotes: bool = False


class Quote(msgspec.Struct, frozen=True):
    """Lines word for word, with where they stand; `reference` is what `epicenter logs` takes, if it is told."""

    kind: ClassVar = "quote"
    place: str
    text: str
    reference: str = ""


Block = Facts | Points | Grid | Quote


class Section(msgspec.Struct, frozen=True):
    """What stands under one heading."""

    title: str
    blocks: tuple[Block, ...]


class Story(msgspec.Struct, frozen=True):
    """The whole of it: a title, one paragraph that says it all, then the sections, none of them empty."""

    title: str
    summary: str
    sections: tuple[Section, ...]


def story_of(document: Document) -> Story:
    """The story of one incident, as `Incident` has it in JSON; documents of older versions may lack fields."""
    sections: list[tuple[str, list[Block]]] = [
        ("Impact", [_impact(document)]),
        ("Root cause", _root_cause(document)),
        ("Next steps", [Points(tuple(document["next_steps"]), is_numbered=True), *_action(document)]),
        ("Timeline", [_timeline(document)]),
        ("Evidence", _evidence(document)),
        ("Doubts", _doubts(document)),
        ("Seen before", _recurrence(document.get("recurrence"))),
    ]
    filled = [Section(title, tuple(block for block in blocks if _has_content(block))) for title, blocks in sections]
    return Story(document["title"], summary(document), tuple(section for section in filled if section.blocks))


def summary(document: Document) -> str:
    """What happened, in a sentence or two."""
    root, reach = document["root_cause"], document["blast_radius"]
    began = f"It began at {clock(document['first_seen'])} UTC"
    doubt = "" if root["confidence"] >= LIKELY else "probably "
    found = f"The cause is {doubt}{root['class']}{where(root)}, with a confidence of {words.sure(root['confidence'])}"
    jobs = words.count(reach["jobs"], "job")
    reached = f"It reaches {words.count(reach['nodes'], 'node')}, {words.count(reach['ranks'], 'rank')} and {jobs}"
    return f"{found}. {began}. {reached}. {_state(document)}"


def where(cause: Document) -> str:
    """The place of a cause, in words; empty when it names none."""
    rank = "" if cause.get("rank") is None else f"rank {cause['rank']}"
    parts = [cause.get("node") or "", f"GPU {cause['gpu']}" if cause.get("gpu") else "", rank]
    told = ", ".join(filter(None, parts))
    return f" on {told}" if told else ""


def clock(iso_time: str, digits: int = 0) -> str:
    """`2026-03-02 09:08:45`, with so many digits of a second."""
    return iso_time.replace("T", " ").rstrip("Z")[: 19 + (digits and digits + 1)]


def lost(document: Document) -> str:
    """What it cost, and from where it has to be done again, in words; empty when nothing is known."""
    since = (document.get("cost") or {}).get("since_checkpoint_step")
    told = words.lost(document)
    return f"{told} since the checkpoint of step {since}" if told and since is not None else told


def _impact(document: Document) -> Facts:
    reach = {"gpus": 0, **document["blast_radius"]}
    counts = [words.count(reach[f"{name}s"], name) for name in ("node", "rank", "job")]
    pairs = {
        "Severity": document["severity"],
        "Status": document["status"],
        "Cluster": document["cluster"],
        "Jobs": ", ".join(document["jobs"]),
        "Reaches": ", ".join([*counts, words.count(reach["gpus"], "GPU")]),
        "Nodes": words.names(document["nodes"], SHOWN_NODES),
        "Lost": lost(document),
        "First sign": f"{clock(document['first_seen'], 3)} UTC",
        "Last sign": f"{clock(document['last_seen'], 3)} UTC",
        **{f"Job {job}": _progress(progress) for job, progress in document["progress"].items()},
        "Incident": f"{document['incident_id']}, revision {document['revision']}",
    }
    return Facts(tuple((name, value) for name, value in pairs.items() if value))


def _progress(progress: Document) -> str:
    pace = f", {progress['step_time_s']:.3g} s a step" if progress["step_time_s"] else ""
    return f"last step {progress['last_step']} at {clock(progress['last_step_time'])} UTC{pace}"


def _root_cause(document: Document) -> list[Block]:
    root = document["root_cause"]
    pairs = (
        ("Class", root["class"]),
        ("Rule", root["rule"]),
        ("Where", where(root).removeprefix(" on ") or "not told"),
        ("Confidence", f"{words.sure(root['confidence'])}"),
    )
    return [Facts(pairs), Points(tuple(root["reasons"]))]


def _timeline(document: Document) -> Grid:
    told = [
        (link["onset"], link["role"], f"{link['class']}{where(link)}", _waited(link), _cut(link["text"]))
        for link in document["chain"]
    ]
    told += [(change["time"], "", change["what"], "", "") for change in document.get("history", ())]
    rows = tuple((clock(time, 3), *rest) for time, *rest in sorted(told))
    return Grid(("Began (UTC)", "Role", "What", "Logged", "Line"), rows, quotes=True)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_TEXT else text[: SHOWN_TEXT - 1] + "…"


def _waited(link: Document) -> str:
    return "" if link["onset"] == link["event_time"] else clock(link["event_time"], 3)[11:]


def _doubts(document: Document) -> list[Block]:
    others = document.get("candidates", ())[1:]
    rows = tuple(
        (f"{one['class']}{where(one)}", f"{words.sure(one['confidence'])}", "; ".join(one["reasons"])) for one in others
    )
    return [Grid(("Or else", "Confidence", "Why"), rows), Points(tuple(document.get("missing", ())))]


def _recurrence(recurrence: Document | None) -> list[Block]:
    if not recurrence:
        return []
    near = f", each time near step {recurrence['near_step']}" if recurrence["near_step"] is not None else ""
    nodes = ", ".join(recurrence["nodes"])
    points = [f"The job has failed {recurrence['attempts']} times by now{near}."]
    points += [f"Against these nodes something spoke every time: {nodes}."] if nodes else []
    points += [f"Earlier: {', '.join(recurrence['incidents'])}."] if recurrence["incidents"] else []
    return [Points(tuple(points))]


def _action(document: Document) -> Iterator[Block]:
    if document["action"] not in ("", "none"):
        yield Facts((("Action", document["action"]),))


def _evidence(document: Document) -> list[Block]:
    """The lines of the root cause come first."""
    root = document["root_cause"]
    is_other = [(line["class"], line["node"]) != (root["class"], root["node"]) for line in document["evidence"]]
    ordered = sorted(zip(is_other, document["evidence"], strict=True), key=lambda pair: pair[0])
    return [Quote(_place(line), line["text"]) for _, line in ordered]


def _place(line: Document) -> str:
    return f"{line['source']}:{line['line']}{where(line)}, {line['class']}"


def _state(document: Document) -> str:
    if document.get("merged_into"):
        return f"It is part of incident {document['merged_into']}."
    what = {"open": "It is still open", "resolved": "It is over"}.get(document["status"], document["status"])
    cost = lost(document)
    return f"{what}; lost so far: {cost}." if cost else f"{what}."


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
