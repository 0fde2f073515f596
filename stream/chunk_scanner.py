"""Chunks of raw partitions -> what they hold, by all rules, or while a worker is behind by the critical ones first."""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import Final

from aiokafka import TopicPartition

from rules.model import NS_PER_S
from rules.redact import Redactor
from rules.ruleset import RuleSet
from stream.found import FoundInRange
from stream.holding import HOLD_NS, HoldingScanner
from stream.metrics import Metrics
from stream.put_off import critical_first
from stream.raw_batches import Chunk, Corrupt, source_of
from stream.scan import BatchScanner, Scanned
from stream.settings import Settings
from stream.throttle import Throttle
from stream.trouble import Trouble, Troubles

FUTURE_MS: Final = 60_000
"""What is received this much later than now is told; clocks of shippers may be a little ahead."""


class ChunkScanner:
    """`is_behind`: of the newest chunk, only the critical rules were asked."""

    def __init__(
        self,
        settings: Settings,
        rules: RuleSet,
        throttle: Throttle,
        metrics: Metrics,
        troubles: Troubles,
        redactor: Redactor | None = None,
    ):
        self._settings = settings
        self._metrics = metrics
        self._troubles = troubles
        self._usual = HoldingScanner(BatchScanner(rules, settings.cluster, throttle=throttle, redactor=redactor))
        self._hasty = HoldingScanner(
            BatchScanner(critical_first(rules), settings.cluster, throttle=throttle, redactor=redactor)
        )
        self._read_to: dict[TopicPartition, tuple[int, int]] = {}
        self.is_behind = False

    def use(self, rules: RuleSet) -> None:
        """Go on with these rules from the next chunk on."""
        self._usual.use(rules)
        self._hasty.use(critical_first(rules))

    def forget(self) -> None:
        """Others will read what is held back."""
        self._usual.forget()
        self._hasty.forget()
        self._read_to.clear()

    def scan(self, partition: TopicPartition, chunk: Chunk, waiting: int) -> FoundInRange:
        """What a chunk holds, behind whose first record so many wait."""
        source, now_ms = source_of(partition), time_ns() // 1_000_000
        scanner = self._scanner_for(source, now_ms - (chunk.newest_ms or now_ms), waiting)
        held = scanner.first_held(source)
        first = chunk.first_offset if held is None else held
        if chunk.corrupt:
            scanned = self._dead_batch(source, chunk.corrupt)
        else:
            scanned = scanner.scan(chunk.as_batch(partition, now_ms))
        self._name_future(source, chunk, now_ms)
        held = scanner.first_held(source)
        self._read_to[partition] = chunk.next_offset, monotonic_ns()
        end = chunk.next_offset if held is None else held
        return FoundInRange(partition, first, end, scanned, waits=scanner is self._hasty and not chunk.corrupt)

    def blocks_without_rest(self) -> list[FoundInRange]:
        """Blocks of partitions of which nothing came for so long that they are taken as they are."""
        waited = []
        for partition, (end, read_ns) in self._read_to.items():
            source = source_of(partition)
            for scanner in (self._usual, self._hasty):
                first = scanner.first_held(source)
                if first is not None and monotonic_ns() - read_ns >= HOLD_NS:
                    scanned = scanner.rest_of(source)
                    waited.append(FoundInRange(partition, first, end, scanned, waits=scanner is self._hasty))
        return waited

    def _scanner_for(self, source: str, age_ms: int, waiting: int) -> HoldingScanner:
        """The one that holds a block of the source, else by how old the chunk is, and how much comes after it.

        Age alone would tell of a shipper's slow clock.
        """
        self._metrics.note_behind(source, age_ms / 1000)
        is_old = age_ms / 1000 > self._settings.behind_after_ns / NS_PER_S
        self.is_behind = is_old and waiting > self._settings.fetch_records
        wanted, other = (self._hasty, self._usual) if self.is_behind else (self._usual, self._hasty)
        return wanted if other.first_held(source) is None else other

    def _name_future(self, source: str, chunk: Chunk, now_ms: int) -> None:
        if chunk.newest_ms > now_ms + FUTURE_MS:
            times = sum(record.timestamp > now_ms + FUTURE_MS for record in chunk.records)
            text = "taken as received now; check the shippers' clocks"
            self._troubles.note(Trouble.FROM_THE_FUTURE, source, text, times)

    def _dead_batch(self, source: str, corrupt: Corrupt) -> Scanned:
        letter = self._troubles.note_corrupt(source, corrupt)
        return Scanned(records=corrupt.records, dead=corrupt.records, dead_letters=[letter])
