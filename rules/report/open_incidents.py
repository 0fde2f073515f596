"""How many incidents are open, by severity and class, from the reports of those that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.packs.vocabulary import vocabulary

Kind = tuple[str, str]
"""Severity, and class by a name from the vocabulary, so that there are few kinds whatever the logs say."""


class OpenIncidents(msgspec.Struct):
    """The kind of each open incident, by its id."""

    kinds: dict[str, Kind] = {}

    def update(self, changed: Iterable[Incident]) -> list[Kind]:
        """Record changed incidents; return the kinds of those that were not open before."""
        opened = []
        for incident in changed:
            if incident.status != "open" or incident.merged_into:
                self.kinds.pop(incident.incident_id, None)
                continue
            kind = incident.severity, vocabulary().bounded(incident.failure_class)
            if incident.incident_id not in self.kinds:
                opened.append(kind)
            self.kinds[incident.incident_id] = kind
        return opened

    def counts(self) -> Counter[Kind]:
        """The number of open incidents of each kind."""
        return Counter(self.kinds.values())
