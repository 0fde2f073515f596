"""A failure without a name in incidents: evidence, and the cause where it comes from whom the others wait for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match, RankPlacement
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, a_timeout, alive

RANKS = 8
STOP_S = 100


def unnamed(second: float, rank: int | None, template: str = "lamp out", job: str = "A") -> Match:
    node = f"n{rank // 2}" if rank is not None else "n0"
    fields = {"template": template}
    return a_match("unnamed.failure", second, node, job, f"ERROR {template}", rank=rank, fields=fields)


def places() -> list[RankPlacement]:
    return [RankPlacement(at(rank / 10), "default", "A", f"n{rank // 2}", rank, rank % 2, world_size=RANKS)
            for rank in range(RANKS)]  # fmt: skip


def running() -> list[Heartbeat]:
    of_nodes = [alive(second, "A", f"n{node}") for second in range(0, STOP_S, 10) for node in range(RANKS // 2)]
    return [*of_nodes, *(a_step(step, 5 * step, node="n0") for step in range(STOP_S // 5))]


def timeouts(but: int = 5, waited_s: int = 600) -> list[Match]:
    """All ranks but one report after ten minutes that a collective timed out."""
    return [a_timeout(STOP_S + waited_s, f"n{rank // 2}", "A", rank) for rank in range(RANKS) if rank != but]


def incidents(*matches: Match) -> list[Incident]:
    engine = Engine(the_rules())
    engine.add(matches, running(), places())
    newest = {incident.incident_id: incident for incident in engine.flush()}
    return [incident for incident in newest.values() if not incident.merged_into]


def test_alone_it_opens_nothing() -> None:
    assert incidents(unnamed(50, 5)) == []


@pytest.mark.parametrize("second", [STOP_S - 4, STOP_S + 240])
def test_it_is_the_cause_if_the_others_wait_for_its_rank(second: float) -> None:
    (incident,) = incidents(unnamed(second, 5), *timeouts())
    root = incident.root_cause
    assert (root.failure_class, root.rank, root.node) == ("unnamed-failure", 5, "n2")
    assert "first seen in this cluster" in root.fields["unusual"]
    assert "only on rank 5 of 8" in root.fields["unusual"]
    assert any("first seen in this cluster" in reason for reason in root.reasons)


@pytest.mark.parametrize(("second", "rank"), [(STOP_S - 4, 3), (STOP_S + 610, 5), (STOP_S - 30, 5)])
def test_it_is_no_cause_from_another_rank_or_at_another_time(second: float, rank: int) -> None:
    (incident,) = incidents(unnamed(second, rank), *timeouts())
    assert incident.root_cause.failure_class in ("nccl-timeout", "hang")


def test_it_is_never_before_a_named_cause() -> None:
    named = a_match("nvidia.xid_79", STOP_S + 5, "n2", fields={"pci": "0000:9a:00"})
    (incident,) = incidents(unnamed(STOP_S - 1, 5), named, *timeouts())
    assert incident.root_cause.failure_class == the_rules().spec_of(named).failure_class
    assert "unnamed-failure" in {link.failure_class for link in incident.chain}


@pytest.mark.parametrize(("rank", "is_cause"), [(5, True), (3, False)])
def test_it_is_the_cause_if_its_rank_ends_first(rank: int, is_cause: bool) -> None:
    end = a_match("slurm.task_exit", 150, "n2", "A", rank=5, fields={"exit_code": "1"})
    later = a_match("slurm.task_exit", 170, "n1", "A", rank=3, fields={"exit_code": "1"})
    engine = Engine(the_rules())
    engine.add([unnamed(148, rank), end, later], [alive(0, "A", f"n{node}") for node in range(4)], places())
    (*_, incident) = engine.flush()
    assert (incident.root_cause.failure_class == "unnamed-failure") == is_cause
    if is_cause:
        assert "2 seconds before the job stopped" in incident.root_cause.fields["unusual"]


def test_of_two_messages_the_loneliest_is_the_cause() -> None:
    everyones = [unnamed(STOP_S - 4, rank, "oil is low") for rank in range(RANKS)]
    (incident,) = incidents(*everyones, unnamed(STOP_S - 2, 5), *timeouts())
    assert "only on rank 5 of 8" in incident.root_cause.fields["unusual"]
    assert incident.root_cause.fields["template"] == "lamp out"


def test_a_message_of_healthy_hours_is_called_so() -> None:
    earlier = [structs.replace(unnamed(-3600 * hours, 5), match_id=f"e{hours}") for hours in (5, 4)]
    (incident,) = incidents(*earlier, unnamed(STOP_S - 2, 5), *timeouts())
    assert "also in 2 earlier hours without an incident" in incident.root_cause.fields["unusual"]


def test_messages_without_end_take_no_more_room_and_hide_no_cause() -> None:
    engine = Engine(the_rules())
    flood = [unnamed(STOP_S + number / 10, 3, f"lamp {number:x}") for number in range(3_000)]
    engine.add([unnamed(STOP_S - 2, 5), *flood, *timeouts()], running(), places())
    (*_, incident) = engine.flush()
    assert (incident.root_cause.failure_class, incident.root_cause.rank) == ("unnamed-failure", 5)
    assert "only on rank 5 of 8" in incident.root_cause.fields["unusual"]
    assert len(engine.snapshot()) < 3_000_000


@given(st.lists(st.floats(STOP_S - 90, STOP_S + 900), max_size=6), st.lists(st.integers(0, RANKS - 1), max_size=6))
@settings(max_examples=20, deadline=None)
def test_batches_and_snapshots_make_no_difference(cuts: Sequence[float], ranks: Sequence[int]) -> None:
    matches = [*(unnamed(STOP_S - 7 * number, rank, f"lamp {rank % 3}") for number, rank in enumerate(ranks)),
               *timeouts()]  # fmt: skip
    whole = {incident.incident_id: incident for incident in _fed(matches, [])}
    assert whole == {incident.incident_id: incident for incident in _fed(matches, sorted(cuts))}


def _fed(matches: Sequence[Match], cuts: Sequence[float]) -> list[Incident]:
    engine, found = Engine(the_rules()), list[Incident]()
    engine.add([], running(), places())
    for cut in cuts:
        engine.add([match for match in matches if match.event.event_time_ns <= at(cut)])
        matches = [match for match in matches if match.event.event_time_ns > at(cut)]
        found += engine.advance(at(cut))
        engine = Engine(the_rules(), engine.snapshot())
    engine.add(matches)
    return [structs.replace(incident, revision=0) for incident in [*found, *engine.flush()]]
