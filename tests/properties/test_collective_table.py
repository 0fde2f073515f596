"""The order in which ranks report, and how their reports are split over incidents, changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.cause.collectives import MAX_RANKS, MAX_ROWS, CollectiveTable
from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.suspects import MAX_SUSPECTS, strongest_suspects, suspects
from epicenter.rules.model.signals import Signal
from tests.support.signals import a_signal

numbers = st.integers(-1, 5).map(str)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "seq": numbers,
        "op": st.sampled_from(["ALLREDUCE", "BROADCAST"]),
        "numel": numbers,
        "last_enqueued": numbers,
        "last_completed": numbers,
        "group": st.sampled_from(["0", "3"]),
        "group_guid": st.sampled_from(["0", "12", "7f"]),
        "group_rank": numbers,
        "lagging_ranks": st.sampled_from(["1", "2, 5", "x", "99999"]),
        "missing_ranks": st.sampled_from(["1: [a]", "3"]),
    },
)


@st.composite
def signals(draw: st.DrawFn) -> Signal:
    return a_signal(
        draw(st.sampled_from(["nccl-timeout", "gloo-error", "xid-79"])),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(["", "n1", "n2"])),
        draw(st.sampled_from(["A", "B"])),
        rank=draw(st.none() | st.integers(0, 9) | st.just(MAX_RANKS)),
        fields=draw(FIELDS),
    )


def table_of(reports: list[Signal]) -> CollectiveTable:
    table = CollectiveTable()
    for signal in reports:
        table.add(signal)
    return table


@given(st.lists(signals(), max_size=30), st.data())
def test_any_order_and_any_split_gives_the_same_table(reports: list[Signal], data: st.DataObject) -> None:
    whole = table_of(reports)
    assert table_of([*data.draw(st.permutations(reports)), *reports]) == whole
    border = data.draw(st.integers(0, len(reports)))
    first, second = table_of(reports[:border]), table_of(reports[border:])
    first.absorb(second)
    assert first == whole
    known = IncidentContext(world_size_by_job={"A": 12})
    assert strongest_suspects(first, known) == strongest_suspects(whole, known)


@given(st.lists(signals(), max_size=30), st.integers(0, 100))
def test_suspects_are_bounded_distinct_and_no_majority(reports: list[Signal], world_size: int) -> None:
    table = table_of(reports)
    assert table.row_count == sum(map(len, table.rows_by_group.values())) <= MAX_ROWS
    found = suspects(table, IncidentContext(world_size_by_job={"A": world_size, "B": world_size}))
    assert len({(suspect.job, suspect.rank) for suspect in found}) == len(found) <= 2 * MAX_SUSPECTS
