"""Answers of the MCP server's tools: read from the store, bounded in size, log text marked as untrusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from time import time_ns
from typing import Any, Final

import msgspec
import orjson

from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import JobState
from epicenter.rules.model.ranges import ranges
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.sinks.clickhouse.reading import Similar
from epicenter.sinks.evidence.reference import LineReference, parse, part_reference
from epicenter.sinks.evidence.render import as_json, as_markdown
from epicenter.sinks.evidence.untrusted import NOTICE, cut, defused
from epicenter.sinks.net.parameters import MAX_NUMBER
from epicenter.sinks.page.grid import Cell, grid_of
from epicenter.sinks.text import job_state
from epicenter.sinks.text.incident_document import incident_of
from epicenter.stream.settings import Settings
from epicenter.stream.store.evidence import query, stored_incident, stored_pack
from epicenter.stream.store.lines import Around, find

MAX_BYTES: Final = 32_768
"""Most bytes of a tool's structured answer; `left_out` counts what does not fit."""

MAX_TEXT_BYTES: Final = 2_000
ROOM_FOR_COUNTS_BYTES: Final = 400
MAX_NAMED: Final = 8

Answer = dict[str, Any]


def incidents(settings: Settings, limit: int, since: str, **wanted: str) -> Answer:
    """Incidents in short, open ones first, then the newest; `wanted` are filters of the query `incidents`."""
    filters = {name: value for name, value in wanted.items() if value}
    found = query(settings, "incidents", limit=limit + 1, since_ns=time_of(since) if since else 0, **filters)
    shown = [_brief(incident_of(document, "store")) for document in found[:limit]]
    return _bounded({"notice": NOTICE, "incidents": shown, "has_more": len(found) > limit}, "incidents")


def incident(settings: Settings, incident_id: str, revision: int) -> Answer:
    """The whole document at a revision, 0 for the newest, and its notifications."""
    found = stored_incident(settings, incident_id, revision)
    document = msgspec.to_builtins(found)
    for name in ("chain", "evidence"):
        references = (part_reference(found, name, number) for number in range(len(document[name])))
        document[name] = [_marked(*pair) for pair in zip(document[name], references, strict=True)]
    deliveries = query(settings, "deliveries", id=found.incident_id)
    answer = _safe({"notice": NOTICE, "incident": document, "deliveries": deliveries})
    document_part = answer["incident"]
    return _bounded(
        answer, "deliveries", *((name, document_part) for name in _LONG_PARTS), ("reasons", document_part["root_cause"])
    )


def pack(settings: Settings, incident_id: str, most_bytes: int) -> tuple[str, Answer]:
    """The evidence pack as Markdown and as JSON, each within the size."""
    whole = stored_pack(settings, incident_id)
    return as_markdown(whole, most_bytes).decode(), orjson.loads(as_json(whole, most_bytes))


def evidence(settings: Settings, reference: str, around: Around) -> Answer:
    """The lines at a reference, if the store has matched lines there; other files can't be read.

    Raises:
        ValueError: this is not a reference.
        InputError: the store does not know it, or its line is not found.
    """
    place, expected = parse(reference), ""
    if isinstance(place, LineReference):
        line = query(settings, "line", source=place.source, number=place.number)
        if not line:
            raise InputError(
                f"{defused(reference)}: no such line in the store: only lines that match a rule can be read"
            )
        expected = line["line"]["text"]
    found = _safe({"notice": NOTICE, **msgspec.to_builtins(find(settings, reference, around, expected=expected))})
    found["lines"].sort(key=lambda line: not line["is_wanted"])
    answer = _bounded(found, "lines")
    answer["lines"].sort(key=lambda line: line["number"])
    return answer


def jobs(settings: Settings) -> Answer:
    """Jobs of the last day: nodes, ranks, newest step, last heartbeat, open incidents."""
    rows = [{**row, "heard": _iso(row["heard_ns"])} for row in query(settings, "jobs")]
    return _bounded(_safe({"notice": NOTICE, "jobs": rows}), "jobs")


def job_progress(settings: Settings, job: str, cluster: str) -> Answer:
    """The progress of a job and its ranks, and which ranks to look at first.

    Raises:
        InputError: the job has no heartbeats, or several clusters have a job of this name.
    """
    clusters = [cluster] if cluster else [row["cluster"] for row in query(settings, "jobs") if row["job"] == job]
    if len(clusters) > 1:
        raise InputError(
            f"job {defused(job)}: exists in several clusters: {', '.join(map(defused, clusters))}: give the cluster"
        )
    rows = query(settings, "ranks", cluster=clusters[0], job=job) if clusters else []
    if not rows:
        raise InputError(f"job {defused(job)}: no heartbeats from it")
    state = msgspec.convert(query(settings, "job-state", cluster=clusters[0], job=job), JobState | None)
    grid = grid_of(rows, state, time_ns())
    by_state: dict[str, list[int]] = {}
    for cell in grid.cells:
        by_state.setdefault(cell.state, []).append(cell.rank)
    answer = {
        "notice": NOTICE,
        "job": job,
        "cluster": clusters[0],
        "state": job_state.label(state.phase, state.end) if state else job_state.NOT_KNOWN,
        "state_as_of": _iso(state.time_ns) if state else None,
        "verdict": state.text if state else "",
        "ranks": len(grid.cells),
        "newest_step": grid.newest_step,
        "newest_line": _iso(grid.newest_ns),
        "states": {state: {"count": len(of_state), "ranks": ranges(of_state)} for state, of_state in by_state.items()},
        "look_first_at": [_cell(cell) for cell in grid.worst()],
    }
    return _bounded(_safe(answer), "look_first_at")


def similar(settings: Settings, incident_id: str, limit: int) -> Answer:
    """Other incidents of the same class, node, GPU or job, the most similar first, with the feedback on them."""
    full_id = stored_incident(settings, incident_id).incident_id
    found = msgspec.convert(query(settings, "similar", id=full_id, limit=limit), list[Similar])
    shown = [
        {**_brief(match.incident), "shared": list(match.shared), "verdicts": list(match.verdicts)} for match in found
    ]
    return _bounded({"notice": NOTICE, "incident_id": full_id, "similar": shown}, "similar")


def silences(settings: Settings, with_ended: bool) -> Answer:
    """The silences: active ones, or all."""
    shown = [
        {**silence, "begins": _iso(silence["begins_ns"]), "ends": _iso(silence["ends_ns"])}
        for silence in query(settings, "silences", all=int(with_ended))
    ]
    return _bounded(_safe({"notice": NOTICE, "silences": shown}), "silences")


def time_of(text: str) -> int:
    """Nanoseconds of `2h` ago, or of an ISO 8601 time, in UTC unless it names a zone.

    Raises:
        ValueError: this is neither.
    """
    if re.fullmatch(r"[\d.]+[a-z]+", text):
        return max(0, time_ns() - duration_ns(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"since: {defused(text[:80])}: write 2h, or a time such as 2026-03-02T09:00:00Z") from error
    seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
    return min(max(0, seconds * NS_PER_S), MAX_NUMBER)


_LONG_PARTS: Final = (
    *("history", "candidates", "evidence", "chain", "missing", "next_steps", "nodes", "jobs", "progress"),
)


def _brief(incident: Incident) -> Answer:
    document = msgspec.to_builtins(incident)
    brief = {name: document[name] for name in ("incident_id", "revision", "status", "severity", "class", "title")}
    brief |= {name: document[name] for name in ("cluster", "first_seen", "last_seen", "blast_radius", "action")}
    brief["jobs"] = document["jobs"][:MAX_NAMED]
    brief["root_cause"] = {
        name: document["root_cause"][name] for name in ("class", "node", "rank", "gpu", "confidence")
    }
    shown: Answer = _safe(brief)
    return shown


def _marked(row: Mapping[str, Any], reference: str) -> Answer:
    """A link or a line with its reference, and its text under a name that marks it as untrusted."""
    fields = {name: value for name, value in row.items() if name != "text"}
    return {**fields, "reference": reference, "untrusted_log_text": row["text"]}


def _cell(cell: Cell) -> Answer:
    shown: Answer = {name: value for name, value in msgspec.to_builtins(cell).items() if name != "heard_ns"}
    return shown | {"heard": _iso(cell.heard_ns) if cell.heard_ns else None}


def _iso(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // NS_PER_S, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _safe(value: Any) -> Any:
    """The same with every text sanitized, short, and without anything like a tag or a speaker; except the notice."""
    if isinstance(value, str):
        return value if value == NOTICE else "\n".join(cut(defused(line), MAX_TEXT_BYTES) for line in value.split("\n"))
    if isinstance(value, Mapping):
        return {str(_safe(name)): _safe(item) for name, item in value.items()}
    return [_safe(item) for item in value] if isinstance(value, list | tuple) else value


def _bounded(answer: Answer, *parts: str | tuple[str, Answer]) -> Answer:
    """The answer within its size: shortens these lists and mappings, in this order, until it is small enough.

    A part is the name of a field of the answer, or a name and the mapping that holds it.
    """
    left_out: dict[str, int] = {}
    for part in parts:
        name, holder = (part, answer) if isinstance(part, str) else part
        whole = len(holder[name])
        while holder[name] and len(orjson.dumps(answer)) > MAX_BYTES - ROOM_FOR_COUNTS_BYTES:
            holder[name] = _shorter(holder[name])
            left_out[name] = whole - len(holder[name])
    return answer | ({"left_out": left_out} if left_out else {})


def _shorter(value: Any) -> Any:
    length = len(value) * 3 // 4
    return dict(islice(value.items(), length)) if isinstance(value, dict) else value[:length]
