"""The border at which an incident's JSON becomes an `Incident`: checked once, older versions completed."""

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
    """The incident of a JSON text of our own store: fields that an older version did not write have their defaults.

    Fields that a newer version added are left out. `place` says where the text comes from.

    Raises:
        InputError: it is no JSON, or no incident.
    """
    try:
        return msgspec.json.decode(text, type=Incident)
    except msgspec.DecodeError as error:
        raise _no_incident(place, error) from error


def incident_of(document: object, place: str) -> Incident:
    """The same of decoded JSON that anybody may have written, so that its id and its confidences are looked at too.

    Raises:
        InputError: it is no incident.
    """
    try:
        incident = msgspec.convert(document, Incident)
    except (msgspec.ValidationError, OverflowError) as error:
        raise _no_incident(place, error) from error
    if not _ID.fullmatch(incident.incident_id) or incident.revision < 0:
        raise InputError(f"{place}: no incident's id: it is made of letters and digits, its revision is not negative")
    confidences = [incident.root_cause.confidence, *(cause.confidence for cause in incident.candidates)]
    if not all(0 <= confidence <= 1 for confidence in confidences):
        raise InputError(f"{place}: a confidence lies between 0 and 1")
    return incident


def _no_incident(place: str, error: Exception) -> InputError:
    reason = sanitize(str(error))[:MAX_REASON_CHARACTERS]
    return InputError(f"{place}: no incident as `epicenter replay --json` prints it: {reason}")
