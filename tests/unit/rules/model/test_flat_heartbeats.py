"""Heartbeats on the wire: one shape, which version 0.1 wrote and reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from epicenter.rules.model.flat_heartbeats import FlatHeartbeat, flattened, unflattened
from epicenter.rules.model.heartbeats import (
    Advanced,
    Alive,
    CheckpointSaved,
    Heartbeat,
    LastStep,
    LineCut,
    MayAdvance,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)

WHO = (7, "east", "A", "n1")


@pytest.mark.parametrize(
    ("heartbeat", "columns"),
    [
        (Alive(*WHO), [None, None, "worker", "", 0, None, None]),
        (Alive(*WHO, source="kernel"), [None, None, "kernel", "", 0, None, None]),
        (Alive(*WHO, 3), [None, 3, "worker", "", 0, None, None]),
        (Step(*WHO, 41, 3), [41, 3, "worker", "", 0, None, None]),
        (Step(*WHO, 41, 3, 2_500_000_000), [41, 3, "worker", "", 0, None, 2_500_000_000]),
        (Step(*WHO, 0), [0, None, "worker", "", 0, None, None]),
        (Advanced(*WHO), [None, None, "worker", "progress", 0, None, None]),
        (MayAdvance(*WHO, 900), [None, None, "worker", "until", 0, None, 900]),
        (PhaseBegan(*WHO, "evaluation"), [None, None, "worker", "evaluation", 0, None, None]),
        (WorldSize(*WHO, 16, 3), [None, 3, "worker", "", 16, None, None]),
        (WorldSize(*WHO, 16), [None, None, "worker", "", 16, None, None]),
        (NodeCount(*WHO, 2), [None, None, "worker", "nodes", 2, None, None]),
        (CheckpointSaved(*WHO, 40), [None, None, "worker", "checkpoint", 0, 40, None]),
        (LastStep(*WHO, 40), [None, None, "worker", "last", 0, 40, None]),
        (LineCut(*WHO, 3), [None, 3, "worker", "cut", 0, None, None]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Heartbeat) else "",
)
def test_each_kind_has_its_columns(heartbeat: Heartbeat, columns: list[Any]) -> None:
    written = msgspec.msgpack.encode(flattened(heartbeat))
    assert msgspec.msgpack.decode(written) == [*WHO, *columns]
    assert unflattened(msgspec.msgpack.decode(written, type=FlatHeartbeat)) == heartbeat


def test_columns_that_an_older_version_did_not_have_are_empty() -> None:
    old = msgspec.msgpack.encode([*WHO, 5])
    assert unflattened(msgspec.msgpack.decode(old, type=FlatHeartbeat)) == Step(*WHO, 5)
