"""Raw values -> searchable values, and the faults of invalid records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from epicenter.ingest.batch.clean import clean
from epicenter.ingest.batch.records import Records
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import check_envelope, text_of
from epicenter.rules.errors import DeadLetterKind, RecordError
from epicenter.rules.model.ledger import MAX_KEPT_DEAD_BYTES

MAX_RECORD_BYTES: Final = 1 << 20


class Fault(NamedTuple):
    """Why a record can't be processed."""

    kind: DeadLetterKind
    reason: str

    @classmethod
    def of(cls, error: RecordError) -> Fault:
        """The fault that an error describes."""
        return cls(error.kind, str(error))


def searchable(values: Sequence[bytes]) -> Records | TextLines:
    """Plain text as it is, everything else as records."""
    if not isinstance(values, TextLines):
        return Records(values)
    if values.is_plain and not values.has_longer(MAX_RECORD_BYTES):
        return values
    return Records(values.cut_up())


def why_invalid(values: Records | TextLines, is_text: bool) -> dict[int, Fault]:
    """Invalid records by number: empty or too large."""
    if isinstance(values, TextLines):
        return {}
    faults = {} if is_text else dict.fromkeys(values.empty(), Fault(DeadLetterKind.EMPTY, "empty value"))
    for number in values.longer_than(MAX_RECORD_BYTES):
        reason = f"too large: {len(values[number])} bytes, the limit is {MAX_RECORD_BYTES}"
        faults[number] = Fault(DeadLetterKind.TOO_LARGE, reason)
    return faults


def without_tails(values: Records | TextLines, invalid: Mapping[int, Fault]) -> Records | TextLines:
    """The values with oversized records cut to their head, where failures are still found."""
    if not invalid:
        return values
    return Records([value[:MAX_KEPT_DEAD_BYTES] if number in invalid else value for number, value in enumerate(values)])


def envelope_fault(value: bytes) -> Fault | None:
    """Why a record has no log line; None if it has one."""
    try:
        check_envelope(value)
    except RecordError as error:
        return Fault.of(error)
    return None


def unescaped(value: bytes) -> bytes:
    """The text as its writer wrote it; the record itself if it has none."""
    try:
        return clean(text_of(value)).encode("utf-8", "surrogatepass")
    except RecordError:
        return value
