"""Named queries for evidence: commands run them on the store, or through the page of the process that holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ranges import ranges
from epicenter.rules.model.times import iso_from_ns
from epicenter.sinks.clickhouse import jobs, lines, operator_actions, reading, unnamed
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.named import named_incident
from epicenter.sinks.net.parameters import number

Parameters = Mapping[str, str]
Answer = dict[str, Any]

MAX_LISTED: Final = 1_000
MAX_TERMS: Final = 8
MAX_LINES_AROUND: Final = 400
"""At most this many lines before and after a line: shown ones, and those that show whether a secret spans them."""


def answer(client: Client, question: str, parameters: Parameters) -> Answer:
    """The answer in plain lists and mappings under `found`; None if nothing was found.

    Raises:
        ValueError: the question is unknown, or a parameter is invalid.
    """
    if question not in QUESTIONS:
        raise ValueError(f"unknown question: use one of {', '.join(QUESTIONS)}")
    return {"found": msgspec.to_builtins(QUESTIONS[question](client, parameters))}


def _incident(client: Client, parameters: Parameters) -> Incident | None:
    """By `id`, a unique prefix or `newest`; at `revision` if given."""
    incident, revision = named_incident(client, parameters.get("id", "")), number(parameters, "revision", 0)
    if revision in (0, incident.revision):
        return incident
    return reading.get_revision(client, incident.incident_id, revision)


def _evidence(client: Client, parameters: Parameters) -> Any:
    """The document, its rank groups (as `RankGroup`) and its revisions."""
    incident = _incident(client, parameters)
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
        for group in lines.first_signals(client, incident.incident_id)
    ]
    revisions = reading.incident_changes(client, incident.incident_id)
    earlier = [revision for revision in revisions if revision["revision"] <= incident.revision]
    return {"document": incident, "ranks": groups, "revisions": earlier}


def _incidents(client: Client, parameters: Parameters) -> Any:
    """By `status`, `class`, `cluster`, `node`, `job`, `words` and `since_ns`, at most `limit`."""
    wanted = reading.IncidentFilter(
        status=parameters.get("status", ""),
        failure_class=parameters.get("class", ""),
        cluster=parameters.get("cluster", ""),
        node=parameters.get("node", ""),
        job=parameters.get("job", ""),
        terms=[word.lower() for word in parameters.get("words", "").split()][:MAX_TERMS],
        since_ns=number(parameters, "since_ns", 0),
    )
    return reading.find_incidents(client, wanted, number(parameters, "limit", 50, 1, MAX_LISTED))


def _similar(client: Client, parameters: Parameters) -> Any:
    """Incidents with the same class, node, GPU or job as `id`, at most `limit`."""
    incident = named_incident(client, parameters.get("id", ""))
    return reading.similar_incidents(client, incident, number(parameters, "limit", 8, 1, MAX_LISTED))


def _line(client: Client, parameters: Parameters) -> Any:
    """A line that a rule matched, and the stored lines around it; None if the store has no such line."""
    source, at = parameters.get("source", ""), number(parameters, "number", 0)
    first = max(0, at - number(parameters, "before", 0, 0, MAX_LINES_AROUND))
    last = at + number(parameters, "after", 0, 0, MAX_LINES_AROUND)
    matched = lines.matched_lines(client, source, first, last)
    wanted = next((line for line in matched if line["number"] == at), None)
    if wanted is None:
        return None
    topic, _, partition = source.rpartition("/")
    raw: list[tuple[int, str]] = []
    if topic and partition.isascii() and partition.isdecimal():
        raw = lines.raw_lines(client, topic, int(partition), first, last, wanted["event_time_ns"])
    return {"line": wanted, "matched": matched, "raw": [list(row) for row in raw]}


def _signal(client: Client, parameters: Parameters) -> Any:
    """By `id`."""
    return lines.get_signal(client, parameters.get("id", ""))


def _jobs(client: Client, parameters: Parameters) -> Any:
    """Jobs of the last day, at most `limit`."""
    return jobs.list_jobs(client, min(number(parameters, "limit", 200), MAX_LISTED))


def _ranks(client: Client, parameters: Parameters) -> Any:
    """Every rank of `job` in `cluster`: its latest step, and when it was last seen."""
    return jobs.list_ranks(client, parameters.get("cluster", ""), parameters.get("job", ""))


def _job_state(client: Client, parameters: Parameters) -> Any:
    """The state of `job` in `cluster` according to the engine; null if it is not known."""
    return jobs.get_job_state(client, parameters.get("cluster", ""), parameters.get("job", ""))


def _silences(client: Client, parameters: Parameters) -> Any:
    """Active silences; with `all=1` expired ones too."""
    is_all = parameters.get("all") == "1"
    return operator_actions.list_silences(client, ending_after_ns=0 if is_all else time_ns())


def _deliveries(client: Client, parameters: Parameters) -> Any:
    """Notification decisions about the incident `id`, with reasons."""
    return reading.incident_deliveries(client, parameters.get("id", ""))


def _unnamed(client: Client, parameters: Parameters) -> Any:
    """Messages that look like failures and that no rule names, first seen since `since_ns`, at most `limit`."""
    limit = number(parameters, "limit", 50, 1, MAX_LISTED)
    return unnamed.list_unnamed(client, number(parameters, "since_ns", 0), limit)


QUESTIONS: Final[dict[str, Callable[[Client, Parameters], Any]]] = {
    "incident": _incident,
    "evidence": _evidence,
    "incidents": _incidents,
    "similar": _similar,
    "line": _line,
    "signal": _signal,
    "jobs": _jobs,
    "ranks": _ranks,
    "job-state": _job_state,
    "silences": _silences,
    "deliveries": _deliveries,
    "unnamed": _unnamed,
}
