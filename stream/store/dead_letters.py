"""A dead letter by its id, or the start of it."""

from __future__ import annotations

from typing import Any

from epicenter.rules.errors import InputError
from epicenter.sinks.clickhouse.dead_letters import StoredDeadLetters
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.settings import Settings
from epicenter.stream.store.lookup import from_page, from_store


def find(settings: Settings, dead_letter_id: str) -> dict[str, Any]:
    """The document of a dead letter.

    Raises:
        InputError: none matches, or more than one.
    """
    if not dead_letter_id.isalnum():
        raise InputError(f"{sanitize(dead_letter_id)}: not the id of a dead letter: ids have only letters and digits")
    document = from_page(settings, f"api/dead-letters/{dead_letter_id}")
    if document is None:
        document = from_store(settings, lambda client: StoredDeadLetters(client).get(dead_letter_id))
    if not document:
        raise InputError(f"{dead_letter_id}: no such dead letter, or several ids start like that")
    return dict(document)
