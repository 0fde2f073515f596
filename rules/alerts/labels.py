"""An incident -> the labels that routes, silences, inhibitions and maintenance windows match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import named_jobs
from epicenter.rules.packs.vocabulary import vocabulary

Labels = Mapping[str, tuple[str, ...]]
"""Each label with its values: `job` has one for each job of the incident. Unknown labels are left out."""

BUILT_IN: Final = (
    *("class", "family", "severity", "cluster", "job", "node", "gpu", "rank", "rule", "verdict"),
    "incident",
)
"""The labels that every file may use; `labels` in `alerts.yaml` adds others."""

ALWAYS_THERE: Final = ("class", "severity", "cluster", "incident")
SEVERAL_VALUES: Final = ("job",)
"""Labels that may have several values. `class` has one unless the root cause's differs from the incident's."""


def built_in_labels(incident: Incident) -> Labels:
    """The labels of an incident, without those that `alerts.yaml` adds; values in the incident's order.

    `class` and `family` are the incident's and its root cause's. `node` is where it began, or the only node it reaches:
    a match on a drained node must not catch a failure that begins elsewhere and reaches that node among a thousand.
    """
    return {name: values for name, found in _found(incident) if (values := tuple(dict.fromkeys(filter(None, found))))}


def _found(incident: Incident) -> Iterator[tuple[str, list[str]]]:
    root, nodes = incident.root_cause, incident.nodes
    classes = [incident.failure_class, root.failure_class]
    yield "class", classes
    yield "family", [vocabulary().family(name) for name in classes]
    yield "severity", [incident.severity]
    yield "cluster", [incident.cluster]
    yield "job", list(named_jobs(incident.jobs))
    yield "node", [root.node or (nodes[0] if len(nodes) == 1 else "")]
    yield "gpu", [root.gpu]
    yield "rank", ["" if root.rank is None else str(root.rank)]
    yield "rule", [root.rule]
    yield "verdict", [incident.verdict]
    yield "incident", [incident.incident_id]
