"""Scan results of raw records on their way to the correlators."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from aiokafka import TopicPartition

from epicenter.rules.model.flat_heartbeats import flattened
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Match
from epicenter.rules.model.step_bundle import bundled
from epicenter.stream.kafka.messages import Part
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.scan.scan import ScanResult


class ScannedRange(msgspec.Struct, frozen=True):
    """Scan results of a raw partition since the last range, up to the offset `end` (excluded)."""

    partition: TopicPartition
    end: int
    scanned: ScanResult

    @property
    def source(self) -> str:
        """The raw partition's name."""
        return source_of(self.partition)

    def part(self, number: int, partitions: int, bundles_steps: bool = False) -> Part:
        """The part of the results that belongs to one partition of matches.

        `bundles_steps`: steps of a node's ranks become bundles.
        """
        scanned = self.scanned

        def belongs(match: Match) -> bool:
            return match_partition(match.event.cluster, partitions) == number

        matches = tuple(match for match in (*scanned.matches, *scanned.observed) if belongs(match))
        heartbeats = [
            heartbeat for heartbeat in scanned.heartbeats if match_partition(heartbeat.cluster, partitions) == number
        ]
        step_bundles, others = bundled(heartbeats) if bundles_steps else ([], heartbeats)
        rank_placements = tuple(
            rank_placement
            for rank_placement in scanned.rank_placements
            if match_partition(rank_placement.cluster, partitions) == number
        )
        return Part(
            self.source,
            self.end,
            scanned.newest_ns,
            matches,
            tuple(map(flattened, others)),
            rank_placements,
            tuple(step_bundles),
        )


@lru_cache
def match_partition(cluster: str, partitions: int) -> int:
    """The partition of a cluster's matches: all evidence of one cluster is correlated in one place."""
    return int(stable_id(cluster), 16) % partitions
