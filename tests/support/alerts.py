"""Incidents and `alerts.yaml` files for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.spec import RoutingSpec
from epicenter.rules.alerts.validation.check import routing_faults
from epicenter.rules.documents.document import parse_document
from epicenter.rules.model.incident import Incident
from tests.support.incidents import opened_and_resolved

DOCUMENT: dict[str, Any] = msgspec.to_builtins(opened_and_resolved()[0])
"""A GPU fell off the bus on n1; no job was on it."""


def an_incident(incident_id: str = "i1", failure_class: str = "xid-79", **changed: Any) -> Incident:
    """The incident with other fields; `node`, `gpu`, `rank`, `rule` and `confidence` are its root cause's."""
    of_root = {key: changed.pop(key) for key in ("node", "gpu", "rank", "rule", "confidence") if key in changed}
    root = {**DOCUMENT["root_cause"], "class": failure_class, **of_root}
    document = {**DOCUMENT, "incident_id": incident_id, "class": failure_class, "root_cause": root, **changed}
    return msgspec.convert(document, Incident)


def a_routing(text: str) -> Routing:
    """The routing part of a file, unchecked."""
    return Routing(RoutingSpec.model_validate(yaml.safe_load(text)))


def read_routing(file: Path, targets: tuple[str, ...] = ()) -> tuple[Routing | None, list[str]]:
    """The routing part of a file with the lines of everything, and what is wrong with it."""
    problems: list[str] = []
    document = parse_document(file, Path.read_bytes, "alerts file", problems)
    spec = document.checked(RoutingSpec, "alerts file", problems) if document else None
    if document is None or spec is None:
        return None, problems
    return Routing(spec, str(file), document.lines), problems + routing_faults(spec, file, document.lines, targets)
