"""When each node's kernel and workers spoke, in buckets of ten seconds: so how batches are cut changes nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from epicenter.rules.model.times import NS_PER_S

BUCKET_NS: Final = 10 * NS_PER_S
MAX_KEPT_BUCKETS: Final = 24
LEARNT_HEARTBEATS: Final = 20
HEARTBEATS_TO_MISS: Final = 5
"""So many make it odd that a node says nothing more; too few to call it dead."""


class Cadence(NamedTuple):
    """How a stream spoke in whole buckets: how many, the mean and longest gap from one to the next, and the last."""

    buckets: int
    mean_gap: float
    longest_gap: int
    last: int


class Stream(msgspec.Struct, array_like=True):
    """The newest buckets in which one stream of a node spoke, oldest first; and how many there were since `first`.

    Which moment of a bucket is told depends on how batches were cut, so only whole buckets are counted; `longest_gap`
    leaves out the gap before the newest bucket, which may not be over yet.
    """

    newest: list[int] = []
    first: int = -1
    count: int = 0
    longest_gap: int = 0

    def record(self, time_ns: int) -> None:
        """Somebody of the stream spoke. Heartbeats come in event-time order; the same bucket again changes nothing."""
        bucket = time_ns // BUCKET_NS
        if self.newest and bucket <= self.newest[-1]:
            return
        if not self.newest:
            self.first = bucket
        if len(self.newest) > 1:
            self.longest_gap = max(self.longest_gap, self.newest[-1] - self.newest[-2])
        self.count += 1
        self.newest = [*self.newest[1 - MAX_KEPT_BUCKETS :], bucket]

    def activity(self, after_ns: int, now_ns: int) -> int:
        """In how many whole buckets it spoke, between a moment and now; never more than are kept."""
        first, end = -(-after_ns // BUCKET_NS), now_ns // BUCKET_NS
        return sum(first <= bucket < end for bucket in self.newest)

    def cadence(self, now_ns: int) -> Cadence | None:
        """How it has spoken so far; None when it has not spoken in two whole buckets."""
        whole = [bucket for bucket in self.newest if bucket < now_ns // BUCKET_NS]
        count = self.count - (len(self.newest) - len(whole))
        if len(whole) < 2:
            return None
        longest = max(self.longest_gap, whole[-1] - whole[-2])
        return Cadence(count, (whole[-1] - self.first) / (count - 1), longest, whole[-1])

    def is_overdue(self, now_ns: int, streams: int, learnt: int = LEARNT_HEARTBEATS) -> bool:
        """Whether it is silent for longer than chance explains, for one of so many streams; false until learnt.

        A stream that was never silent for twice its usual gap is overdue after four of its longest; one that speaks at
        random after so many gaps that among all streams one in two hundred is silent for as long by chance.
        """
        cadence = self.cadence(now_ns)
        if cadence is None or cadence.buckets < learnt:
            return False
        is_regular = cadence.longest_gap <= 2 * cadence.mean_gap
        patience = 4 * cadence.longest_gap if is_regular else cadence.mean_gap * chance_gaps(streams)
        return now_ns // BUCKET_NS - 1 - cadence.last > max(patience, 2 * cadence.longest_gap)


def chance_gaps(streams: int) -> float:
    """So many mean gaps: one chance in two hundred that one of so many random streams says nothing in them."""
    return (7.6 + max(1, streams).bit_length()) * 0.7


class NodeStreams(msgspec.Struct, array_like=True):
    """What is heard from one node: what its jobs say, and what its kernel and its other programs say.

    `first_cut_ns` is when a line of it was first cut in the middle, `cut_ns` the second in which one was last; `cuts`
    in how many seconds one was.
    """

    kernel: Stream = msgspec.field(default_factory=Stream)
    worker: Stream = msgspec.field(default_factory=Stream)
    heard_ns: int = 0
    cut_ns: int = 0
    cuts: int = 0
    first_cut_ns: int = 0

    def record(self, source: str, time_ns: int) -> None:
        """One of its streams spoke."""
        self.heard_ns = max(self.heard_ns, time_ns)
        if source in ("kernel", "worker"):
            (self.kernel if source == "kernel" else self.worker).record(time_ns)

    def record_cut(self, time_ns: int) -> None:
        """A line of it ends in the middle."""
        second_ns = time_ns // NS_PER_S * NS_PER_S
        self.first_cut_ns = min(time_ns, self.first_cut_ns or time_ns)
        self.cuts += second_ns > self.cut_ns
        self.cut_ns = max(self.cut_ns, second_ns)

    def is_lost(self, now_ns: int, nodes: int) -> bool:
        """Whether all that is known of the node is silent for longer than chance explains."""
        streams = [stream for stream in (self.kernel, self.worker) if stream.count]
        return bool(streams) and all(stream.is_overdue(now_ns, nodes, HEARTBEATS_TO_MISS) for stream in streams)

    def last_ns(self, now_ns: int) -> int:
        """When the last whole bucket ended in which it spoke; 0 when there is none."""
        end = now_ns // BUCKET_NS
        newest = [bucket for stream in (self.kernel, self.worker) for bucket in stream.newest if bucket < end]
        return (max(newest) + 1) * BUCKET_NS if newest else 0

    def was_heard(self, since_ns: int, now_ns: int) -> bool:
        """Whether it spoke in a whole bucket that ended after a moment."""
        return self.last_ns(now_ns) > since_ns

    def activity(self, after_ns: int, now_ns: int) -> int:
        """Whole buckets of both streams together, between a moment and now."""
        return self.kernel.activity(after_ns, now_ns) + self.worker.activity(after_ns, now_ns)
