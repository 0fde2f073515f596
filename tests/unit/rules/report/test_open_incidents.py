"""Counts of open incidents, from the reports of those that changed."""

from __future__ import annotations

from msgspec.structs import replace

from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.report.open_incidents import OpenIncidents
from tests.unit.sinks.clickhouse.test_rows import an_incident

XID = replace(an_incident("a1"), failure_class="xid-79")
OTHER = replace(an_incident("b2"), failure_class="xid-79", severity="error")


def test_open_incidents_count_by_severity_and_class() -> None:
    incidents = OpenIncidents()
    assert incidents.update([XID, OTHER]) == [("critical", "xid-79"), ("error", "xid-79")]
    assert incidents.counts() == {("critical", "xid-79"): 1, ("error", "xid-79"): 1}


def test_change_of_an_open_incident_moves_it_and_opens_none() -> None:
    incidents = OpenIncidents()
    incidents.update([XID])
    assert incidents.update([replace(XID, revision=2, severity="error", failure_class="python-exception")]) == []
    assert incidents.counts() == {("error", "python-exception"): 1}


def test_resolved_and_merged_incidents_are_not_open() -> None:
    incidents = OpenIncidents()
    incidents.update([XID, OTHER])
    assert incidents.update([replace(XID, status="resolved"), replace(OTHER, merged_into="a1")]) == []
    assert incidents.counts() == {}


def test_reopened_incident_opens_again() -> None:
    incidents = OpenIncidents()
    changes = [XID, replace(XID, status="resolved"), replace(XID, reopened=1)]
    assert [len(incidents.update([change])) for change in changes] == [1, 0, 1]


def test_names_of_classes_are_bounded_whatever_is_in_a_log() -> None:
    names = ["python-exception", "xid-79", "xid-1234567", "sxid-12028", "sxid-99999", "my-own-class", "\x1b[31m"]
    assert [vocabulary().bounded(name) for name in names] == [
        *("python-exception", "xid-79", "xid-*", "sxid-*", "sxid-*", "other", "other")
    ]
