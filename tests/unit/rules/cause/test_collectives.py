"""Lines of ranks that time out -> the progress of each rank."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.cause.collectives import LOCAL, MAX_RANKS, MAX_ROWS, UNGROUPED, CollectiveTable, Row, ranks_in
from tests.support.signals import a_signal, signals_of

C10D = "ProcessGroupNCCL.cpp"
DUMP = (
    "Received a dump signal due to a collective timeout from  rank 2 and we will try our best to dump the debug info."
)


def a_table(*lines: str, job: str = "A") -> CollectiveTable:
    table = CollectiveTable()
    for second, line in enumerate(lines):
        for signal in signals_of(line, second, job=job):
            table.add(signal)
    return table


def the_row(table: CollectiveTable, group: str, rank: int) -> tuple[str, int | None, str, str, tuple[int, int] | None]:
    row = table.groups("A")[group][rank]
    reached = (row.reached.last_enqueued, row.reached.last_completed) if row.reached else None
    work = row.work
    return (row.node, work and work.seq, work.op if work else "", work.sizes if work else "", reached)


@pytest.mark.parametrize(
    ("line", "group", "rank", "expected"),
    [
        pytest.param(
            f"[E {C10D}:828] [Rank 12] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType="
            "ALLREDUCE, TensorShape=[1024], Timeout(ms)=1800000) ran for 1800733 milliseconds before timing out.",
            UNGROUPED,
            12,
            ("n1", 88, "ALLREDUCE", "1024", None),
            id="torch-1.13",
        ),
        pytest.param(
            f"[E {C10D}:474] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, "
            "OpType=BROADCAST, NumelIn=7, NumelOut=7, Timeout(ms)=1800000) ran for 1800733 milliseconds before timing",
            UNGROUPED,
            3,
            ("n1", 88, "BROADCAST", "7", None),
            id="torch-2.1",
        ),
        pytest.param(
            f"[rank5]:[E {C10D}:1537] [PG 0 Rank 5] Timeout at NCCL work: 4411, last enqueued NCCL work: 4412, "
            "last completed NCCL work: 4410.",
            "0",
            5,
            ("n1", 4411, "", "", (4412, 4410)),
            id="torch-2.3",
        ),
        pytest.param(
            f"[rank1]:[E612 08:00:02.118822014 {C10D}:1664] [PG 0 (default_pg) Rank 1] Exception (either an error or "
            "timeout) detected by watchdog at work: 77, last enqueued NCCL work: 77, last completed NCCL work: 76.",
            "0",
            1,
            ("n1", 77, "", "", (77, 76)),
            id="torch-2.4",
        ),
        pytest.param(
            f"[rank9]:[E612 08:00:02.118822014 {C10D}:1664] [PG 4 (tp) Rank 1] Exception (either an error or "
            "timeout) detected by watchdog at work: 77, last enqueued NCCL work: 77, last completed NCCL work: 76.",
            LOCAL,
            9,
            ("n1", 77, "", "", (77, 76)),
            id="torch-2.4-later-group",
        ),
        pytest.param(
            f"[rank6]:[E914 02:11:45.220917331 {C10D}:2268] [PG ID 3 PG GUID 12(TENSOR_MODEL_PARALLEL_GROUP) Rank 2]  "
            "failure detected by watchdog at work sequence id: 90211 PG status: last enqueued work: 90213, "
            "last completed work: 90210",
            "12",
            6,
            ("n1", 90211, "", "", (90213, 90210)),
            id="torch-2.6",
        ),
        pytest.param(
            f"[rank8]:[E703 15:37:17.001178360 {C10D}:1987] [PG ID 0 PG GUID 0(default_pg) Rank 8] {DUMP} "
            "Last enqueued NCCL work: 310, last completed NCCL work: 310.This is most likely caused by",
            "0",
            8,
            ("n1", None, "", "", (310, 310)),
            id="dump-signal",
        ),
        pytest.param(
            f"[E {C10D}:1987] [PG ID 0 PG GUID 0(default_pg) Rank 4] {DUMP} "
            "Last enqueued NCCL work: -1, last completed NCCL work: -1.",
            "0",
            4,
            ("n1", None, "", "", (-1, -1)),
            id="before-the-first-collective-and-no-rank-before-it",
        ),
        pytest.param(
            "[E ProcessGroupHCCL.cpp:421] [Rank 0] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=9, "
            "OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=1800000) ran for 1800733 milliseconds before timing",
            UNGROUPED,
            0,
            ("n1", 9, "ALLREDUCE", "4", None),
            id="ascend",
        ),
    ],
)
def test_every_version_s_line_makes_a_row(line: str, group: str, rank: int, expected: tuple[object, ...]) -> None:
    table = a_table(line)
    assert the_row(table, group, rank) == expected
    assert table.row_count == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\t - To our best knowledge, ranks [3, 11] are the lagging ranks that caused this timeout. They", {3, 11}),
        ("\t   - [4] joined but didn't finish collective #77 (count from 1)", {4}),
        ("\t     [4, 5] finished collective #77, but didn't join collective #78 (count from 1)", {4, 5}),
        ("[E ProcessGroupGloo.cpp:138] [Rank 0]: Ranks 3, 5 failed to pass monitoredBarrier in 1800000 ms", {3, 5}),
        ("collective: nccl:all_reduce  missing ranks: {3, 7}  input sizes: [[4096]]", {3, 7}),
        (
            "STRAGGLER DETECTION WARNING: Some GPUs are slow. Affected ranks: {StragglerId(rank=13, node='gpu-b-02')}",
            {13},
        ),
    ],
)
def test_ranks_that_a_report_accuses_are_recorded(line: str, expected: set[int]) -> None:
    assert a_table(line).named_by_job["A"].keys() == expected


def test_a_mismatch_report_makes_two_rows() -> None:
    table = a_table(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=44, OpType=BROADCAST, TensorShape=[8], TensorDtypes=Long), but Rank 0 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=44, OpType=ALLREDUCE)"
    )
    assert the_row(table, "fingerprint", 1) == ("", 44, "BROADCAST", "8", None)
    assert the_row(table, "fingerprint", 0) == ("", 44, "ALLREDUCE", "", None)


def test_the_first_report_of_a_rank_wins() -> None:
    first = a_signal("nccl-timeout", 1, "n1", "A", rank=3, fields={"seq": "7", "op": "ALLREDUCE"})
    of_a_later_attempt = a_signal("nccl-timeout", 900, "n2", "A", rank=3, fields={"seq": "2", "op": "BROADCAST"})
    table = CollectiveTable()
    for signal in (of_a_later_attempt, first):
        table.add(signal)
    assert the_row(table, UNGROUPED, 3) == ("n1", 7, "ALLREDUCE", "", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3, 11", [3, 11]),
        ("1: [grad_0], 5: [grad_0, grad_1]", [1, 5]),
        ("{StragglerId(rank=13, node='gpu-02'), StragglerId(rank=2, node='gpu-07')}", [13, 2]),
        ("99999999", []),
        ("", []),
    ],
)
def test_lists_of_ranks_are_parsed(text: str, expected: list[int]) -> None:
    assert ranks_in(text) == expected


def test_lines_without_collectives_make_no_row() -> None:
    table = CollectiveTable()
    table.add(a_signal("xid-79", 0, source="kernel"))
    table.add(a_signal("nccl-timeout", 0, rank=None))
    table.add(a_signal("nccl-timeout", 0, rank=MAX_RANKS))
    table.add(a_signal("nccl-timeout", 0, rank=1, role="advice"))
    assert table == CollectiveTable()


def test_too_many_rows_give_up_the_last_group_for_good() -> None:
    table = CollectiveTable()
    for group in ("1", "2", "3"):
        table.absorb(CollectiveTable({f"A\x1f{group}": {rank: Row() for rank in range(MAX_RANKS)}}, {}, MAX_RANKS))
    assert (list(table.groups("A")), table.row_count) == (["1", "2"], MAX_ROWS)
    table.add(a_signal("nccl-timeout", 0, job="A", rank=1, fields={"seq": "1", "group_guid": "4"}))
    assert list(table.groups("A")) == ["1", "2"]


def test_a_snapshot_keeps_the_table() -> None:
    table = a_table(
        f"[rank5]:[E {C10D}:1537] [PG 0 Rank 5] Timeout at NCCL work: 4411, last enqueued NCCL work: 4412, "
        "last completed NCCL work: 4410.",
        "collective: nccl:all_reduce  missing ranks: {3, 7}  input sizes: [[4096]]",
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(table), type=CollectiveTable) == table
