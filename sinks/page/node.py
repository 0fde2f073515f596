"""The page of one node: its incidents, kernel matches and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.sinks.clickhouse import nodes, operator_actions, overview, reading
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.page.search import ListQuery
from epicenter.sinks.page.strip import strip_of
from epicenter.sinks.text.incident_view import IncidentView

MAX_INCIDENTS: Final = 20


class NodeStory(msgspec.Struct, frozen=True):
    """What the store knows about a node; `incidents` are the first of `counts.total`."""

    counts: nodes.NodeCounts
    incidents: Sequence[Incident]
    days: Sequence[overview.DayCount]
    acknowledgements: Sequence[Acknowledgement]
    matches: Sequence[nodes.NodeMatches]
    jobs: Sequence[nodes.NodeJob]

    @property
    def newest_ns(self) -> int | None:
        """The newest line of the node, None if unknown."""
        times = [job.last_ns for job in self.jobs] + [match.newest_ns for match in self.matches]
        return max(times, default=None)


def load_node(client: Client, node: str, cluster: str, now_ns: int) -> NodeStory | None:
    """What the store knows about a node of one cluster, or of all; None if it knows nothing."""
    wanted = reading.IncidentFilter(node=node, cluster=cluster)
    incidents = reading.find_incidents(client, wanted, MAX_INCIDENTS)
    ids = [incident.incident_id for incident in incidents]
    story = NodeStory(
        counts=nodes.node_counts(client, node, cluster, now_ns),
        incidents=incidents,
        days=overview.incidents_by_day(client, wanted),
        acknowledgements=operator_actions.list_acknowledgements(client, incident_ids=ids),
        matches=nodes.node_matches(client, node, cluster),
        jobs=nodes.node_jobs(client, node, cluster),
    )
    return story if story.incidents or story.newest_ns is not None else None


def template_variables(story: NodeStory, node: str, cluster: str, now_ns: int) -> dict[str, Any]:
    """The variables of the template `node.html`."""
    return {
        "node": node,
        "story": story,
        "listed": ListQuery(q=f"node:{node}", cluster=cluster),
        "strip": strip_of(story.days, now_ns),
        "views": list(map(IncidentView, story.incidents)),
        "acknowledgements": operator_actions.active_acknowledgements(story.acknowledgements),
        "jobs": [job for job in story.jobs if job.job],
        "node_clusters": sorted(
            {job.cluster for job in story.jobs} | {incident.cluster for incident in story.incidents}
        ),
    }
