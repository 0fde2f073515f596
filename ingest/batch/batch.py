"""A batch of records by columns, so that no object is made for a quiet line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from epicenter.rules.model.records import Origin, Position, RawRecord
from epicenter.rules.model.times import END_NS, NS_PER_S, UTC_ZONE

LATEST_RECEIPT_NS: Final = END_NS - 2 * 86_400 * NS_PER_S
"""The latest receipt, in 2116. Clocks of shippers may show anything, and a line may be a day later than its receipt."""


@dataclass(frozen=True)
class Batch:
    """Records of one source, in order. All columns have the same length.

    `is_recorded`: the lines are older than their receipt (a finished file), so a line that states no time gets
    the time of the nearest line before it that does; if there is none, only its place in the order of lines where
    `is_recording`, else its time of receipt. `is_text`: lines of a text, where blank ones are normal.
    `origin` is whose lines they are, as far as their file names it; `zone` is the time zone of times that name none.
    """

    source: str
    values: Sequence[bytes]
    keys: Sequence[bytes | None]
    received_ns: Sequence[int]
    offsets: Sequence[int]
    is_recorded: bool = False
    is_text: bool = False
    origin: Origin | None = None
    is_recording: bool = False
    zone: str = UTC_ZONE

    def __len__(self) -> int:
        return len(self.values)

    def record(self, number: int) -> RawRecord:
        """One record of the batch as an object."""
        position = Position(self.source, self.offsets[number])
        received_ns = min(max(self.received_ns[number], 0), LATEST_RECEIPT_NS)
        return RawRecord(self.values[number], position, received_ns, self.keys[number], self.origin, self.zone)

    def tail(self, first: int) -> Batch:
        """The records from this one on."""
        return self._part(slice(first, None))

    def followed_by(self, other: Batch) -> Batch:
        """These records and then those of a batch of the same source."""
        return replace(
            other,
            values=[*self.values, *other.values],
            keys=[*self.keys, *other.keys],
            received_ns=[*self.received_ns, *other.received_ns],
            offsets=[*self.offsets, *other.offsets],
        )

    def _part(self, part: slice) -> Batch:
        return replace(
            self,
            values=self.values[part],
            keys=self.keys[part],
            received_ns=self.received_ns[part],
            offsets=self.offsets[part],
        )
