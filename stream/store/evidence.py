"""Queries for evidence: through the page of the epicenter that has the store open, else from the store; read-only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import iso_from_ns
from epicenter.sinks.evidence.pack import pack_of
from epicenter.sinks.evidence.questions import answer
from epicenter.sinks.evidence.reference import part_reference
from epicenter.sinks.evidence.shape import Change, FromStore, Pack, RankGroup
from epicenter.sinks.page.views import changes
from epicenter.sinks.text.incident_document import incident_of
from epicenter.stream.settings import Settings
from epicenter.stream.store.lookup import checked_id, from_page, from_store


def query(settings: Settings, question: str, **parameters: object) -> Any:
    """The result of a query; None if there is none.

    Raises:
        InputError: there is no embedded store yet.
        ConfigError: the store's tables are of an older epicenter.
        TransientError: the store is unreachable.
    """
    texts = {name: str(value) for name, value in parameters.items()}
    found = from_page(settings, f"api/handover/{question}?{urlencode(texts)}")
    if found is None:
        found = from_store(settings, lambda client: answer(client, question, texts), is_read_only=True)
    return found.get("found")


def stored_incident(settings: Settings, incident_id: str, revision: int = 0) -> Incident:
    """A stored incident, by its id, the start of it, or `newest`.

    Raises:
        InputError: none matches, or more than one.
    """
    return incident_of(_answer_for_incident(settings, "incident", incident_id, revision), incident_id)


def stored_pack(settings: Settings, incident_id: str) -> Pack:
    """The evidence of a stored incident, with what the store has in addition to its document.

    Raises:
        InputError: none matches, or more than one.
    """
    evidence = _answer_for_incident(settings, "evidence", incident_id, 0)
    incident = incident_of(evidence["document"], incident_id)
    revisions = changes((), evidence["revisions"])
    stored = FromStore(
        ranks=msgspec.convert(evidence["ranks"], tuple[RankGroup, ...]),
        changes=tuple(Change(iso_from_ns(time_ns), what, part_reference(incident)) for time_ns, what in revisions),
    )
    return pack_of(incident, stored)


def _answer_for_incident(settings: Settings, question: str, incident_id: str, revision: int) -> dict[str, Any]:
    found = query(settings, question, id=checked_id(incident_id), revision=revision)
    if not found:
        raise InputError(f"{incident_id}: no revision {revision} of this incident is stored")
    return dict(found)
