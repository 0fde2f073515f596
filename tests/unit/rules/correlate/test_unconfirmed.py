"""Incidents recorded as open that no state knows any more."""

from __future__ import annotations

from msgspec.structs import replace

from epicenter.rules.correlate.unconfirmed import WHY, unconfirmed
from epicenter.rules.model.incident import Resolution
from epicenter.rules.model.times import iso_from_ns
from tests.support.logs import at
from tests.unit.sinks.clickhouse.test_rows import an_incident

OPEN = replace(an_incident("a1"), revision=4)


def test_an_unknown_open_incident_ends_with_the_reason() -> None:
    (ended,) = unconfirmed([OPEN], known=(), time_ns=at(700))
    assert (ended.status, ended.resolved_by, ended.revision) == ("resolved", Resolution.STATE_LOST, 5)
    assert (ended.history[-1].time, ended.history[-1].what) == (iso_from_ns(at(700)), f"resolved: {WHY}")
    assert replace(ended, status="open", resolved_by="", revision=4, history=OPEN.history) == OPEN


def test_known_ended_and_merged_incidents_stay() -> None:
    recorded = [
        OPEN,
        replace(OPEN, incident_id="b2", status="resolved"),
        replace(OPEN, incident_id="c3", merged_into="a1"),
    ]
    assert unconfirmed(recorded, known={"a1"}, time_ns=at(700)) == []


def test_an_incident_that_store_and_journal_record_ends_once() -> None:
    older = replace(OPEN, revision=3)
    assert [ended.revision for ended in unconfirmed([older, OPEN, older], known=(), time_ns=at(700))] == [5]


def test_an_incident_whose_newest_revision_has_ended_stays() -> None:
    assert unconfirmed([replace(OPEN, revision=5, status="resolved"), OPEN], known=(), time_ns=at(700)) == []
