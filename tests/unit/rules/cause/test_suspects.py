"""Which rank the others wait for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.cause.collectives import CollectiveTable
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import Suspects, strongest_suspects, suspects
from epicenter.rules.model.signals import Signal
from epicenter.rules.report.reason_text import suspect_text, suspects_text
from tests.support.signals import a_signal, signals_of

DESYNC = "\t - To our best knowledge, ranks [3] are the lagging ranks that caused this timeout. They never joined any"


def watchdog(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 2048) -> list[Signal]:
    """The lines of PyTorch 2.6 and later, without the one that names the group; eight ranks a node."""
    text = (
        f"[rank{rank}]:[E302 09:12:44.001245877 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
        "Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )
    return signals_of(text, 600, node_of(rank))


def status(rank: int, seq: int, enqueued: int, completed: int, group: str = "0") -> list[Signal]:
    text = (
        f"[rank{rank}]:[E302 09:12:44.001245877 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID {group}(default_pg) Rank "
        f"{rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, "
        f"last completed work: {completed}"
    )
    return signals_of(text, 600, node_of(rank))


def dump(rank: int, enqueued: int, completed: int) -> list[Signal]:
    text = (
        f"[rank{rank}]:[E302 09:12:45.001245877 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug "
        f"info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
    )
    return signals_of(text, 601, node_of(rank))


def node_of(rank: int) -> str:
    return f"n{rank // 8}"


def a_table(*signals: Iterable[Signal]) -> CollectiveTable:
    table = CollectiveTable()
    for signal in (signal for some in signals for signal in some):
        table.add(signal)
    return table


def found(table: CollectiveTable, context: IncidentContext = NO_CONTEXT) -> list[tuple[int, str]]:
    return [(suspect.rank, suspect.kind) for suspect in suspects(table, context)]


def of_size(ranks: int) -> IncidentContext:
    return IncidentContext(world_size_by_job={"A": ranks})


def all_wait(*ranks: int, seq: int = 90) -> CollectiveTable:
    return a_table(*(signals for rank in ranks for signals in (watchdog(rank, seq), status(rank, seq, seq, seq - 1))))


def test_no_rank_is_suspect_when_all_wait_in_the_same_collective() -> None:
    assert found(all_wait(*range(16)), of_size(16)) == []
    assert strongest_suspects(all_wait(*range(16)), of_size(16)) is None


@pytest.mark.parametrize(
    ("context", "reporting", "expected"),
    [
        pytest.param(of_size(16), set(range(16)) - {5}, [5], id="a-gap"),
        pytest.param(NO_CONTEXT, set(range(16)) - {5}, [5], id="a-gap-needs-no-world-size"),
        pytest.param(of_size(16), set(range(15)), [15], id="the-last"),
        pytest.param(NO_CONTEXT, set(range(15)), [], id="the-last-needs-the-world-size"),
        pytest.param(IncidentContext(seen_ranks_by_job={"A": {15}}), set(range(15)), [15], id="or-that-it-reported"),
        pytest.param(of_size(16), set(range(8)), list(range(8, 16)), id="half-of-them"),
        pytest.param(of_size(16), set(range(16)) - {2, 6, 9, 13, 15}, [], id="gaps-all-over-blame-no-rank"),
        pytest.param(of_size(16), set(range(7)), [], id="more-than-half-blames-no-rank"),
    ],
)
def test_a_rank_that_never_reported_is_suspect(
    context: IncidentContext, reporting: set[int], expected: list[int]
) -> None:
    assert found(all_wait(*reporting), context) == [(rank, "absent") for rank in expected]


def test_a_rank_that_did_not_enqueue_what_the_others_wait_in_is_behind() -> None:
    table = a_table(*(status(rank, 90, 90 + rank % 3, 89) for rank in range(7)), dump(7, 89, 89))
    [suspect] = suspects(table, of_size(8))
    assert (suspect.rank, suspect.kind, suspect.node) == (7, "behind", "n0")
    assert suspect_text(suspect) == (
        "rank 7 enqueued nothing after collective #89, while others wait in #90 in process group 0"
    )


def test_a_rank_still_in_a_collective_that_others_completed_is_behind() -> None:
    table = a_table(*(status(rank, 91, 91, 90) for rank in range(7)), status(7, 90, 91, 89))
    assert found(table) == [(7, "behind")]


def test_ranks_that_only_enqueued_ahead_make_no_rank_suspect() -> None:
    assert found(a_table(*(status(rank, 90, 90 + rank, 89) for rank in range(8)))) == []


def test_numbers_of_different_groups_are_not_compared() -> None:
    table = a_table(
        *(status(rank, 90 * (1 + rank // 4), 400, 90 * (1 + rank // 4) - 1, f"{rank // 4}") for rank in range(8))
    )
    assert found(table) == []


@pytest.mark.parametrize(("op", "numel"), [("BROADCAST", 2048), ("ALLREDUCE", 1)])
def test_a_rank_with_another_operation_or_size_is_suspect(op: str, numel: int) -> None:
    table = a_table(*(watchdog(rank, 90) for rank in range(7)), watchdog(7, 90, op, numel))
    [suspect] = suspects(table)
    assert (suspect.rank, suspect.kind) == (7, "mismatch")
    assert f"runs {op} of {numel} elements where others run ALLREDUCE of 2048 elements" in suspect_text(suspect)


def test_an_operation_is_compared_within_its_group() -> None:
    lines = [(watchdog(rank, 90), status(rank, 90, 90, 89)) for rank in range(7)]
    table = a_table(*(line for both in lines for line in both), watchdog(7, 90, "BROADCAST"), status(7, 90, 90, 89))
    [suspect] = suspects(table)
    assert (suspect.rank, suspect.kind) == (7, "mismatch")
    assert suspect_text(suspect).endswith("in process group 0")


def test_of_two_ranks_that_differ_neither_is_suspect() -> None:
    assert found(a_table(watchdog(0, 90), watchdog(1, 90, "BROADCAST"))) == []


def test_a_report_that_names_a_rank_is_the_strongest_evidence() -> None:
    table = a_table(signals_of(DESYNC), *(watchdog(rank, 90) for rank in (0, 1, 2, 4, 5, 7)))
    assert found(table) == [(3, "named"), (6, "absent")]
    best = strongest_suspects(table)
    assert best is not None
    assert (best.rank, suspects_text(best)) == (3, "rank 3: the timeout report names it as lagging")


def the_suspects(table: CollectiveTable, context: IncidentContext) -> Suspects:
    found = strongest_suspects(table, context)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("context", "reporting", "node", "rank"),
    [
        pytest.param(of_size(16), set(range(16)) - {5}, "n0", 5, id="as-both-neighbours"),
        pytest.param(of_size(16), set(range(16)) - {8}, "n1", 8, id="of-a-block"),
        pytest.param(
            IncidentContext(world_size_by_job={"A": 16}, node_of_rank={("A", 8): "n1"}),
            set(range(16)) - {8},
            "n1",
            8,
            id="placed",
        ),
        pytest.param(
            IncidentContext(world_size_by_job={"A": 24}, nodes_by_job={"A": {"n0", "n1", "n2"}}),
            set(range(16)),
            "n2",
            None,
            id="the-only-node-that-nothing-came-from",
        ),
    ],
)
def test_a_suspect_has_the_node_of_its_rank(
    context: IncidentContext, reporting: set[int], node: str, rank: int | None
) -> None:
    found = the_suspects(all_wait(*reporting), context)
    assert (found.node, found.rank) == (node, rank)


def test_lines_from_the_suspect_s_place_accuse_it_unless_they_wait_themselves() -> None:
    found = the_suspects(all_wait(*(set(range(16)) - {5})), of_size(16))
    assert suspects_text(found) == "rank 5 never reported the timeout, although 15 of 16 ranks did"
    assert found.accuse(a_signal("xid-79", 0, "n0", source="kernel", role="root"))
    assert found.accuse(a_signal("python-exception", 0, "n0", "A", rank=5))
    assert not found.accuse(a_signal("python-exception", 0, "n0", "A", rank=4))
    assert not found.accuse(a_signal("xid-79", 0, "n1", source="kernel"))
    assert not found.accuse(a_signal("nccl-timeout", 0, "n0", "A"))


def test_a_waiting_rank_names_the_rank_it_waited_for() -> None:
    found = the_suspects(all_wait(*(set(range(16)) - {5})), of_size(16))
    waited = a_signal("nccl-timeout", 600, "n1", "A", rank=9)
    assert (found.culprit_of(waited).node, found.culprit_of(waited).rank) == ("n0", 5)
    for other in (a_signal("xid-79", 0, "n1"), a_signal("nccl-timeout", 600, "n1", "B", rank=9)):
        assert found.culprit_of(other) is other
