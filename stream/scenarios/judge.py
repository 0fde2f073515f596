"""Compares expected incidents with those found: a message for every difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.stream.scenarios.play import Documents
from epicenter.stream.scenarios.spec import ExpectedIncident

_FOUND_AT: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "failure_class": lambda found: found["class"],
    "node": lambda found: found["root_cause"]["node"],
    "rank": lambda found: found["root_cause"]["rank"],
    "gpu": lambda found: found["root_cause"]["gpu"],
    "jobs": lambda found: sorted(found["jobs"]),
    "nodes": lambda found: sorted(found["nodes"]),
    "status": lambda found: found["status"],
    "severity": lambda found: found["severity"],
    "verdict": lambda found: found.get("verdict", ""),
    "attempts": lambda found: _recurrence(found).get("attempts", 1),
    "recurs_on": lambda found: sorted(_recurrence(found).get("nodes", ())),
}


def shortfalls(expected: Sequence[ExpectedIncident], documents: Documents) -> list[str]:
    """A line for each difference; incidents merged into others don't count."""
    found = [msgspec.to_builtins(incident) for incident in documents if not incident.merged_into]
    pairs = _best_pairs(expected, found)
    left = [document for number, document in enumerate(found) if number not in pairs.values()]
    lines = []
    for number, incident in enumerate(expected):
        if number not in pairs:
            lines.append(f"missing: {_shown(incident)}")
        elif differences := list(_differences(incident, found[pairs[number]])):
            lines += [f"incident {number + 1}: {difference}" for difference in differences]
    return lines + [f"not expected: {_headline(document)}" for document in left]


def first_change(before: Sequence[Documents], after: Sequence[Documents]) -> str:
    """The first difference between two runs of a scenario; empty if they are the same byte for byte."""
    for step, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if msgspec.json.encode(old) != msgspec.json.encode(new):
            return f"at the end of step {step}, {_change(_by_id(old), _by_id(new))}"
    return ""


def _best_pairs(expected: Sequence[ExpectedIncident], found: list[dict[str, Any]]) -> dict[int, int]:
    """The found incident for each expected one: the pairs with the fewest differences first."""
    distances = sorted(
        (len(list(_differences(incident, document))), number, index)
        for number, incident in enumerate(expected)
        for index, document in enumerate(found)
    )
    pairs: dict[int, int] = {}
    for _, number, index in distances:
        if number not in pairs and index not in pairs.values():
            pairs[number] = index
    return pairs


def _differences(expected: ExpectedIncident, found: dict[str, Any]) -> Iterator[str]:
    for name, found_at in _FOUND_AT.items():
        wanted = getattr(expected, name)
        wanted = sorted(wanted) if isinstance(wanted, tuple) else wanted
        if wanted is not None and wanted != found_at(found):
            yield f"{_field_name(name)}: expected {_as_text(wanted)}, found {_as_text(found_at(found))}"
    chain = list(dict.fromkeys(link["class"] for link in found["chain"]))
    if not _runs_through(expected.chain, chain):
        yield f"chain: expected {' -> '.join(expected.chain)}, found {' -> '.join(chain)}"
    if found["root_cause"]["confidence"] < expected.confidence:
        yield f"confidence: expected at least {expected.confidence}, found {found['root_cause']['confidence']}"


def _recurrence(found: dict[str, Any]) -> dict[str, Any]:
    return found.get("recurrence") or {}


def _runs_through(wanted: Sequence[str], chain: Sequence[str]) -> bool:
    rest = iter(chain)
    return all(name in rest for name in wanted)


def _shown(expected: ExpectedIncident) -> str:
    fields = expected.model_dump(exclude_unset=True)
    return ", ".join(f"{_field_name(name)} {_as_text(content)}" for name, content in fields.items())


def _headline(document: dict[str, Any]) -> str:
    root = document["root_cause"]
    place = f" on {root['node']}" if root["node"] else ""
    return f"{document['class']}{place}, jobs {_as_text(document['jobs'])}, {document['status']} ({document['title']})"


def _as_text(content: Any) -> str:
    if isinstance(content, list | tuple):
        return "[" + ", ".join(map(str, content)) + "]"
    return str(content) if content not in ("", None) else "none"


def _field_name(name: str) -> str:
    return "class" if name == "failure_class" else name


def _by_id(documents: Documents) -> dict[str, Incident]:
    return {incident.incident_id: incident for incident in documents}


def _change(before: dict[str, Incident], after: dict[str, Incident]) -> str:
    for incident_id in sorted(before.keys() | after.keys()):
        if incident_id not in after:
            return f"incident {incident_id} is gone: {_headline(msgspec.to_builtins(before[incident_id]))}"
        if incident_id not in before:
            return f"incident {incident_id} is new: {_headline(msgspec.to_builtins(after[incident_id]))}"
        old, new = (msgspec.to_builtins(documents[incident_id]) for documents in (before, after))
        if old != new:
            return f"incident {incident_id}: {_first_difference(old, new, '')}"
    return "the order of the fields differs"


def _first_difference(old: Any, new: Any, path: str) -> str:
    """The first difference of two documents, such as `chain.2.text: 'a' became 'b'`."""
    parts, new_parts = _parts(old), _parts(new)
    if not parts or parts.keys() != new_parts.keys():
        return f"{path.removeprefix('.')}: {old!r} became {new!r}"
    for name, part in parts.items():
        if part != new_parts[name]:
            return _first_difference(part, new_parts[name], f"{path}.{name}")
    return f"{path.removeprefix('.')} is written differently"


def _parts(document: Any) -> dict[Any, Any]:
    if isinstance(document, dict):
        return document
    return dict(enumerate(document)) if isinstance(document, list | tuple) else {}
