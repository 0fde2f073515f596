"""An incident's document as it comes from a store or a file: its shape checked, older versions made complete."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from rules.errors import InputError
from rules.model import Incident
from sinks.handover.untrusted import name

_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")


def checked(document: object, place: str) -> dict[str, Any]:
    """An incident's document in full, with what an earlier epicenter did not write yet; `place` says where it stood.

    Raises:
        InputError: it is none.
    """
    try:
        incident = msgspec.convert(document, Incident)
        complete: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(incident))
    except (msgspec.ValidationError, OverflowError) as error:
        raise InputError(f"{place}: no incident as `epicenter replay --json` prints it: {name(error, 400)}") from error
    if not _ID.fullmatch(incident.incident_id) or incident.revision < 0:
        raise InputError(f"{place}: no incident's id: it is made of letters and digits, its revision is not negative")
    if not all(
        0 <= sure <= 1 for sure in (incident.root_cause.confidence, *(one.confidence for one in incident.candidates))
    ):
        raise InputError(f"{place}: a confidence lies between 0 and 1")
    return complete
