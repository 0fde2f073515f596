"""A scanner for sources that are read in pieces: a block cut by the end of a piece waits for its rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ingest.batch import Batch
from rules.model import NS_PER_S
from stream.scan import BatchScanner, Scanned

HOLD_NS: Final = NS_PER_S
"""So long a block waits for its rest while nothing is read at all."""


class HoldingScanner:
    """Like the `BatchScanner` in it, but what is said from the beginning of an unfinished block on comes later."""

    def __init__(self, scanner: BatchScanner):
        self._scanner = scanner
        self._held: dict[str, Batch] = {}

    @property
    def waiting(self) -> list[str]:
        """The sources of which something is held back."""
        return list(self._held)

    def scan(self, batch: Batch) -> Scanned:
        """What the batch holds, after what was held back of its source."""
        if held := self._held.pop(batch.source, None):
            batch = held.followed_by(batch)
        scanned = self._scanner.scan(batch, is_last=False)
        if scanned.records < len(batch):
            self._held[batch.source] = batch.tail(scanned.records)
        return scanned

    def scan_all(self, batches: Iterable[Batch]) -> Iterator[Scanned]:
        """What all batches of finished sources hold."""
        yield from map(self.scan, batches)
        yield from (scanned for _, scanned in self.rest())

    def rest(self) -> list[tuple[str, Scanned]]:
        """All that is held back, by source: nothing more came."""
        held, self._held = self._held, {}
        return [(source, self._scanner.scan(batch)) for source, batch in held.items()]
