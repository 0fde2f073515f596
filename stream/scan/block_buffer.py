"""A scanner for sources that arrive in batches: a block cut by the end of a batch waits for the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner, ScanResult

MAX_BLOCK_WAIT_NS: Final = NS_PER_S
"""A block waits at most this long for its rest while its source is idle, whatever other sources do."""


class _Buffered(NamedTuple):
    """Records of one source, and when the newest of them was read, on any clock."""

    batch: Batch
    read_ns: int


class BlockBuffer:
    """A `BatchScanner` that buffers records from the start of an unfinished block on."""

    def __init__(self, scanner: BatchScanner):
        self._scanner = scanner
        self._buffered: dict[str, _Buffered] = {}

    @property
    def waiting(self) -> list[str]:
        """The sources with records buffered."""
        return list(self._buffered)

    def first_buffered(self, source: str) -> int | None:
        """The first buffered offset of the source; None if there is none."""
        buffered = self._buffered.get(source)
        return buffered.batch.offsets[0] if buffered else None

    def overdue(self, now_ns: int) -> list[str]:
        """The sources with records buffered from which nothing was read for `MAX_BLOCK_WAIT_NS`."""
        return [source for source, kept in self._buffered.items() if now_ns - kept.read_ns >= MAX_BLOCK_WAIT_NS]

    def forget(self) -> None:
        """Drop what is buffered: another worker reads it again."""
        self._buffered.clear()

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from now on, also for records buffered."""
        self._scanner.reload(rules)

    def scan(self, batch: Batch, read_ns: int = 0) -> ScanResult:
        """Scan the batch together with the records buffered for its source. `read_ns` is when it was read."""
        if buffered := self._buffered.pop(batch.source, None):
            batch = buffered.batch.followed_by(batch)
        scanned = self._scanner.scan(batch, is_last=False)
        if scanned.records < len(batch):
            self._buffered[batch.source] = _Buffered(batch.tail(scanned.records), read_ns)
        return scanned

    def scan_all(self, batches: Iterable[Batch]) -> Iterator[ScanResult]:
        """Scan all batches of finished sources."""
        yield from map(self.scan, batches)
        yield from (scanned for _, scanned in self.rest())

    def rest_of(self, source: str) -> ScanResult:
        """Scan what is buffered for a source without waiting for more."""
        return self._scanner.scan(self._buffered.pop(source).batch)

    def rest(self) -> list[tuple[str, ScanResult]]:
        """Scan everything buffered, by source."""
        return [(source, self.rest_of(source)) for source in self.waiting]
