"""A scanner for sources that are read in pieces: a block cut by the end of a piece waits for its rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner, ScanResult

HOLD_NS: Final = NS_PER_S
"""So long a block waits for its rest while nothing is read at all."""


class BlockBuffer:
    """Like the `BatchScanner` in it, but what is said from the beginning of an unfinished block on comes later."""

    def __init__(self, scanner: BatchScanner):
        self._scanner = scanner
        self._held: dict[str, Batch] = {}

    @property
    def waiting(self) -> list[str]:
        """The sources of which something is held back."""
        return list(self._held)

    def first_held(self, source: str) -> int | None:
        """The offset from which on records of the source are held back; None when none are."""
        held = self._held.get(source)
        return held.offsets[0] if held else None

    def forget(self) -> None:
        """Others will read what is held back."""
        self._held.clear()

    def reload(self, rules: RuleSet) -> None:
        """Go on with these rules, for what is held back too."""
        self._scanner.reload(rules)

    def scan(self, batch: Batch) -> ScanResult:
        """What the batch holds, after what was held back of its source."""
        if held := self._held.pop(batch.source, None):
            batch = held.followed_by(batch)
        scanned = self._scanner.scan(batch, is_last=False)
        if scanned.records < len(batch):
            self._held[batch.source] = batch.tail(scanned.records)
        return scanned

    def scan_all(self, batches: Iterable[Batch]) -> Iterator[ScanResult]:
        """What all batches of finished sources hold."""
        yield from map(self.scan, batches)
        yield from (scanned for _, scanned in self.rest())

    def rest_of(self, source: str) -> ScanResult:
        """What is held back of a source: nothing more came."""
        return self._scanner.scan(self._held.pop(source))

    def rest(self) -> list[tuple[str, ScanResult]]:
        """All that is held back, by source."""
        return [(source, self.rest_of(source)) for source in self.waiting]
