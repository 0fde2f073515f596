"""Event time on Kafka: ticks and batches of several partitions, in any order."""

from __future__ import annotations

import msgspec
from aiokafka import TopicPartition

from epicenter.rules.model.flat_heartbeats import FlatHeartbeat, flattened
from epicenter.rules.model.heartbeats import Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.kafka.messages import Part, ProgressTick, ScanMessage, decode, encode, encode_in_pieces
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.scan.scan import ScanResult
from epicenter.stream.services.partition import PartitionCorrelator
from tests.support.logs import a_scanner, at, batch, kernel, the_rules, vector

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
TIMEOUT = (
    "[rank7]:[E ProcessGroupNCCL.cpp:683] [Rank 7] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4120, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)
P0 = [vector("n1", 0, "starting", "A"), kernel("n1", 60, XID)]
P1 = [vector("n2", 0, "starting", "A"), vector("n2", 661, TIMEOUT, "A")]


def part(source: str, lines: list[bytes]) -> Part:
    found = a_scanner().scan(batch(lines, source=source))
    return Part(source, len(lines), found.newest_ns, tuple(found.matches), tuple(map(flattened, found.heartbeats)))


def tick(
    read: tuple[int, int], lagging: tuple[str, ...] = (), elapsed_s: int = 0, at_pace: bool = False
) -> ProgressTick:
    return ProgressTick({"raw/0": read[0], "raw/1": read[1]}, lagging, elapsed_s * NS_PER_S, at_pace)


FOUND_0, FOUND_1 = ScanMessage((part("raw/0", P0),)), ScanMessage((part("raw/1", P1),))


def correlator(snapshot: bytes | None = None) -> PartitionCorrelator:
    return PartitionCorrelator(the_rules(), NS_PER_S, snapshot)


def processed(partition: PartitionCorrelator, *messages: ScanMessage | ProgressTick) -> list[Incident]:
    """The newest state of each incident after the messages, which follow those processed before."""
    first = partition.offset + 1
    changes = [partition.process(first + number, decode(encode(message))) for number, message in enumerate(messages)]
    return list({incident.incident_id: incident for changed in changes for incident in changed}.values())


def test_a_batch_without_a_tick_does_not_advance_time() -> None:
    partition = correlator()
    assert processed(partition, FOUND_1) == []
    assert partition.engine.watermark_ns == 0


def test_a_lagging_partition_holds_time_back_and_the_cause_is_found() -> None:
    partition = correlator()
    assert processed(partition, FOUND_1, tick((0, 2), lagging=("raw/0",))) == []
    (incident,) = processed(partition, FOUND_0, tick((2, 2), elapsed_s=1))
    assert (incident.failure_class, incident.signal_count) == ("xid-79", 2)


def test_a_tick_from_before_a_batch_does_not_count_the_batch() -> None:
    partition = correlator()
    stale = tick((0, 0), elapsed_s=10)
    assert processed(partition, FOUND_1, stale, stale) == []
    (incident,) = processed(partition, FOUND_0, tick((2, 2), elapsed_s=1))
    assert incident.failure_class == "xid-79"


def test_quiet_partition_does_not_stop_time() -> None:
    partition = correlator()
    (incident,) = processed(partition, FOUND_0, tick((2, 0), elapsed_s=1))
    assert incident.failure_class == "xid-79"


def test_time_advances_without_new_records_only_at_pace() -> None:
    still, moving = correlator(), correlator()
    processed(still, FOUND_0, tick((2, 0), elapsed_s=7200))
    (resolved,) = processed(moving, FOUND_0, tick((2, 0), elapsed_s=7200, at_pace=True))
    assert still.engine.watermark_ns == at(60)
    assert moving.engine.watermark_ns == at(60 + 7200 - 1)
    assert resolved.status == "resolved"


def test_time_advances_when_another_worker_takes_over_the_ticks() -> None:
    partition = correlator()
    ticks = [tick((2, 0), elapsed_s=seconds, at_pace=True) for seconds in (3000, 3500, 0, 50, 150)]
    (incident,) = processed(partition, FOUND_0, *ticks)
    assert partition.engine.watermark_ns == at(60 + 3500 + 150 - 1)
    assert incident.status == "resolved"


def test_elapsed_time_before_a_new_record_is_dropped() -> None:
    partition = correlator()
    processed(
        partition,
        FOUND_0,
        tick((2, 0), elapsed_s=300, at_pace=True),
        FOUND_1,
        tick((2, 2), elapsed_s=2, at_pace=True),
    )
    assert partition.engine.watermark_ns == at(661 + 2 - 1)


def test_message_processed_twice_changes_nothing() -> None:
    partition = correlator()
    processed(partition, FOUND_0)
    assert partition.process(0, FOUND_0) == []
    (incident,) = processed(partition, tick((2, 0), elapsed_s=1))
    assert incident.signal_count == 1


def test_restart_from_a_snapshot_at_any_offset_gives_the_same_incidents() -> None:
    messages = [FOUND_1, tick((0, 2), lagging=("raw/0",)), FOUND_0, tick((2, 2), elapsed_s=1)]
    undisturbed = processed(correlator(), *messages)
    for place in range(len(messages) + 1):
        before = correlator()
        processed(before, *messages[:place])
        after = processed(correlator(before.snapshot()), *messages[place:])
        assert after == undisturbed[: len(after)]
        assert len(after) == (place < len(messages))


def test_messages_processed_again_give_the_same_bytes_of_the_same_revisions() -> None:
    later = part("raw/1", [vector("n3", second, TIMEOUT, "A") for second in range(662, 672)])
    messages: list[ScanMessage | ProgressTick] = [
        FOUND_0,
        tick((2, 0), elapsed_s=1),
        FOUND_1,
        tick((2, 2), elapsed_s=1),
    ]
    messages += [ScanMessage((later,)), tick((2, 12), elapsed_s=1), tick((2, 12), elapsed_s=7200, at_pace=True)]
    undisturbed = sent(correlator(), messages)
    assert [revision for _, revision in undisturbed] == sorted({revision for _, revision in undisturbed})
    assert len(undisturbed) == 4
    for snapshot_at in range(len(messages)):
        partition = correlator()
        sent(partition, messages[:snapshot_at])
        snapshot = partition.snapshot()
        sent(partition, messages[snapshot_at:])
        again = sent(correlator(snapshot), messages)
        assert again.items() <= undisturbed.items()
        assert list(again)[-1] == list(undisturbed)[-1]


def sent(partition: PartitionCorrelator, messages: list[ScanMessage | ProgressTick]) -> dict[tuple[str, int], bytes]:
    """The bytes sent of each revision when the messages are processed from the first offset on."""
    changes = [incident for offset, message in enumerate(messages) for incident in partition.process(offset, message)]
    return {(incident.incident_id, incident.revision): msgspec.json.encode(incident) for incident in changes}


def test_correlator_that_begins_at_an_offset_processes_it() -> None:
    partition = correlator()
    processed(partition, FOUND_0, FOUND_1)
    partition.begin_at(0)
    assert partition.process(0, tick((2, 2), elapsed_s=1)) != []


def test_a_large_batch_in_pieces_is_the_same_batch() -> None:
    large = part("raw/1", [vector("n2", second, f"{TIMEOUT} {'x' * 4000}", "A") for second in range(600, 900)])
    pieces = [decode(value) for value in encode_in_pieces([part("raw/0", P0), large])]
    assert len(pieces) > 2
    last = tick((2, 300), elapsed_s=1)
    assert processed(correlator(), *pieces, last) == processed(
        correlator(), ScanMessage((part("raw/0", P0), large)), last
    )


def incidents_after(at_pace: bool, front_s: float) -> list[Incident]:
    """Four minutes of lines in order, then a failure: its incidents when the newest line is so much later."""
    partition = correlator()
    read = 0
    for second in range(0, 240, 10):
        read += 1
        parts = Part("raw/0", read, at(second), (), (FlatHeartbeat(at(second), "default", "A", "n1"),))
        processed(partition, ScanMessage((parts,)), tick((read, 0), ("raw/0",), at_pace=at_pace))
    failure = part("raw/1", [kernel("n1", 240, XID)])
    later = Part("raw/0", read + 1, at(240 + front_s), (), ())
    return processed(partition, ScanMessage((failure, later)), tick((read + 1, 1), ("raw/0",), at_pace=at_pace))


def test_the_wait_for_live_lines_follows_their_lateness_with_the_same_incidents() -> None:
    assert incidents_after(at_pace=False, front_s=0.2) == []
    early, in_full = incidents_after(at_pace=True, front_s=0.2), incidents_after(at_pace=False, front_s=1.0)
    assert early == in_full != []


def steps_of_a_job(bundles_steps: bool) -> list[ScanMessage | ProgressTick]:
    """Two nodes of four ranks make steps for five minutes, of which one rank makes two less; then nothing comes."""
    messages: list[ScanMessage | ProgressTick] = []
    for number in range(60):
        ranks = [(node, rank) for node in (0, 1) for rank in range(4 * node, 4 * node + 4) if rank != 6 or number < 58]
        steps = [Step(at(5 * number + rank / 100), "default", "A", f"n{node}", number, rank) for node, rank in ranks]
        found = ScanResult(heartbeats=[*steps], newest_ns=at(5 * number + 1))
        scanned = ScannedRange(TopicPartition("raw", 0), number + 1, found)
        messages += [ScanMessage((scanned.part(0, 1, bundles_steps),)), tick((number + 1, 0), ("raw/0",), at_pace=True)]
    return [*messages, tick((60, 0), elapsed_s=600, at_pace=True)]


def test_steps_in_bundles_give_the_same_as_single_steps() -> None:
    singly, in_bundles = correlator(), correlator()
    (incident,) = processed(singly, *steps_of_a_job(bundles_steps=False))
    assert (incident.failure_class, incident.root_cause.node, incident.root_cause.rank) == ("unknown-death", "n1", 6)
    assert processed(in_bundles, *steps_of_a_job(bundles_steps=True)) == [incident]
    assert in_bundles.wait_ns == singly.wait_ns
    assert in_bundles.for_store() == singly.for_store()


def test_bundles_make_messages_shorter() -> None:
    in_bundles, singly = (
        sum(len(encode(message)) for message in steps_of_a_job(is_bundled)) for is_bundled in (True, False)
    )
    assert in_bundles < 0.7 * singly


def test_open_incidents_are_counted_by_the_next_owner_too() -> None:
    partition = correlator()
    processed(partition, FOUND_0, FOUND_1, tick((2, 2), elapsed_s=1))
    assert partition.opened() == [("critical", "xid-79")]
    assert partition.opened() == []
    next_owner = correlator(partition.snapshot())
    assert next_owner.open_incidents() == partition.open_incidents() == {("critical", "xid-79"): 1}
    assert next_owner.opened() == []


def test_the_state_of_each_job_goes_to_the_store_once() -> None:
    partition = correlator()
    processed(partition, FOUND_0, FOUND_1, tick((2, 2)))
    states = partition.for_store().job_states
    assert {state.job for state in states} == {"A"}
    assert partition.for_store().job_states == ()


def test_after_lost_state_incidents_are_confirmed_once_event_time_has_passed_all_lines() -> None:
    (known,) = processed(correlator(), FOUND_0, tick((2, 0), elapsed_s=1))
    unknown = msgspec.structs.replace(known, incident_id="lost")
    partition = correlator()
    partition.lose_state(confirms_from=1)
    processed(partition, tick((0, 0)))
    assert not partition.can_confirm, "messages are left from before"
    processed(partition, FOUND_0, tick((2, 0), lagging=("raw/1",)))
    assert not partition.can_confirm, "raw records are left"
    processed(partition, tick((2, 0)))
    assert not partition.can_confirm, "the newest line waits for late ones"
    processed(partition, tick((2, 0), elapsed_s=1))
    assert partition.can_confirm
    assert [incident.incident_id for incident in partition.confirm([known, unknown], at(700))] == ["lost"]
    assert not partition.can_confirm


def test_the_newest_line_waits_for_late_ones_before_incidents_are_confirmed() -> None:
    partition = correlator()
    partition.lose_state(confirms_from=0)
    processed(partition, FOUND_0, tick((2, 0)))
    assert not partition.can_confirm
    processed(partition, tick((2, 0), elapsed_s=1))
    assert partition.can_confirm


def test_a_restart_before_incidents_were_confirmed_confirms_them() -> None:
    partition = correlator()
    partition.lose_state(confirms_from=0)
    processed(partition, FOUND_0)
    restarted = correlator(partition.snapshot())
    processed(restarted, tick((2, 0), elapsed_s=1))
    assert restarted.can_confirm
