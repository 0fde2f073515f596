"""Snapshots, messages and journals that version 0.1 wrote are read, and gone on from, as if nothing had changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epicenter.rules.model.incident import Incident
from epicenter.stream.kafka.messages import Message, ScanMessage, StoreMessage, encode
from epicenter.stream.services.partition import PartitionCorrelator
from tests.support.logs import the_rules
from tests.support.planning import NOW_NS, SILENT_RULE, PlannerHarness, incident, resolved, routing, with_cause
from tests.unit.compatibility import reading
from tests.unit.compatibility.reading import LATENESS_NS, ROUTING, SAID

WRITTEN = Path(__file__).parent / "version_0_1"
SNAPSHOT_AFTER = 132
"""The number of the last message before the snapshot."""

BLAMED_ON_A_SURVIVED_ERROR = "b2e5cf457bbbbfbe"
"""A hang that version 0.1 blamed on an exception sixteen minutes and many steps earlier."""

REDEFINED = ("k8s.unschedulable_for_long",)
"""Windows whose definition has changed since: they begin anew."""

Outcome = tuple[list[Incident], StoreMessage]


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return reading.matches_of(WRITTEN)


@pytest.fixture(scope="module")
def snapshot() -> bytes:
    return reading.unpacked(WRITTEN / f"snapshot_after_{SNAPSHOT_AFTER}.zst")


def outcomes(correlator: PartitionCorrelator, messages: list[Message]) -> Iterator[Outcome]:
    """Without the states of jobs: version 0.1 kept none, so they are shown again after its snapshot."""
    for number in range(correlator.offset + 1, len(messages)):
        changed = correlator.process(number, messages[number])
        yield changed, msgspec.structs.replace(correlator.for_store(), job_states=())


def holds(new: Any, old: Any) -> bool:
    """Whether all of the old is in the new, which may have more at the end of lists, and more keys."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and holds(new[key], value) for key, value in old.items())
    if isinstance(old, list) and all(isinstance(one, str) for one in old):
        return isinstance(new, list) and set(old) <= set(new)  # a set has no order
    if isinstance(old, list):
        return isinstance(new, list) and len(new) >= len(old) and all(map(holds, new, old))
    return type(new) is type(old) and new == old


def test_a_correlator_goes_on_from_a_snapshot_with_the_same_incidents(messages: list[Message], snapshot: bytes) -> None:
    undisturbed = list(outcomes(PartitionCorrelator(the_rules(), LATENESS_NS), messages))[SNAPSHOT_AFTER + 1 :]
    restored = PartitionCorrelator(the_rules(), LATENESS_NS, snapshot)
    assert restored.offset == SNAPSHOT_AFTER
    assert list(outcomes(restored, messages)) == undisturbed
    assert sum(len(incidents) for incidents, _ in undisturbed) > 10


def test_all_that_a_snapshot_holds_is_in_the_next_one(snapshot: bytes) -> None:
    old = msgspec.msgpack.decode(snapshot)
    new = msgspec.msgpack.decode(PartitionCorrelator(the_rules(), LATENESS_NS, snapshot).snapshot())
    engines = msgspec.msgpack.decode(new.pop("engine")), msgspec.msgpack.decode(old.pop("engine"))
    assert holds(new, old)
    for name in REDEFINED:
        del engines[1]["detectors"]["shapes"][name]
    for name, value in engines[1].items():
        assert holds(engines[0][name], value), name


def test_the_messages_of_matches_lead_to_the_incidents_of_then(messages: list[Message]) -> None:
    found = [
        one for incidents, _ in outcomes(PartitionCorrelator(the_rules(), LATENESS_NS), messages) for one in incidents
    ]
    then = reading.incidents_of(WRITTEN)
    assert [gist(one) for one in found if one.incident_id != BLAMED_ON_A_SURVIVED_ERROR] == [
        gist(one) for one in then if one.incident_id != BLAMED_ON_A_SURVIVED_ERROR
    ]


def gist(one: Incident) -> tuple[Any, ...]:
    """What stays the same when sentences change, and how long an error waits for its job."""
    chain = sorted((link.event_time, link.failure_class, link.node, str(link.rank)) for link in one.chain)
    return (
        *(one.incident_id, one.status, one.failure_class, one.severity, one.jobs, one.nodes),
        *(chain, one.blast_radius, one.progress, one.cost, one.signal_count, one.verdict, one.reopened),
    )


@pytest.mark.parametrize("topic", ["matches", "signals"])
def test_messages_are_written_as_they_were(topic: str) -> None:
    for value in reading.values_of(WRITTEN / f"{topic}.zst"):
        again = encode(reading.decode(value))
        assert holds(msgspec.msgpack.decode(again), msgspec.msgpack.decode(value))


def test_what_banners_did_not_tell_is_none(messages: list[Message]) -> None:
    parts = [part for message in messages if isinstance(message, ScanMessage) for part in message.parts]
    rank_placements = [rank_placement for part in parts for rank_placement in part.rank_placements]
    numbers = {
        number
        for rank_placement in rank_placements
        for number in (rank_placement.rank, rank_placement.local_rank, rank_placement.world_size)
    }
    assert None in numbers and numbers > {None, 2}
    assert -1 not in numbers and all(rank_placement.world_size != 0 for rank_placement in rank_placements)


def test_incidents_keep_every_field() -> None:
    written = map(msgspec.json.decode, reading.values_of(WRITTEN / "incidents.zst"))
    for incident_, document in zip(reading.incidents_of(WRITTEN), written, strict=True):
        assert holds(msgspec.json.decode(msgspec.json.encode(incident_)), document)


@pytest.mark.parametrize("table", sorted(msgspec.json.decode(reading.unpacked(WRITTEN / "rows.zst"))))
def test_the_store_is_given_the_same_rows(table: str) -> None:
    old = msgspec.json.decode(reading.unpacked(WRITTEN / "rows.zst"))[table]
    new = msgspec.json.decode(msgspec.json.encode(reading.rows_of_folder(WRITTEN)))[table]
    for column, values in old.items():
        assert new[column] == values, column


def test_the_journal_of_alerts_is_gone_on_with() -> None:
    harness = PlannerHarness(routing(**ROUTING), NOW_NS + 301 * 10**9)
    harness.actions, harness.records = SAID, reading.journal_of(WRITTEN)
    harness.restart()
    harness.wait(0)
    assert by_name(harness) == [("pending", "opened")]
    harness.process(resolved(with_cause(incident("refuted"), rule=SILENT_RULE)), after_s=5)
    harness.process(resolved(with_cause(incident("cause", severity="critical"), node="n4")), after_s=1)
    assert by_name(harness) == [("cause", "resolved"), ("effect", "opened"), ("pending", "opened")]
    assert by_name(harness.wait(20))[2] == ("held", "opened")
    harness.process(resolved(incident("told")), incident("over"), resolved(incident("acked")), after_s=1)
    assert [one for one in by_name(harness) if one[0] in ("told", "over", "acked", "silenced", "maintained")] == [
        ("acked", "resolved"),
        ("told", "resolved"),
    ]
    assert sorted({(one.incident_id, one.outcome) for one in harness.decisions}) == [("refuted", "refuted")]


def by_name(harness: PlannerHarness) -> list[tuple[str, str]]:
    """Which incidents both targets were told of since the restart, and how."""
    told = [{(one.incident.incident_id, one.kind) for one in harness.sent if one.target == who} for who in TARGETS]
    assert told[0] == told[1]
    return sorted(told[0])


TARGETS = ("chat", "pager")


def test_what_the_journal_holds_is_in_the_next_one() -> None:
    harness = PlannerHarness(routing(**ROUTING))
    written = reading.journal_of(WRITTEN)
    harness.records = dict(written)
    harness.restart()
    harness.planner.state.changed = set(written)
    for key, value in harness.planner.state.take_changes().items():
        assert value and holds(msgspec.json.decode(value), msgspec.json.decode(written[key])), key
