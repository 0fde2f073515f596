"""What a revision gives to tell, once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rules.model import Incident, Notification
from rules.notify import due
from tests.support.incidents import opened_and_resolved

INCIDENT, RESOLVED = opened_and_resolved()


def revised(**changes: Any) -> Incident:
    return msgspec.structs.replace(INCIDENT, **changes)


REOPENED = revised(revision=3, reopened=1)
RESOLVED_AGAIN = revised(revision=4, status="resolved", reopened=1)
MERGED = revised(revision=2, status="resolved", merged_into="another")


def told(*revisions: Incident) -> list[Notification]:
    """What these revisions, one after the other, give to tell."""
    notifications: dict[str, Notification] = {}
    for revision in revisions:
        if found := due(revision, notifications):
            notifications[found.notification_id] = found
    return list(notifications.values())


@pytest.mark.parametrize(
    ("revisions", "kinds"),
    [
        ([INCIDENT], ["opened"]),
        ([INCIDENT, revised(revision=2, severity="critical")], ["opened"]),
        ([INCIDENT, RESOLVED, RESOLVED], ["opened", "resolved"]),
        ([INCIDENT, RESOLVED, REOPENED, RESOLVED_AGAIN], ["opened", "resolved", "reopened", "resolved"]),
        ([INCIDENT, REOPENED, RESOLVED_AGAIN], ["opened", "reopened", "resolved"]),
        ([RESOLVED], []),
        ([MERGED], []),
        ([INCIDENT, MERGED], ["opened", "resolved"]),
    ],
    ids=["opens", "changes", "is-over", "comes-back", "is-over-unseen", "over-before", "merged-before", "merged-after"],
)
def test_each_piece_of_news_is_told_once(revisions: list[Incident], kinds: list[str]) -> None:
    assert [one.kind for one in told(*revisions)] == kinds


def test_old_revisions_that_come_again_tell_nothing() -> None:
    story = [INCIDENT, RESOLVED, REOPENED, RESOLVED_AGAIN]
    assert told(*story, *story) == told(*story)


def test_ids_depend_on_the_news_alone() -> None:
    later = revised(revision=9, signal_count=5, severity="critical")
    assert [one.notification_id for one in told(later)] == [one.notification_id for one in told(INCIDENT)]
    assert len({one.notification_id for one in told(INCIDENT, RESOLVED, REOPENED, RESOLVED_AGAIN)}) == 4


def test_the_time_is_that_of_the_news() -> None:
    opened, resolved = told(INCIDENT, RESOLVED)
    assert opened.event_time == INCIDENT.last_seen
    assert resolved.event_time == RESOLVED.history[-1].time > RESOLVED.last_seen
