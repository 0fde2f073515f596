"""Plays a scenario through the real scanner and core, with a clock that only deliveries advance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scenarios.delivery import Chapter, Delivery
from epicenter.stream.scenarios.lines import Line

CLUSTER: Final = "default"
TICK_NS: Final = NS_PER_S
"""The core gets the clock after each such interval, and at the end of each step."""


class Core(Protocol):
    """The `Engine`, or a substitute for it."""

    def add(
        self,
        matches: Iterable[Match],
        heartbeats: Iterable[Heartbeat] = (),
        rank_placements: Iterable[RankPlacement] = (),
    ) -> None:
        """Add matches, heartbeats and placements of ranks."""

    def advance(self, watermark_ns: int) -> list[Incident]:
        """Process everything up to the watermark; the incidents that changed."""

    def snapshot(self) -> bytes:
        """The state, from which another core continues."""


MakeCore = Callable[[bytes | None], Core]
"""A core from a snapshot, or a new one."""

Documents = list[Incident]
"""The newest document of every incident so far, by id."""


@dataclass
class _Player:
    make_core: MakeCore
    make_scanner: Callable[[], BatchScanner]
    lateness_ns: int
    core: Core = field(init=False)
    clock_ns: int = 0
    unread: dict[str, Batch] = field(default_factory=dict)
    newest: dict[str, Incident] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.core, self.scanner = self.make_core(None), self.make_scanner()

    def deliver(self, delivery: Delivery) -> None:
        batch = as_batch(delivery.lines)
        if held := self.unread.pop(delivery.file, None):
            batch = held.followed_by(batch)
        scanned = self.scanner.scan(batch, is_last=not delivery.continues)
        if scanned.records < len(batch):
            self.unread[delivery.file] = batch.tail(scanned.records)
        self.core.add([*scanned.matches, *scanned.observed], scanned.heartbeats, scanned.rank_placements)
        if delivery.arrival_ns >= self.clock_ns + TICK_NS:
            self.advance(delivery.arrival_ns)

    def advance(self, now_ns: int) -> None:
        """Advance the core's clock; a file with unread lines holds the watermark back."""
        self.clock_ns = now_ns
        read_to_ns = min((batch.received_ns[0] for batch in self.unread.values()), default=now_ns)
        for incident in self.core.advance(min(now_ns, read_to_ns) - self.lateness_ns):
            self.newest[incident.incident_id] = incident

    def restart(self) -> None:
        """Continue from a snapshot; lines that the scanner had not finished are read again."""
        self.core, self.scanner = self.make_core(self.core.snapshot()), self.make_scanner()

    def documents(self) -> Documents:
        return [incident for _, incident in sorted(self.newest.items())]


def play(
    chapters: Sequence[Chapter],
    make_core: MakeCore,
    make_scanner: Callable[[], BatchScanner],
    lateness_ns: int,
    restarts: Collection[int] = (),
) -> list[Documents]:
    """The incidents at the end of each chapter; `restarts` are numbers of deliveries; it restarts before each."""
    player = _Player(make_core, make_scanner, lateness_ns)
    found, number = [], 0
    for chapter in chapters:
        for delivery in chapter.deliveries:
            if number in restarts:
                player.restart()
            player.deliver(delivery)
            number += 1
        player.advance(chapter.end_ns)
        found.append(player.documents())
    return found


def as_batch(lines: Sequence[Line]) -> Batch:
    """Lines of one file, received when they were written."""
    return Batch(
        source=lines[0].file,
        values=[line.value for line in lines],
        keys=[line.key for line in lines],
        received_ns=[line.time_ns for line in lines],
        offsets=[line.number for line in lines],
    )
