"""A scanner for sources that arrive in batches: a block cut by the end of a batch waits for the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner, ScanResult

MAX_BLOCK_WAIT_NS: Final = NS_PER_S
"""A block waits at most this long for its rest while its source is idle."""


class BlockBuffer:
    """A `BatchScanner` that buffers records from the start of an unfinished block on."""

    def __init__(self, scanner: BatchScanner):
        self._scanner = scanner
        self._buffered: dict[str, Batch] = {}

    @property
    def waiting(self) -> list[str]:
        """The sources with records buffered."""
        return list(self._buffered)

    def first_buffered(self, source: str) -> int | None:
        """The first buffered offset of the source; None if there is none."""
        buffered = self._buffered.get(source)
        return buffered.offsets[0] if buffered else None

    def forget(self) -> None:
        """Drop what is buffered: another worker reads it again."""
        self._buffered.clear()

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from now on, also for records buffered."""
        self._scanner.reload(rules)

    def scan(self, batch: Batch) -> ScanResult:
        """Scan the batch together with the records buffered for its source."""
        if buffered := self._buffered.pop(batch.source, None):
            batch = buffered.followed_by(batch)
        scanned = self._scanner.scan(batch, is_last=False)
        if scanned.records < len(batch):
            self._buffered[batch.source] = batch.tail(scanned.records)
        return scanned

    def scan_all(self, batches: Iterable[Batch]) -> Iterator[ScanResult]:
        """Scan all batches of finished sources."""
        yield from map(self.scan, batches)
        yield from (scanned for _, scanned in self.rest())

    def rest_of(self, source: str) -> ScanResult:
        """Scan what is buffered for a source without waiting for more."""
        return self._scanner.scan(self._buffered.pop(source))

    def rest(self) -> list[tuple[str, ScanResult]]:
        """Scan everything buffered, by source."""
        return [(source, self.rest_of(source)) for source in self.waiting]
