"""Which signals went into which incident, and which missing logs left a gap in the evidence."""

from __future__ import annotations

from epicenter.rules.engine import Engine
from epicenter.rules.liveness.gaps import gap_of
from epicenter.rules.liveness.verdict import Verdict
from epicenter.rules.model.ledger import Joined
from epicenter.rules.model.records import Match
from epicenter.stream.kafka.messages import Part, ProgressTick, ScanMessage
from epicenter.stream.services.partition import PartitionCorrelator
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_timeout, an_xid

MATCHES: list[Match] = [
    a_match("nccl.remote_error", 95, node="n2", job="A"),
    an_xid(79, 100, "n1", job="A"),
    *(a_timeout(710 + rank / 10, f"n{rank}", "A", rank) for rank in range(8)),
    an_xid(79, 5000, "n9", job="B"),
]


def joined_in(engine: Engine, seconds: list[float]) -> list[Joined]:
    found = []
    for second in seconds:
        engine.advance(at(second))
        found += engine.joined()
    engine.flush()
    return found + engine.joined()


def test_every_signal_that_an_incident_counts_is_listed_once_with_it() -> None:
    engine = Engine(the_rules(), lists_joined=True)
    engine.add([*MATCHES, MATCHES[1]])
    incidents = {incident.incident_id: incident for incident in engine.flush()}
    joined = engine.joined()
    assert len(joined) == len({row.signal.signal_id for row in joined}) == len(MATCHES)
    for incident in incidents.values():
        assert sum(row.incident_id == incident.incident_id for row in joined) == incident.signal_count
    assert engine.joined() == []


def test_joined_signals_do_not_depend_on_how_time_advances() -> None:
    at_once, by_and_by = Engine(the_rules(), lists_joined=True), Engine(the_rules(), lists_joined=True)
    at_once.add(MATCHES)
    by_and_by.add(reversed(MATCHES))
    assert joined_in(by_and_by, [96, 101, 711, 720, 4000]) == joined_in(at_once, [])


def test_joined_signals_are_not_recorded_by_default() -> None:
    engine = Engine(the_rules())
    engine.add(MATCHES)
    assert engine.flush()
    assert engine.joined() == []


def test_a_correlator_restored_from_a_snapshot_lists_the_rest() -> None:
    part = Part("logs.raw/0", len(MATCHES), at(5000), tuple(MATCHES), ())
    ends = {"logs.raw/0": len(MATCHES)}
    first = PartitionCorrelator(the_rules(), 0)
    first.process(0, ScanMessage((part,)))
    second = PartitionCorrelator(the_rules(), 0, first.snapshot())
    for correlator in (first, second):
        correlator.process(1, ProgressTick(ends, (), 10**12, True))
    stored = first.for_store()
    assert len(stored.signals) == len(MATCHES)
    assert second.for_store() == stored


def test_only_missing_lines_of_the_evidence_are_gaps() -> None:
    verdicts = {
        name: Verdict(name, "c", "A", "n1", None, at(60), at(0), "why") for name in ("hung", "cut-off", "buffered")
    }
    assert gap_of(verdicts["hung"]) is None
    gaps = [gap_of(verdicts[name]) for name in ("cut-off", "buffered")]
    assert [(gap.kind, gap.begins_ns, gap.ends_ns, gap.text) for gap in gaps if gap] == [
        ("cut-off", at(0), at(60), "why"),
        ("buffered", at(0), at(60), "why"),
    ]
    assert len({gap.gap_id for gap in gaps if gap}) == 2
