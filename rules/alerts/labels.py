"""An incident -> its labels: what routes, silences, inhibitions and maintenance windows see of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rules.vocabulary import vocabulary

Labels = Mapping[str, tuple[str, ...]]
"""Each label with its values: a job's label has as many as the incident has jobs. An unknown one is left out."""

BUILT_IN: Final = (
    *("class", "family", "severity", "cluster", "job", "node", "gpu", "rank", "rule", "verdict"),
    "incident",
)
"""The labels that every file may name; `labels` in `alerts.yaml` adds others."""

ALWAYS_THERE: Final = ("class", "severity", "cluster", "incident")
SEVERAL_VALUES: Final = ("job",)
"""Those that may have several values; of a class there is one, as long as an incident's is that of its root cause."""


def built_in_labels(document: Mapping[str, Any]) -> Labels:
    """The labels that an incident has by itself (the document, as plain lists and mappings).

    `class` and `family` are its own and those of its root cause. A node has to be where it began, or all that it
    reaches: who asks for a drained node wants nothing of a failure that begins elsewhere and reaches that node among a
    thousand. The order of the values is that of the document.
    """
    return {name: values for name, found in _found(document) if (values := tuple(dict.fromkeys(filter(None, found))))}


def _found(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    root, nodes = document["root_cause"], document["nodes"]
    classes = [document["class"], root["class"]]
    rank = root.get("rank")
    yield "class", classes
    yield "family", [vocabulary().family(name) for name in classes]
    yield "severity", [document.get("severity", "")]
    yield "cluster", [document["cluster"]]
    yield "job", list(document["jobs"])
    yield "node", [root["node"] or (nodes[0] if len(nodes) == 1 else "")]
    yield "gpu", [root.get("gpu", "")]
    yield "rank", ["" if rank is None else str(rank)]
    yield "rule", [root.get("rule", "")]
    yield "verdict", [document.get("verdict", "")]
    yield "incident", [document.get("incident_id", "")]
