"""What the hand-over asks the store, by name: the commands ask it themselves, or the page of who holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import iso_from_ns
from epicenter.sinks.clickhouse import jobs, lines, operator_actions, reading
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.evidence.ranges import ranges

Given = Mapping[str, str]
Answer = dict[str, Any]

MAX_LISTED: Final = 1_000
MAX_WORDS: Final = 8
MAX_LINES_AROUND: Final = 200
"""So many lines before and after one may be asked for."""


def answer(client: Client, question: str, given: Given) -> Answer:
    """The answer as plain lists and mappings, under `found`; None there when there is no such thing.

    Raises:
        ValueError: there is no such question, or what is given makes no sense.
    """
    if question not in QUESTIONS:
        raise ValueError(f"no such question: known are {', '.join(QUESTIONS)}")
    return {"found": msgspec.to_builtins(QUESTIONS[question](client, given))}


def _incident(client: Client, given: Given) -> Incident | None:
    """By id, a beginning of it, or `newest`; at a `revision` if one is given."""
    incident_id, revision = given.get("id", ""), _number(given, "revision", 0)
    if incident_id == "newest":
        incident = next(iter(reading.find_incidents(client, reading.IncidentFilter(), 1)), None)
    else:
        incident = reading.get_incident(client, incident_id)
    if incident is None or revision in (0, incident.revision):
        return incident
    return reading.get_revision(client, incident.incident_id, revision)


def _evidence(client: Client, given: Given) -> Any:
    """The document, and what the store knows of the incident beside it: ranks, as `RankGroup` has them, and changes."""
    incident = _incident(client, given)
    if incident is None:
        return None
    groups = [
        {
            "job": group["job"],
            "ranks": ranges(group["ranks"]),
            "count": len(group["ranks"]),
            "class": group["class"],
            "nodes": group["nodes"],
            "first": iso_from_ns(group["first_ns"]),
            "last": iso_from_ns(group["last_ns"]),
            "node": group["node"],
            "text": group["text"],
            "source": group["position_source"],
            "number": group["position_offset"],
            "signal_id": group["signal_id"],
        }
        for group in lines.first_words(client, incident.incident_id)
    ]
    revisions = reading.incident_changes(client, incident.incident_id)
    told = [one for one in revisions if one["revision"] <= incident.revision]
    return {"document": incident, "ranks": groups, "revisions": told}


def _incidents(client: Client, given: Given) -> Any:
    """By `status`, `class`, `cluster`, `node`, `job`, `words` and `since_ns`, at most `limit`."""
    wanted = reading.IncidentFilter(
        status=given.get("status", ""),
        failure_class=given.get("class", ""),
        cluster=given.get("cluster", ""),
        node=given.get("node", ""),
        job=given.get("job", ""),
        terms=[word.lower() for word in given.get("words", "").split()][:MAX_WORDS],
        since_ns=_number(given, "since_ns", 0),
    )
    return reading.find_incidents(client, wanted, min(_number(given, "limit", 50), MAX_LISTED))


def _similar(client: Client, given: Given) -> Any:
    """Those of the same class, node, GPU or job as `id`, at most `limit`."""
    incident = reading.get_incident(client, given.get("id", ""))
    if incident is None:
        return None
    return reading.similar_incidents(client, incident, min(_number(given, "limit", 8), MAX_LISTED))


def _line(client: Client, given: Given) -> Any:
    """A line that a rule fits, and what the store keeps of those around it; None when the store has no such line."""
    source, number = given.get("source", ""), _number(given, "number", 0)
    first = max(0, number - min(_number(given, "before", 0), MAX_LINES_AROUND))
    last = number + min(_number(given, "after", 0), MAX_LINES_AROUND)
    matched = lines.matched_lines(client, source, first, last)
    wanted = next((line for line in matched if line["number"] == number), None)
    if wanted is None:
        return None
    topic, _, partition = source.rpartition("/")
    raw: list[tuple[int, str]] = []
    if topic and partition.isascii() and partition.isdecimal():
        raw = lines.raw_lines(client, topic, int(partition), first, last, wanted["event_time_ns"])
    return {"line": wanted, "matched": matched, "raw": [list(row) for row in raw]}


def _signal(client: Client, given: Given) -> Any:
    """By `id`."""
    return lines.get_signal(client, given.get("id", ""))


def _jobs(client: Client, given: Given) -> Any:
    """Those of the last day, at most `limit`."""
    return jobs.list_jobs(client, min(_number(given, "limit", 200), MAX_LISTED))


def _ranks(client: Client, given: Given) -> Any:
    """Every rank of `job` in `cluster`: its newest step, and when it was heard last."""
    return jobs.list_ranks(client, given.get("cluster", ""), given.get("job", ""))


def _silences(client: Client, given: Given) -> Any:
    """Those that go on; with `all=1` those that are over too."""
    is_all = given.get("all") == "1"
    return operator_actions.list_silences(client, ending_after_ns=0 if is_all else time_ns())


def _deliveries(client: Client, given: Given) -> Any:
    """Who was told of the incident `id`, and why others were not."""
    return reading.incident_deliveries(client, given.get("id", ""))


QUESTIONS: Final[dict[str, Callable[[Client, Given], Any]]] = {
    "incident": _incident,
    "evidence": _evidence,
    "incidents": _incidents,
    "similar": _similar,
    "line": _line,
    "signal": _signal,
    "jobs": _jobs,
    "ranks": _ranks,
    "silences": _silences,
    "deliveries": _deliveries,
}


def _number(given: Given, name: str, otherwise: int) -> int:
    text = given.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError(f"{name}: write a number that is not negative")
    return int(text)
