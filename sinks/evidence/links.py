"""References of an incident's links and of their log lines."""

from __future__ import annotations

from epicenter.rules.model.incident import Incident
from epicenter.sinks.evidence.reference import line_reference, part_reference


class References:
    """The reference of each link and line: the log line if there is one, else the link."""

    def __init__(self, incident: Incident):
        self.of_evidence = [
            line_reference(line.source, line.line, part_reference(incident, "evidence", number))
            for number, line in enumerate(incident.evidence)
        ]
        self.of_link = [
            part_reference(incident, "chain", number) if of_line is None else self.of_evidence[of_line]
            for number, of_line in enumerate(lines_of_links(incident))
        ]
        self._incident = incident
        self._by_kind: dict[tuple[str, str], str] = {}
        self._by_class: dict[str, str] = {}
        for link, reference in zip(incident.chain, self.of_link, strict=True):
            self._by_kind.setdefault((link.failure_class, link.node), reference)
            self._by_class.setdefault(link.failure_class, reference)

    @property
    def of_root(self) -> str:
        """The reference of the root cause's line."""
        root = self._incident.root_cause
        links = zip(self._incident.chain, self.of_link, strict=True)
        by_role = next((reference for link, reference in links if link.role == "root"), "")
        return by_role or self.of(root.failure_class, root.node) or part_reference(self._incident, "root_cause")

    def of(self, failure_class: str, node: str = "") -> str:
        """The reference of the first link of this class, preferably on this node; empty if there is none."""
        return self._by_kind.get((failure_class, node)) or self._by_class.get(failure_class, "")


def lines_of_links(incident: Incident) -> list[int | None]:
    """The index in the evidence of each link's line; None for a liveness verdict, which has no line.

    Both are in the same order. A block contains more text than its link.
    """
    found: list[int | None] = []
    evidence, at = incident.evidence, 0
    for link in incident.chain:
        line = evidence[at] if at < len(evidence) else None
        is_same = line is not None and (line.failure_class, line.node) == (link.failure_class, link.node)
        if line is not None and is_same and (link.text in line.text or "\n" in line.text):
            found.append(at)
            at += 1
        else:
            found.append(None)
    return found
