"""Lines without a time, and lines whose time can't be right, take the time of their neighbours."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import orjson
import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.heartbeats import LineCut, Step
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.line_times import MAX_ZONES_NS
from epicenter.stream.scan.scan import ScanResult
from tests.support.logs import LATER_NS, START_NS, a_scanner, at, batch, iso, vector

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
WILD = {
    "1970": "1970-01-01T00:00:07Z",
    "2100": "2100-01-01T00:00:00Z",
    "tomorrow": "2026-03-03T09:02:00Z",
    "last week": "2026-02-23T09:02:00Z",
    "broken": "yesterday",
}
DAY_S = 86_400


def steps(first: int, last: int) -> list[bytes]:
    """Steps of job A on one node, ten seconds apart."""
    return [vector("n1", 10 * step, f"step {step}: loss 2.31, time 320ms", "A") for step in range(first, last + 1)]


def with_stamp(stamp: str, text: str) -> bytes:
    return orjson.dumps(orjson.loads(vector("n1", 0, text, "A")) | {"timestamp": stamp})


def found(values: list[bytes], live: bool, received_ns: int = LATER_NS) -> ScanResult:
    return a_scanner().scan(replace(batch(values, live=live), received_ns=[received_ns] * len(values)))


@pytest.mark.parametrize(
    ("live", "stamp"),
    [
        *(pytest.param(False, stamp, id=f"{name}-file") for name, stamp in WILD.items()),
        *(pytest.param(True, WILD[name], id=f"{name}-stream") for name in ("1970", "2100", "broken")),
    ],
)
def test_a_wild_time_moves_nothing(stamp: str, live: bool) -> None:
    values = [
        *steps(1, 12),
        with_stamp(stamp, "step 12: loss 2.31, time 320ms"),
        with_stamp(stamp, XID),
        *steps(13, 30),
    ]
    scanned = found(values, live)
    assert scanned.newest_ns == at(300)
    assert {heartbeat.event_time_ns for heartbeat in scanned.heartbeats} <= {at(10 * step) for step in range(1, 31)}
    assert [match.event.event_time_ns for match in scanned.matches] == [at(120)]


def test_an_old_time_in_a_stream_is_believed_and_moves_nothing_else() -> None:
    old = with_stamp(WILD["last week"], XID)
    scanned = found([*steps(1, 12), old, *steps(13, 30)], live=True)
    assert scanned.newest_ns == at(300)
    assert [match.event.event_time_ns for match in scanned.matches] == [at(120) - 7 * DAY_S * NS_PER_S]
    assert {heartbeat.event_time_ns for heartbeat in scanned.heartbeats if type(heartbeat) is Step} == {
        at(10 * step) for step in range(1, 31)
    }


def test_a_second_copy_of_a_line_with_a_wild_time_is_the_same_match() -> None:
    wild = with_stamp(iso(DAY_S + MAX_ZONES_NS // NS_PER_S + 1), XID)
    scanner = a_scanner()
    first = scanner.scan(batch([*steps(1, 12), wild, *steps(13, 30)], live=True)).matches
    again = replace(
        batch([*steps(31, 40), wild, *steps(41, 50)], first=500, live=True), received_ns=[LATER_NS + 7] * 21
    )
    (copy,) = scanner.scan(again).matches
    assert [copy.match_id] == [match.match_id for match in first]
    assert not copy.event.has_own_time


def test_a_line_without_a_time_after_an_old_one_has_the_time_of_the_newest_wherever_a_batch_ends() -> None:
    untimed = orjson.dumps({"node": "n1", "message": XID})
    values = [*steps(1, 12), with_stamp(WILD["last week"], "step 12: loss 2.31, time 320ms"), untimed, *steps(13, 30)]

    def ids_and_times(*ends: int) -> set[tuple[str, int]]:
        scanner, batches = a_scanner(), pairwise([0, *ends, len(values)])
        parts = [batch(values[start:end], first=start, live=True) for start, end in batches]
        matches = chain.from_iterable(scanner.scan(part).matches for part in parts)
        return {(match.match_id, match.event.event_time_ns) for match in matches}

    whole = ids_and_times()
    assert {time_ns for _, time_ns in whole} == {at(120)}
    assert all(ids_and_times(cut) == whole for cut in range(2, 32))


def test_a_day_without_lines_is_no_wild_time() -> None:
    values = [*steps(1, 12), vector("n1", DAY_S, XID, "A"), vector("n1", DAY_S + 5, "shutting down", "A")]
    (match,) = found(values, live=False, received_ns=LATER_NS + DAY_S * NS_PER_S).matches
    assert match.event.event_time_ns == at(DAY_S)


def test_lines_of_other_nodes_do_not_make_a_time_wild() -> None:
    later = [vector(f"n{number}", DAY_S * (number % 2), XID, "A") for number in range(2, 7)]
    scanned = found(later, live=False, received_ns=LATER_NS + DAY_S * NS_PER_S)
    assert sorted(match.event.event_time_ns for match in scanned.matches) == [at(0)] * 3 + [at(DAY_S)] * 2


@pytest.mark.parametrize(
    "record", [XID.encode(), b'{"message": "' + XID.encode() + b'", "host": "n1', b'{"log": "%s"}' % XID.encode()]
)
def test_an_untimed_record_of_a_stream_that_catches_up_has_the_time_of_the_one_before(record: bytes) -> None:
    scanned = found([*steps(1, 12), record, *steps(13, 30)], live=True)
    assert scanned.newest_ns == at(300)
    assert [match.event.event_time_ns for match in scanned.matches] == [at(120)]


def test_an_untimed_record_before_the_first_timed_one_waits_for_none() -> None:
    holding = BlockBuffer(a_scanner())
    (match,) = holding.scan(batch([XID.encode(), *steps(1, 12)], live=True)).matches
    assert match.event.event_time_ns == LATER_NS


@pytest.mark.parametrize("cut", range(1, 14))
def test_untimed_records_have_the_same_times_wherever_the_batch_is_cut(cut: int) -> None:
    values = [XID.encode(), *[XID.encode()] * 3, *steps(1, 6), XID.encode(), *steps(7, 9)]
    holding = BlockBuffer(a_scanner())
    parts = batch(values[:cut], live=True), batch(values[cut:], first=cut + 1, live=True)
    matches = [match for scanned in holding.scan_all(parts) for match in scanned.matches]
    assert matches == found(values, live=True).matches
    assert [match.event.event_time_ns for match in matches] == [LATER_NS] * 4 + [at(60)]


def test_an_untimed_record_of_a_stream_has_the_lag_of_a_timed_one_however_far_back() -> None:
    values = [*steps(1, 3), *[b"queue 3 is empty"] * 300, XID.encode(), *steps(4, 6)]
    for cut in (2, 3, 200, 303, 304, 305):
        holding = BlockBuffer(a_scanner())
        parts = batch(values[:cut], live=True), batch(values[cut:], first=cut + 1, live=True)
        (match,) = [match for scanned in holding.scan_all(parts) for match in scanned.matches]
        assert match.event.event_time_ns == at(30)


@pytest.mark.parametrize("cut", range(1, 32))
def test_a_line_with_an_old_time_is_the_same_match_wherever_the_batch_is_cut(cut: int) -> None:
    values = [*steps(1, 12), with_stamp(WILD["last week"], XID), *steps(13, 31)]
    holding = BlockBuffer(a_scanner())
    parts = batch(values[:cut], live=True), batch(values[cut:], first=cut + 1, live=True)
    assert [match for scanned in holding.scan_all(parts) for match in scanned.matches] == found(
        values, live=True
    ).matches


def test_an_untimed_record_has_the_time_of_one_in_the_batch_before() -> None:
    scanner = a_scanner()
    scanner.scan(batch(steps(1, 12), live=True))
    (match,) = scanner.scan(batch([XID.encode()], first=13, live=True)).matches
    assert match.event.event_time_ns == at(120)


def test_an_untimed_record_of_a_prompt_stream_has_the_time_of_its_receipt() -> None:
    lines = steps(1, 12)
    received_ns = [at(10 * step + 1) for step in range(1, 13)] + [at(300)]
    live: Batch = replace(batch([*lines, XID.encode()], live=True), received_ns=received_ns)
    (match,) = a_scanner().scan(live).matches
    assert match.event.event_time_ns == at(300)


def test_a_line_cut_in_the_middle_has_the_time_of_the_one_before() -> None:
    cut = vector("n1", 130, "loading shard 13 of the data set", "A")[:-40]
    for live in (False, True):
        cuts = [heartbeat for heartbeat in found([*steps(1, 12), cut], live).heartbeats if type(heartbeat) is LineCut]
        assert [heartbeat.event_time_ns for heartbeat in cuts] == [at(120)]


def test_steps_keep_their_own_times() -> None:
    times = [heartbeat.event_time_ns for heartbeat in found(steps(1, 30), False).heartbeats if type(heartbeat) is Step]
    assert times == [START_NS + 10 * step * NS_PER_S for step in range(1, 31)]


def written_by(*nodes_and_hours: tuple[str, int]) -> list[bytes]:
    """One line of c10d from each node, by a clock so many hours ahead, in the file of a job."""
    return [
        f"{node}: [rank{number}]:[E302 {9 + hours:02}:00:{number:02}.250000001 ProcessGroupNCCL.cpp:683] "
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.".encode()
        for number, (node, hours) in enumerate(nodes_and_hours)
    ]


@pytest.mark.parametrize(
    ("writers", "expected_hours"),
    [
        pytest.param([("node1", 0), ("node2", 8), ("node3", 0)], [0, 0, 0], id="one-of-three"),
        pytest.param([("node1", 0), ("node2", 8), ("node1", 0)], [0, 8, 0], id="one-of-two"),
        pytest.param([("node1", 0), ("node2", 8), ("node3", 8)], [0, 8, 8], id="later"),
    ],
)
def test_a_writer_whose_zone_differs_has_the_times_of_the_file(
    writers: list[tuple[str, int]], expected_hours: list[int]
) -> None:
    scanned = found(written_by(*writers), live=False, received_ns=LATER_NS + DAY_S * NS_PER_S)
    times_ns = sorted({match.event.event_time_ns for match in scanned.matches})
    assert [round((time_ns - at(0)) / NS_PER_S / 3600) for time_ns in times_ns] == sorted(expected_hours)


def test_lines_that_come_every_hour_hide_no_wild_time() -> None:
    hourly = [f"2026-03-{day:02}T{hour:02}:17:01 n1 kernel: {XID}".encode() for day in (2, 3, 4) for hour in range(24)]
    wild = f"2026-02-23T09:02:00 n1 kernel: {XID}".encode()
    scanned = found([*hourly[:60], wild, *hourly[60:]], live=False, received_ns=LATER_NS + 3 * DAY_S * NS_PER_S)
    assert min(match.event.event_time_ns for match in scanned.matches) == at(-9 * 3600 + 17 * 60 + 1)
