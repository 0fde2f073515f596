"""When each node's kernel and workers logged, in buckets of ten seconds, so that batch sizes change nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from epicenter.rules.model.times import NS_PER_S

BUCKET_NS: Final = 10 * NS_PER_S
MAX_KEPT_BUCKETS: Final = 24
LEARNT_HEARTBEATS: Final = 20
HEARTBEATS_TO_MISS: Final = 5
"""After this many, missing lines of a node are suspicious; they are too few to call it dead."""


class Cadence(NamedTuple):
    """The rhythm of a stream: how many buckets had lines, the mean and longest gap between them, and the last one."""

    buckets: int
    mean_gap: float
    longest_gap: int
    last: int


class Stream(msgspec.Struct, array_like=True):
    """The newest buckets in which one stream of a node had lines, oldest first; `count` of them since `first`.

    Which moment of a bucket is reported depends on batches, so only whole buckets count. `longest_gap` leaves out the
    gap before the newest bucket, which may be incomplete. `first` is -1 while `count` is 0.
    """

    newest: list[int] = []
    first: int = -1
    count: int = 0
    longest_gap: int = 0

    def record(self, time_ns: int) -> None:
        """Record a line of the stream. Times come in order; the same bucket again changes nothing."""
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
        """In how many whole buckets it had lines between two times, among the newest `MAX_KEPT_BUCKETS`."""
        first, end = -(-after_ns // BUCKET_NS), now_ns // BUCKET_NS
        return sum(first <= bucket < end for bucket in self.newest)

    def cadence(self, now_ns: int) -> Cadence | None:
        """Its rhythm so far; None with fewer than two whole buckets."""
        whole = [bucket for bucket in self.newest if bucket < now_ns // BUCKET_NS]
        count = self.count - (len(self.newest) - len(whole))
        if len(whole) < 2:
            return None
        longest = max(self.longest_gap, whole[-1] - whole[-2])
        return Cadence(count, (whole[-1] - self.first) / (count - 1), longest, whole[-1])

    def chance_of_pause(self, now_ns: int) -> float:
        """The chance of a pause as long as the present one: 1 if it is not the longest of n, else 1 in n, or less.

        Less where it is far longer than the others: of lines at random, a pause exceeds `pause` with the chance
        `(seen / (seen + pause)) ** gaps` after so many gaps over the time `seen`.
        """
        cadence = self.cadence(now_ns)
        if cadence is None or (pause := now_ns // BUCKET_NS - cadence.last) <= cadence.longest_gap:
            return 1.0
        gaps = cadence.buckets - 1
        seen = gaps * cadence.mean_gap
        return min(1 / cadence.buckets, (seen / (seen + pause)) ** gaps)

    def is_overdue(self, now_ns: int, streams: int, learnt: int = LEARNT_HEARTBEATS) -> bool:
        """Whether it has had no lines for longer than chance explains, as one of `streams`; false until learnt.

        A regular stream (no gap over twice the mean) is overdue after four of its longest gaps. A random one is overdue
        when the chance that any of the streams pauses as long is one in two hundred.
        """
        cadence = self.cadence(now_ns) if self.count >= learnt else None
        if cadence is None or cadence.buckets < learnt:
            return False
        is_regular = cadence.longest_gap <= 2 * cadence.mean_gap
        patience = 4 * cadence.longest_gap if is_regular else cadence.mean_gap * chance_gaps(streams)
        return now_ns // BUCKET_NS - 1 - cadence.last > max(patience, 2 * cadence.longest_gap)


def chance_gaps(streams: int) -> float:
    """In mean gaps: the pause that one of `streams` random streams makes with a chance of one in two hundred."""
    return (7.6 + max(1, streams).bit_length()) * 0.7


class NodeStreams(msgspec.Struct, array_like=True):
    """The streams of one node: `worker` of its jobs, `kernel` of its kernel and other programs.

    `first_cut_ns` is when a line was first cut off, `cut_ns` the last second in which one was, and `cuts` the number of
    such seconds.
    """

    kernel: Stream = msgspec.field(default_factory=Stream)
    worker: Stream = msgspec.field(default_factory=Stream)
    last_seen_ns: int = 0
    cut_ns: int = 0
    cuts: int = 0
    first_cut_ns: int = 0

    def record(self, source: str, time_ns: int) -> None:
        """Record a line of one of its streams."""
        self.last_seen_ns = max(self.last_seen_ns, time_ns)
        if source in ("kernel", "worker"):
            (self.kernel if source == "kernel" else self.worker).record(time_ns)

    def record_cut(self, time_ns: int) -> None:
        """Record a line that is cut off."""
        second_ns = time_ns // NS_PER_S * NS_PER_S
        self.first_cut_ns = min(time_ns, self.first_cut_ns or time_ns)
        self.cuts += second_ns > self.cut_ns
        self.cut_ns = max(self.cut_ns, second_ns)

    def is_lost(self, now_ns: int, nodes: int) -> bool:
        """Whether all known streams of the node have stopped for longer than chance explains.

        A line in a bucket that is not whole yet counts: after a pause of the job it is the only one.
        """
        if self.last_seen_ns // BUCKET_NS == now_ns // BUCKET_NS:
            return False
        streams = [stream for stream in (self.kernel, self.worker) if stream.count]
        return bool(streams) and all(stream.is_overdue(now_ns, nodes, HEARTBEATS_TO_MISS) for stream in streams)

    @property
    def first_bucket(self) -> int:
        """The first bucket with lines of one of its known streams."""
        return min(stream.first for stream in (self.kernel, self.worker) if stream.count)

    def last_ns(self, now_ns: int) -> int:
        """The end of the last whole bucket with lines; 0 if there is none."""
        end = now_ns // BUCKET_NS
        newest = [bucket for stream in (self.kernel, self.worker) for bucket in stream.newest if bucket < end]
        return (max(newest) + 1) * BUCKET_NS if newest else 0

    def was_active(self, since_ns: int, now_ns: int) -> bool:
        """Whether it had lines in a whole bucket that ended after `since_ns`."""
        return self.last_ns(now_ns) > since_ns

    def activity(self, after_ns: int, now_ns: int) -> int:
        """Whole buckets with lines between two times, both streams together."""
        return self.kernel.activity(after_ns, now_ns) + self.worker.activity(after_ns, now_ns)
