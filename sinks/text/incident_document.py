"""An incident's JSON decoded to an `Incident`: validated once, with defaults for fields of older versions."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import Incident
from epicenter.sinks.text.sanitize import sanitize

MAX_REASON_CHARACTERS: Final = 400
_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")


def decode_incident(text: str | bytes, place: str) -> Incident:
    """The incident of a JSON text from our own store.

    Fields missing in older versions have their defaults; unknown fields are ignored. Errors name `place`.

    Raises:
        InputError: the text is not JSON, or not an incident.
    """
    try:
        return msgspec.json.decode(text, type=Incident)
    except msgspec.DecodeError as error:
        raise _not_an_incident(place, error) from error


def incident_of(document: object, place: str) -> Incident:
    """The incident of decoded JSON from an untrusted source; its id and confidences are validated too.

    Raises:
        InputError: the document is not an incident.
    """
    try:
        incident = msgspec.convert(document, Incident)
    except (msgspec.ValidationError, OverflowError) as error:
        raise _not_an_incident(place, error) from error
    if not _ID.fullmatch(incident.incident_id) or incident.revision < 0:
        raise InputError(
            f"{place}: invalid incident_id or revision: an id has letters and digits only, a revision is not negative"
        )
    confidences = [incident.root_cause.confidence, *(cause.confidence for cause in incident.candidates)]
    if not all(0 <= confidence <= 1 for confidence in confidences):
        raise InputError(f"{place}: invalid confidence: it must be between 0 and 1")
    return incident


def _not_an_incident(place: str, error: Exception) -> InputError:
    reason = sanitize(str(error))[:MAX_REASON_CHARACTERS]
    return InputError(f"{place}: not an incident as printed by `epicenter replay --json`: {reason}")
