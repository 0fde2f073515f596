"""A dead letter by its id, or the start of it."""

from __future__ import annotations

from typing import Any

from epicenter.sinks.clickhouse.dead_letters import StoredDeadLetters
from epicenter.stream.settings import Settings
from epicenter.stream.store.lookup import checked_id, from_page, from_store


def find(settings: Settings, dead_letter_id: str) -> dict[str, Any]:
    """The document of a dead letter.

    Raises:
        InputError: none matches, or more than one.
    """
    document = from_page(settings, f"api/dead-letters/{checked_id(dead_letter_id)}")
    if document is None:
        document = from_store(settings, lambda client: StoredDeadLetters(client).get(dead_letter_id))
    return dict(document)
