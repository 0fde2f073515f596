"""The incident about a full data disk: one for an episode, and again when it comes back."""

from __future__ import annotations

from pathlib import Path

from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.local.own_incident import REOPENED_WITHIN_NS, DiskFullIncident

NOW_NS = 1_772_442_000 * NS_PER_S
FULL = "the disk is full"


def test_an_episode_is_opened_once_and_resolved() -> None:
    own = DiskFullIncident("default", Path("/data"))
    (opened,) = own.update(FULL, False, NOW_NS)
    assert (opened.status, opened.failure_class, opened.severity) == ("open", "disk-full", "error")
    assert opened.title.startswith("epicenter's data disk is full on ")
    assert own.update(FULL, False, NOW_NS + NS_PER_S) == []
    (resolved,) = own.update("", False, NOW_NS + 2 * NS_PER_S)
    assert (resolved.status, resolved.incident_id, resolved.revision) == ("resolved", opened.incident_id, 2)
    assert own.update("", False, NOW_NS + 3 * NS_PER_S) == []


def test_rows_that_are_given_up_make_it_critical() -> None:
    own = DiskFullIncident("default", Path("/data"))
    own.update(FULL, False, NOW_NS)
    (worse,) = own.update(FULL, True, NOW_NS + NS_PER_S)
    assert (worse.status, worse.severity) == ("open", "critical")


def test_a_disk_that_is_soon_full_again_reopens_it() -> None:
    own = DiskFullIncident("default", Path("/data"))
    (first,) = own.update(FULL, False, NOW_NS)
    own.update("", False, NOW_NS)
    (again,) = own.update(FULL, False, NOW_NS + REOPENED_WITHIN_NS - 1)
    assert (again.incident_id, again.status, again.reopened) == (first.incident_id, "open", 1)


def test_a_disk_that_is_full_again_much_later_opens_another() -> None:
    own = DiskFullIncident("default", Path("/data"))
    (first,) = own.update(FULL, False, NOW_NS)
    own.update("", False, NOW_NS)
    (other,) = own.update(FULL, False, NOW_NS + REOPENED_WITHIN_NS)
    assert other.incident_id != first.incident_id
