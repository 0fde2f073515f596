"""Matches of one partition -> incidents, with a snapshot from which another worker resumes. No Kafka in here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from epicenter.rules.correlate.unconfirmed import unconfirmed
from epicenter.rules.detect.signal import match_of
from epicenter.rules.engine import Engine
from epicenter.rules.event_time.watermark import Watermark
from epicenter.rules.model.flat_heartbeats import unflattened
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Joined
from epicenter.rules.model.records import Match
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.report.open_incidents import Kind, OpenIncidents
from epicenter.stream.kafka.messages import Message, Part, ProgressTick, ScanMessage, StoreMessage


class Snapshot(msgspec.Struct):
    """The state of a correlator after the message at `offset`. `engine` is set in written snapshots only.

    `unconfirmed` holds, for each raw partition, (end of a batch, its newest event time) of batches that no tick has
    confirmed yet. `idle_ns` is how long the raw topic has ended at `idle_ends`; of it the newest tick reported
    `reported_ns`. `confirms_from` is set while incidents may be recorded as open that this state does not know: what
    the lines confirm is known once everything up to this offset was processed and the raw topic read to its end.
    """

    engine: bytes = b""
    offset: int = -1
    watermark: Watermark = msgspec.field(default_factory=lambda: Watermark(0))
    unconfirmed: dict[str, list[tuple[int, int]]] = {}
    idle_ends: dict[str, int] = {}
    idle_ns: int = 0
    reported_ns: int = msgspec.field(default=0, name="told_ns")
    open_incidents: OpenIncidents = msgspec.field(default_factory=OpenIncidents)
    confirms_from: int | None = None


class PartitionCorrelator:
    """Processes messages in the order of their offsets; a message processed before has no effect.

    Only ticks advance time: a batch of one partition does not show what is pending in the others.
    """

    def __init__(self, rules: RuleSet, lateness_ns: int, snapshot: bytes | None = None):
        self._state = msgspec.msgpack.decode(snapshot, type=Snapshot) if snapshot else Snapshot()
        self._state.watermark.lateness_ns = lateness_ns
        self.engine = Engine(rules, self._state.engine or None, lists_joined=True)
        self._state.engine = b""
        self._opened: list[Kind] = []
        self._confirms_at_ns: int | None = None

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from now on."""
        self.engine.reload(rules)

    @property
    def offset(self) -> int:
        """The offset of the last message processed; -1 before the first."""
        return self._state.offset

    @property
    def wait_ns(self) -> int:
        """How long the watermark currently waits for late lines, in nanoseconds."""
        return self._state.watermark.wait_ns

    def begin_at(self, offset: int) -> None:
        """Process this message next, whatever was processed before."""
        self._state.offset = offset - 1

    def lose_state(self, confirms_from: int) -> None:
        """Note that an earlier state was lost: incidents may be recorded as open that this one does not know."""
        self._state.confirms_from = confirms_from

    @property
    def can_confirm(self) -> bool:
        """Whether an earlier state was lost, and by now all incidents are known that the lines confirm."""
        return self._confirms_at_ns is not None and self.engine.watermark_ns >= self._confirms_at_ns

    def confirm(self, recorded: Iterable[Incident], time_ns: int) -> list[Incident]:
        """The ends of the incidents that are recorded as open, and that no line confirms."""
        self._state.confirms_from = self._confirms_at_ns = None
        return unconfirmed(recorded, self.engine.open_ids, time_ns)

    def process(self, offset: int, message: Message) -> list[Incident]:
        """The incidents that the message changed."""
        if offset <= self._state.offset:
            return []
        self._state.offset = offset
        if isinstance(message, ProgressTick):
            watermark_ns = self._watermark_at(message)
            if not message.lagging:
                self._note_end()
            changed = self.engine.advance(watermark_ns)
            self._opened += self._state.open_incidents.update(changed)
            return changed
        for part in message.parts if isinstance(message, ScanMessage) else ():
            self._state.watermark.learn(_times_ns(part))
            heartbeats = map(unflattened, part.heartbeats)
            self.engine.add(part.matches, heartbeats, part.rank_placements, step_bundles=part.step_bundles)
            if part.end is not None and part.newest_ns is not None:
                self._state.unconfirmed.setdefault(part.source, []).append((part.end, part.newest_ns))
        return []

    def open_incidents(self) -> Counter[Kind]:
        """The number of open incidents of each kind."""
        return self._state.open_incidents.counts()

    def opened(self) -> list[Kind]:
        """The kinds of the incidents that opened since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def windowed(self) -> list[Match]:
        """The matches that windows produced since the last call, as rows of the store."""
        return list(map(match_of, self.engine.windowed()))

    def for_store(self) -> StoreMessage:
        """Signals that joined incidents, gaps in the evidence and states of jobs since the last call."""
        return StoreMessage(
            signals=tuple(map(_without_large_fields, self.engine.joined())),
            gaps=tuple(self.engine.gaps()),
            job_states=tuple(self.engine.job_states()),
        )

    def snapshot(self) -> bytes:
        """The state as bytes."""
        return msgspec.msgpack.encode(msgspec.structs.replace(self._state, engine=self.engine.snapshot()))

    def _note_end(self) -> None:
        """The raw topic is read to its end: incidents can be confirmed once event time passes its newest record."""
        confirms_from = self._state.confirms_from
        if confirms_from is not None and self.offset >= confirms_from and self._confirms_at_ns is None:
            self._confirms_at_ns = self._state.watermark.newest_ns

    def _watermark_at(self, tick: ProgressTick) -> int:
        """Count each partition only up to the offset of the tick, however much arrived since."""
        watermark = self._state.watermark
        watermark.is_live = tick.at_pace
        for source, batches in self._state.unconfirmed.items():
            read_to = tick.ends.get(source, 0)
            for end, newest_ns in batches:
                if end <= read_to:
                    watermark.observe(source, newest_ns)
            self._state.unconfirmed[source] = [batch for batch in batches if batch[0] > read_to]
        if tick.lagging:
            return watermark.hold(tick.lagging)
        return watermark.idle(self._idle_ns(tick), tick.at_pace)

    def _idle_ns(self, tick: ProgressTick) -> int:
        """How long nothing was written. Elapsed time restarts when another worker takes over the ticks."""
        state = self._state
        if tick.ends != state.idle_ends:
            state.idle_ends, state.idle_ns, state.reported_ns = tick.ends, 0, 0
        is_other_ticker = tick.elapsed_ns < state.reported_ns
        state.idle_ns += tick.elapsed_ns - (0 if is_other_ticker else state.reported_ns)
        state.reported_ns = tick.elapsed_ns
        return state.idle_ns


def _without_large_fields(joined: Joined) -> Joined:
    """The signal without fields that are not stored: tracebacks are long."""
    signal = msgspec.structs.replace(joined.signal, position=None, fields={}, block=())
    return Joined(joined.incident_id, signal)


def _times_ns(part: Part) -> Iterator[int]:
    yield from (match.event.event_time_ns for match in part.matches)
    yield from (heartbeat.event_time_ns for heartbeat in part.heartbeats)
    yield from (time_ns for bundle in part.step_bundles for time_ns in bundle.times_ns)
