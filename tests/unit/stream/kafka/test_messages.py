"""Messages to the store: split by size."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.model.heartbeats import Step
from epicenter.rules.model.ledger import Gap, JobPhase, JobState, Joined, Sample
from epicenter.rules.model.step_bundle import StepBundle
from epicenter.stream.kafka.messages import (
    SPLIT_ABOVE_BYTES,
    Part,
    ScanMessage,
    StoreMessage,
    decode,
    encode,
    store_messages,
)
from tests.support.signals import a_signal


def a_joined(number: int, length: int) -> Joined:
    return Joined("i1", msgspec.structs.replace(a_signal("xid-79", 1), signal_id=str(number), text="x" * length))


@pytest.mark.parametrize(
    ("lengths", "messages"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([10] * 100, 1, id="little"),
        pytest.param([SPLIT_ABOVE_BYTES // 4] * 8, 4, id="much"),
        pytest.param([SPLIT_ABOVE_BYTES + 1], 1, id="one-that-is-too-large"),
    ],
)
def test_split_signals_arrive_in_order(lengths: list[int], messages: int) -> None:
    joined = [a_joined(number, length) for number, length in enumerate(lengths)]
    pieces = list(store_messages(StoreMessage(signals=tuple(joined))))
    assert len(pieces) == messages
    arrived = [decode(piece) for piece in pieces]
    assert [signal for piece in arrived if isinstance(piece, StoreMessage) for signal in piece.signals] == joined


def test_kinds_are_split_alike() -> None:
    gap = Gap("g", "cut-off", "c", "n1", "A", "", 1, 2, None, "x" * SPLIT_ABOVE_BYTES)
    sample = Sample(1, "h:1", "epicenter_records_total", {"source": "local"}, 1.0)
    pieces = [decode(piece) for piece in store_messages(StoreMessage(gaps=(gap, gap), samples=(sample,) * 3))]
    messages = [piece for piece in pieces if isinstance(piece, StoreMessage)]
    assert [gap for message in messages for gap in message.gaps] == [gap, gap]
    assert [sample for message in messages for sample in message.samples] == [sample] * 3


def test_large_states_of_jobs_are_split_and_arrive_in_order() -> None:
    ranks = tuple(range(SPLIT_ABOVE_BYTES // 8))
    states = [JobState("c", f"job-{number}", 7, JobPhase.BEHIND, 5, 0, behind=ranks) for number in range(6)]
    pieces = [decode(piece) for piece in store_messages(StoreMessage(job_states=tuple(states)))]
    assert len(pieces) > 1
    assert [state for piece in pieces if isinstance(piece, StoreMessage) for state in piece.job_states] == states


def test_a_part_of_bundles_alone_has_content() -> None:
    bundle = StepBundle.alone(Step(7, "default", "A", "n1", 3, 0))
    message = ScanMessage((Part("logs.raw/0", 7, 7, (), (), step_bundles=(bundle,)),))
    assert message.has_content
    assert decode(encode(message)) == message


def test_messages_of_earlier_versions_are_read() -> None:
    """A part once had no rank placements, and no bundles: as it was then in the topic."""
    old = msgspec.msgpack.encode(["found", [["logs.raw/0", 7, None, [], []]]])
    assert decode(old) == ScanMessage((Part("logs.raw/0", 7, None, (), ()),))
    assert decode(encode(StoreMessage())) == StoreMessage()
