"""The page of one incident: everything the store knows about it, prepared for the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.alerts.silences import MATCHERS, Silence, silenced_by
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.clickhouse import operator_actions, reading
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.named import named_incident
from epicenter.sinks.operator_actions import proposed_matchers
from epicenter.sinks.page import views
from epicenter.sinks.page.lanes import NARROW_PX, WIDE_PX, Lanes, lay_out
from epicenter.sinks.page.listing import Listing
from epicenter.sinks.page.listing import template_variables as listing_variables
from epicenter.sinks.page.notified import MAX_UNFOLDED, decisions_by_target, in_time_order
from epicenter.sinks.page.render import html
from epicenter.sinks.page.search import ListQuery
from epicenter.sinks.text.incident_view import IncidentView

MAX_SHOWN_LINES: Final = 6
MEANINGS: Final = (
    ("root", "root cause"),
    ("cascade", "consequence"),
    ("confirmation", "confirmation"),
    ("teardown", "teardown"),
    ("earlier", "before the root cause, not its effect"),
    ("delay", "delay before it was logged"),
    ("uncertain", "began within this time"),
)
"""What the shapes of the drawing mean."""


class Story(msgspec.Struct, frozen=True):
    """An incident and what the store knows about it; `ranks` are the first of `rank_count`."""

    incident: Incident
    revisions: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    similar: list[reading.Similar]
    ranks: list[dict[str, Any]]
    rank_count: int
    feedback: list[operator_actions.Feedback]
    acknowledgements: list[Acknowledgement]
    silence: Silence | None


def load_story(client: Client, incident_id: str, now_ns: int) -> Story:
    """The story of an incident, as `named_incident` finds it."""
    incident = named_incident(client, incident_id)
    full_id = incident.incident_id
    ranks, rank_count = reading.incident_ranks(client, full_id)
    return Story(
        incident=incident,
        revisions=reading.incident_changes(client, full_id),
        deliveries=reading.incident_deliveries(client, full_id),
        similar=reading.similar_incidents(client, incident),
        ranks=ranks,
        rank_count=rank_count,
        feedback=operator_actions.list_feedback(client, full_id),
        acknowledgements=operator_actions.list_acknowledgements(client, incident_ids=[full_id]),
        silence=silenced_by(operator_actions.list_silences(client, ending_after_ns=now_ns), incident, now_ns),
    )


def incident_html(incident: Incident, now_ns: int = 0) -> str:
    """The page of an incident without a store."""
    story = Story(incident, [], [], [], [], 0, [], [], None)
    return html("incident.html", now_ns=now_ns, **template_variables(story, now_ns))


def incidents_html(incidents: Sequence[Incident], now_ns: int = 0) -> str:
    """The incident list as HTML."""
    listing = Listing(count=len(incidents), incidents=incidents)
    return html("incidents.html", now_ns=now_ns, **listing_variables(listing, ListQuery(), now_ns))


def template_variables(story: Story, now_ns: int) -> dict[str, Any]:
    """The variables of the template `incident.html`."""
    incident, view = story.incident, IncidentView(story.incident)
    by_target = decisions_by_target(story.deliveries)
    decisions = in_time_order(by_target)
    drawings = [drawing for width in (WIDE_PX, NARROW_PX) if (drawing := lay_out(incident, width))]
    return {
        "story": story,
        "incident": incident,
        "view": view,
        "sentence": view.headline,
        "drawings": drawings,
        "legend": _legend(drawings),
        "shown_lines": MAX_SHOWN_LINES,
        "classes": _classes(),
        "actions": vocabulary().actions,
        "changes": views.changes(incident.history, story.revisions, story.deliveries, story.acknowledgements),
        "acknowledgement": operator_actions.active_acknowledgements(story.acknowledgements).get(incident.incident_id),
        "decisions": decisions,
        "by_target": by_target if len(decisions) > MAX_UNFOLDED else [],
        "matchers": _matchers(incident),
    }


def _legend(drawings: Sequence[Lanes]) -> list[tuple[str, str]]:
    """What the drawings use of `MEANINGS`."""
    marks = [mark for drawing in drawings for lane in drawing.lanes for mark in lane.marks]
    used = {mark.role for mark in marks}
    used |= {"delay"} if any(mark.logged_x > mark.x for mark in marks) else set()
    used |= {"uncertain"} if any(mark.to_x > mark.from_x for mark in marks) else set()
    return [(role, meaning) for role, meaning in MEANINGS if role in used]


def _matchers(incident: Incident) -> list[tuple[str, str]]:
    """The matchers of the silence form with their proposed values; those with a proposal come first."""
    proposed = proposed_matchers(incident)
    return [*proposed.items(), *((name, "") for name in MATCHERS if name not in proposed)]


def _classes() -> list[str]:
    return sorted(name for name in vocabulary().family_by_class if not name.endswith("*"))
