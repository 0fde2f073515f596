"""What a scan of raw records found, on its way to the correlators."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from aiokafka import TopicPartition

from rules.model import Match, stable_id
from stream.messages import Part
from stream.raw_batches import source_of
from stream.scan import Scanned


class FoundInRange(msgspec.Struct, frozen=True):
    """What records of a raw partition hold from the offset `first` up to `end`, which is not included.

    `waits`: so far by the critical rules alone. `moves_time`: they were read for the first time.
    """

    partition: TopicPartition
    first: int
    end: int
    scanned: Scanned
    waits: bool = False
    moves_time: bool = True

    @property
    def source(self) -> str:
        """The raw partition's name."""
        return source_of(self.partition)

    def part(self, number: int, partitions: int) -> Part:
        """What of it belongs to one of the partitions of matches."""
        scanned = self.scanned

        def belongs(one: Match) -> bool:
            return match_partition(one.event.cluster, partitions) == number

        matches = tuple(match for match in (*scanned.matches, *scanned.observed) if belongs(match))
        beats = tuple(beat for beat in scanned.beats if match_partition(beat.cluster, partitions) == number)
        seats = tuple(seat for seat in scanned.seats if match_partition(seat.cluster, partitions) == number)
        end, newest_ns = (self.end, scanned.newest_ns) if self.moves_time else (None, None)
        return Part(self.source, end, newest_ns, matches, beats, seats)


@lru_cache
def match_partition(cluster: str, partitions: int) -> int:
    """Where a cluster's matches meet: all evidence of one cluster is correlated in one place."""
    return int(stable_id(cluster), 16) % partitions
