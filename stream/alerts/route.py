"""Which targets would be notified of an incident, and what would mute it, without notifying anyone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from epicenter.rules.alerts.action import action_of
from epicenter.rules.alerts.guard import Guard
from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.labels import Labels
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.routing import RouteTarget, Routing
from epicenter.rules.alerts.silences import Silence, silenced_labels
from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.sinks.clickhouse import operator_actions, reading
from epicenter.sinks.text.incident_document import incident_of
from epicenter.stream.settings import Settings
from epicenter.stream.store.evidence import stored_incident
from epicenter.stream.store.lookup import from_page, from_store

STDIN: Final = "-"
_OPEN: Final = reading.IncidentFilter(status="open")
_MAX_OPEN: Final = 1_000


@dataclass(frozen=True)
class Situation:
    """The incidents to route, and all that are open at the same time; a file has no silences."""

    incidents: Sequence[Incident]
    concurrent: Sequence[Incident]
    silences: Sequence[Silence]
    now_ns: int

    @classmethod
    def of(cls, source: str, settings: Settings, now_ns: int) -> Situation:
        """The incidents of a file or of standard input (`-`), else a stored one (`newest`: the newest).

        Raises:
            InputError: no such file or incident, or not an incident.
            TransientError: the store is unreachable.
        """
        if source == STDIN or Path(source).is_file():
            newest = list({incident.incident_id: incident for incident in _read(source)}.values())
            if not newest:
                raise InputError(f"{source}: no incident in it")
            return cls(newest, newest, (), now_ns)
        incident = stored_incident(settings, source)
        concurrent, silences = _concurrent(settings, now_ns)
        return cls([incident], concurrent, silences, now_ns)


def routed(
    routing: Routing, incident: Incident, situation: Situation, is_liveness: Callable[[Incident], bool]
) -> dict[str, Any]:
    """The targets and why, the labels, what `mutes` it, and the action, in plain lists and mappings."""
    labels = routing.labels_of(incident)
    route_targets, reasons = routing.route(labels)
    concurrent = [
        (other.incident_id, routing.labels_of(other)) for other in situation.concurrent if other.status == "open"
    ]
    action = Guard(routing.spec).judge(action_of(incident), (), situation.now_ns, incident.incident_id)
    return {
        "incident_id": incident.incident_id,
        "status": incident.status,
        "severity": incident.severity,
        "title": incident.title,
        "at": iso_from_ns(situation.now_ns),
        "legs": [_route_target(route_target, labels) for route_target in route_targets],
        "reasons": list(reasons),
        "labels": {name: list(values) for name, values in labels.items()},
        "held_s": routing.spec.grace_period / NS_PER_S if is_liveness(incident) else 0,
        "mutes": {
            "maintenance": _reason(routing.maintenance(labels, situation.now_ns)),
            "silenced": _silenced(situation, labels),
            "inhibited": _reason(routing.inhibited_by(labels, OpenIncidents(routing.spec.inhibit, concurrent))),
        },
        "action": msgspec.to_builtins(action),
    }


def _route_target(route_target: RouteTarget, labels: Labels) -> dict[str, Any]:
    """One target; incidents with the same values in `group` share a message."""
    return {
        "target": route_target.target,
        "route": route_target.route,
        "after_s": route_target.after_ns / NS_PER_S,
        "group": {name: list(labels.get(name, ())) for name in route_target.group_by},
        "group_wait_s": route_target.group_wait_ns / NS_PER_S,
        "update_interval_s": route_target.update_interval_ns / NS_PER_S,
        "repeat_interval_s": route_target.repeat_interval_ns / NS_PER_S,
    }


def _reason(mute: Mute | None) -> str:
    return mute.reason if mute else ""


def _silenced(situation: Situation, labels: Labels) -> str:
    silence = silenced_labels(situation.silences, labels, situation.now_ns)
    return f"until {iso_from_ns(silence.ends_ns)[:16]}Z by {silence.who}: {silence.reason}" if silence else ""


def _concurrent(settings: Settings, now_ns: int) -> tuple[Sequence[Incident], Sequence[Silence]]:
    """The open incidents of the store, and its silences that have not ended."""
    documents = from_page(settings, f"api/incidents?status=open&limit={_MAX_OPEN}")
    if documents is None:
        return from_store(
            settings,
            lambda client: (
                reading.find_incidents(client, _OPEN, _MAX_OPEN),
                operator_actions.list_silences(client, ending_after_ns=now_ns),
            ),
        )
    concurrent = [incident_of(document, "page") for document in documents]
    return concurrent, msgspec.convert(from_page(settings, "api/silences") or [], list[Silence])


def _read(source: str) -> Iterator[Incident]:
    """The incidents of a file, as `epicenter replay --json` prints them: one a line, or a list of them."""
    try:
        text = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
    except OSError as error:
        raise InputError(f"{source}: can't be read: {error.strerror}") from error
    try:
        whole = msgspec.json.decode(text)
    except msgspec.DecodeError:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield _decoded(line, f"{source}:{number}")
        return
    for document in whole if isinstance(whole, list) else [whole]:
        yield incident_of(document, source)


def _decoded(line: bytes, place: str) -> Incident:
    try:
        return incident_of(msgspec.json.decode(line), place)
    except msgspec.DecodeError as error:
        raise InputError(f"{place}: not JSON: {error}") from error
