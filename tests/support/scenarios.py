"""A small scenario for tests to break, and a core that is not the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.stream.scenarios.reading import Scenario, read_scenarios
from tests.support.logs import the_rules
from tests.support.signals import an_xid

A_SCENARIO = """\
title: A GPU is lost
story: One line of one kernel.
jobs:
  A: {nodes: n1..n2, ranks_per_node: 2}
steps:
  - lines:
      - {at: +0s, job: A, ranks: all, text: "loading shard {rank}"}
      - at: +20s
        on: n2
        source: kernel
        text: "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
      - {at: +23s, job: A, ranks: all, spread: 1s, text: "[rank{rank}]: NCCL Error 2: unhandled system error"}
    advance: 1m
    expect:
      - {class: xid-79, node: n2, jobs: [A]}
"""


def scenario(folder: Path, text: str = A_SCENARIO, name: str = "story") -> Scenario:
    """The scenario of this text, written to a file of the folder."""
    file = folder / f"{name}.yaml"
    file.write_text(text)
    (found,) = read_scenarios([file])
    return found


class RecordedState(msgspec.Struct):
    """What a `RecordingCore` received."""

    pieces: list[list[str]] = []
    watermark_ns: int = 0


class RecordingCore:
    """Has one incident; `title_of` makes its title of the received ids, piece by piece."""

    def __init__(self, title_of: Callable[[list[list[str]]], str], snapshot: bytes | None):
        self._title_of = title_of
        self._state = msgspec.msgpack.decode(snapshot, type=RecordedState) if snapshot else RecordedState()

    def add(
        self,
        matches: Iterable[Match],
        heartbeats: Iterable[Heartbeat] = (),
        rank_placements: Iterable[RankPlacement] = (),
    ) -> None:
        if ids := [match.match_id for match in matches]:
            self._state.pieces.append(ids)

    def advance(self, watermark_ns: int) -> list[Incident]:
        return [an_incident(self._title_of(self._state.pieces))]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._state)


class ForgetfulCore(RecordingCore):
    """Leaves its newest piece out of the snapshot."""

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(RecordedState(self._state.pieces[:-1]))


def an_incident(title: str = "") -> Incident:
    """A document with some title."""
    return msgspec.structs.replace(_a_document(), title=title)


@cache
def _a_document() -> Incident:
    engine = Engine(the_rules())
    engine.add([an_xid(79, 10, "n2")])
    (document,) = engine.flush()
    return document
