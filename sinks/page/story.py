"""Everything that the page of one incident tells, gathered from the store and worked out for its template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rules.model import Acknowledgement
from rules.silenced import MATCHERS, Silence, silenced_by
from rules.vocabulary import vocabulary
from sinks.clickhouse import reading, said
from sinks.clickhouse.client import Client
from sinks.page import views
from sinks.page.lanes import NARROW_PX, WIDE_PX, lay_out
from sinks.page.render import html
from sinks.page.search import ListQuery
from sinks.page.told import MOST_AT_ONCE, in_order, told


class Story(msgspec.Struct, frozen=True):
    """An incident's document and what else the store knows of it; `rank_count` is of all ranks, `ranks` the first."""

    document: dict[str, Any]
    revisions: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    similar: list[dict[str, Any]]
    ranks: list[dict[str, Any]]
    rank_count: int
    feedback: list[said.Feedback]
    acknowledgements: list[Acknowledgement]
    silence: Silence | None


def load_story(client: Client, incident_id: str, now_ns: int) -> Story | None:
    """The story of an incident, by its id or a beginning of it; None when there is no such incident."""
    document = reading.get_incident(client, incident_id)
    if document is None:
        return None
    full_id = document["incident_id"]
    ranks, rank_count = reading.incident_ranks(client, full_id)
    return Story(
        document=document,
        revisions=reading.incident_changes(client, full_id),
        deliveries=reading.incident_deliveries(client, full_id),
        similar=reading.similar_incidents(client, document),
        ranks=ranks,
        rank_count=rank_count,
        feedback=said.list_feedback(client, full_id),
        acknowledgements=said.list_acknowledgements(client, incident_ids=[full_id]),
        silence=silenced_by(said.list_silences(client, ending_after_ns=now_ns), document, now_ns),
    )


def incident_html(document: dict[str, Any], now_ns: int = 0) -> str:
    """The page of an incident of which nothing is known but its document."""
    story = Story(document, [], [], [], [], 0, [], [], None)
    return html("incident.html", now_ns=now_ns, **shown_of(story, now_ns))


def incidents_html(documents: Sequence[dict[str, Any]], now_ns: int = 0) -> str:
    """The list of these incidents."""
    shown: dict[str, Any] = {"query": ListQuery(), "groups": [], "documents": documents, "taken": {}, "has_more": False}
    return html("incidents.html", now_ns=now_ns, **shown)


def shown_of(story: Story, now_ns: int) -> dict[str, Any]:
    """What the template `incident.html` shows of it."""
    document = views.complete(story.document)
    by_target = told(story.deliveries)
    decisions = in_order(by_target)
    return {
        "story": story,
        "document": document,
        "sentence": views.cause_sentence(document),
        "sureness": views.sureness(float(document["root_cause"]["confidence"])),
        "lasted": views.lasted(document, now_ns),
        "drawings": [drawing for width in (WIDE_PX, NARROW_PX) if (drawing := lay_out(document, width))],
        "lines": views.evidence(document),
        "shown_lines": views.SHOWN_LINES,
        "classes": _classes(),
        "actions": vocabulary().actions,
        "changes": views.changes(document, story.revisions, story.deliveries, story.acknowledgements),
        "taken": said.standing(story.acknowledgements).get(document["incident_id"]),
        "decisions": decisions,
        "by_target": by_target if len(decisions) > MOST_AT_ONCE else [],
        "matchers": _matchers(document),
    }


def _matchers(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What a silence may name, with what the form proposes; what proposes something comes first."""
    root, jobs = document["root_cause"], document["jobs"]
    proposed = {"class": root["class"], "node": root["node"], "job": jobs[0] if len(jobs) == 1 else ""}
    proposed["cluster"] = document["cluster"]
    return [*proposed.items(), *((name, "") for name in MATCHERS if name not in proposed)]


def _classes() -> list[str]:
    return sorted(name for name in vocabulary().family_by_class if not name.endswith("*"))
