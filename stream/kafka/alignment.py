"""Watermark alignment: workers pause partitions that are too far ahead of the slowest one in event time.

Whatever is ahead of the slowest partition waits in a correlator's memory. Each offset is committed with the newest
event time before it, so that every worker sees the progress of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from aiokafka import TopicPartition

MAX_AHEAD: Final = 50_000
"""At most this many matches and heartbeats of one worker wait for the slowest partition; each takes about 2 kB."""

MAX_UNCHANGED: Final = 1_500
"""A partition whose offset stays the same for this many observations (five minutes) no longer holds the others back."""

CommittedOffsets = Mapping[TopicPartition, tuple[int, str]]
"""What a group has committed: offset and offset metadata."""


class WatermarkAlignment:
    """Counts what this worker sent for event times that the slowest partition has not reached yet."""

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._newest_ns: dict[TopicPartition, int] = {}
        self._unchanged: dict[TopicPartition, tuple[int, int]] = {}
        self._front_ns: int | None = None

    def forget(self) -> None:
        """Partitions are being reassigned: drop all counts."""
        self._batches.clear()
        self._newest_ns.clear()

    def record(self, partition: TopicPartition, newest_ns: int | None, count: int) -> None:
        """Count matches and heartbeats of a partition, up to this event time."""
        if newest_ns is not None:
            newest_ns = self._newest_ns[partition] = max(newest_ns, self._newest_ns.get(partition, 0))
            self._batches.setdefault(partition, deque()).append((newest_ns, count))

    def mark(self, partition: TopicPartition, topic_id: str) -> str:
        """The metadata of a committed offset: the topic's id and the partition's newest event time."""
        newest_ns = self._newest_ns.get(partition)
        return topic_id if newest_ns is None else f"{topic_id} {newest_ns}"

    def observe(self, read: CommittedOffsets, ends: Mapping[TopicPartition, int]) -> None:
        """Find the slowest of the partitions that have more to read; one without any progress is ignored."""
        behind = {partition: mark for partition, mark in read.items() if mark[0] < ends.get(partition, 0)}
        self._unchanged = {
            partition: (offset, self._times_unchanged(partition, offset)) for partition, (offset, _) in behind.items()
        }
        times_ns = [
            time_of_mark(metadata)
            for partition, (_, metadata) in behind.items()
            if self._unchanged[partition][1] < MAX_UNCHANGED
        ]
        self._front_ns = min((time_ns for time_ns in times_ns if time_ns is not None), default=None)

    def too_far(self) -> set[TopicPartition]:
        """The partitions to pause until the slowest one has caught up."""
        for batches in self._batches.values():
            while batches and (self._front_ns is None or batches[0][0] <= self._front_ns):
                batches.popleft()
        waiting = sum(count for batches in self._batches.values() for _, count in batches)
        return {partition for partition, batches in self._batches.items() if batches} if waiting > MAX_AHEAD else set()

    def _times_unchanged(self, partition: TopicPartition, offset: int) -> int:
        last_offset, times = self._unchanged.get(partition, (-1, 0))
        return times + 1 if last_offset == offset else 0


def topic_of_mark(metadata: str) -> str:
    """The id of the topic that a committed offset belongs to; empty when another program committed it."""
    return metadata.partition(" ")[0]


def time_of_mark(metadata: str) -> int | None:
    """The newest event time (ns) before a committed offset; None when it is unknown."""
    time_ns = metadata.partition(" ")[2]
    return int(time_ns) if time_ns.isdecimal() else None
