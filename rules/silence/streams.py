"""When each node's kernel and workers spoke, in buckets of ten seconds: so how batches are cut changes nothing."""

from __future__ import annotations

from typing import Final

import msgspec

from rules.model import NS_PER_S

BUCKET_NS: Final = 10 * NS_PER_S
KEPT_BUCKETS: Final = 24


class Stream(msgspec.Struct, array_like=True):
    """The newest buckets in which one stream of a node spoke, oldest first; and how many there were since `first`."""

    newest: list[int] = []
    first: int = -1
    count: int = 0
    longest_gap: int = 0

    def note(self, time_ns: int) -> None:
        """Somebody of the stream spoke. Beats come in event-time order; the same bucket again changes nothing."""
        bucket = time_ns // BUCKET_NS
        if self.newest and bucket <= self.newest[-1]:
            return
        if self.newest:
            self.longest_gap = max(self.longest_gap, bucket - self.newest[-1])
        else:
            self.first = bucket
        self.count += 1
        self.newest = [*self.newest[1 - KEPT_BUCKETS :], bucket]

    def spoken(self, after_ns: int, now_ns: int) -> int:
        """In how many whole buckets it spoke, between a moment and now; never more than are kept."""
        first, end = -(-after_ns // BUCKET_NS), now_ns // BUCKET_NS
        return sum(first <= bucket < end for bucket in self.newest)

    def is_speaking_at(self, time_ns: int) -> bool:
        """Whether it was heard of at or after a moment."""
        return bool(self.newest) and self.newest[-1] >= time_ns // BUCKET_NS

    @property
    def mean_gap(self) -> float:
        """Buckets from one that it spoke in to the next, on average."""
        return (self.newest[-1] - self.first) / (self.count - 1) if self.count > 1 else float("inf")

    def is_overdue(self, now_ns: int, streams: int) -> bool:
        """Whether it is silent for longer than chance explains, for one of so many streams; false until learnt.

        A stream that was never silent for twice its usual gap is overdue after four of its longest; one that speaks at
        random after so many gaps that among all streams one in a thousand is silent for as long by chance.
        """
        if self.count < LEARNT_BEATS:
            return False
        silent = now_ns // BUCKET_NS - 1 - self.newest[-1]
        is_regular = self.longest_gap <= 2 * self.mean_gap
        patience = 4 * self.longest_gap if is_regular else self.mean_gap * chance_gaps(streams)
        return silent > max(patience, 2 * self.longest_gap)


LEARNT_BEATS: Final = 20


def chance_gaps(streams: int) -> float:
    """So many mean gaps pass with one chance in a thousand that none of so many random streams speaks in them."""
    return (10 + max(1, streams).bit_length()) * 0.7


class NodeStreams(msgspec.Struct, array_like=True):
    """What is heard from one node. `cut_ns` is when a line of it was last cut in the middle."""

    kernel: Stream = msgspec.field(default_factory=Stream)
    worker: Stream = msgspec.field(default_factory=Stream)
    heard_ns: int = 0
    cut_ns: int = 0

    def note(self, source: str, time_ns: int) -> None:
        """One of its streams spoke."""
        self.heard_ns = max(self.heard_ns, time_ns)
        if source in ("kernel", "worker"):
            (self.kernel if source == "kernel" else self.worker).note(time_ns)

    def spoken(self, after_ns: int, now_ns: int) -> int:
        """Whole buckets of both streams together, between a moment and now."""
        return self.kernel.spoken(after_ns, now_ns) + self.worker.spoken(after_ns, now_ns)
