"""Matches of one partition -> incidents, with a snapshot from which another worker goes on. No Kafka in here."""

from __future__ import annotations

import msgspec

from rules.engine import Engine
from rules.model import Incident
from rules.ruleset import RuleSet
from rules.watermark import Watermark
from stream.messages import Found, Tick


class Snapshot(msgspec.Struct):
    """Everything that a correlator knows, after the message at `offset`."""

    offset: int
    watermark: Watermark
    idle: set[str]
    engine: bytes


class Correlator:
    """Takes messages in the order of their offsets; one that was taken before changes nothing."""

    def __init__(self, rules: RuleSet, lateness_ns: int, snapshot: bytes | None = None):
        state = msgspec.msgpack.decode(snapshot, type=Snapshot) if snapshot else None
        self.offset = state.offset if state else -1
        self.engine = Engine(rules, state.engine if state else None)
        self._watermark = state.watermark if state else Watermark(lateness_ns)
        self._idle = state.idle if state else set()

    def take(self, offset: int, message: Found | Tick) -> list[Incident]:
        """The incidents that changed by the message."""
        if offset <= self.offset:
            return []
        self.offset = offset
        return self.engine.advance(self._found(message) if isinstance(message, Found) else self._tick(message))

    def snapshot(self) -> bytes:
        """The state as bytes."""
        return msgspec.msgpack.encode(Snapshot(self.offset, self._watermark, self._idle, self.engine.snapshot()))

    def _found(self, message: Found) -> int:
        for part in message.parts:
            self.engine.add(part.matches, part.beats)
            self._watermark.observe(part.source, part.newest_ns)
            self._idle.discard(part.source)
        return self._watermark.hold([source for source in message.sources if source not in self._idle])

    def _tick(self, message: Tick) -> int:
        self._idle = set(message.sources) - set(message.lagging)
        if message.lagging:
            return self._watermark.hold(message.lagging)
        return self._watermark.idle(message.elapsed_ns, message.at_pace)
