"""A planner with a clock that tests move and a journal in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from epicenter.rules.alerts.counted_time import Instant
from epicenter.rules.alerts.mute_stages import EvaluationContext, OperatorActions
from epicenter.rules.alerts.planner import Planner
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.spec import RoutingSpec
from epicenter.rules.alerts.state import AlertState
from epicenter.rules.model.incident import BlastRadius, Incident
from epicenter.rules.model.ledger import Delivery
from epicenter.rules.model.notification import Notification
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from tests.support.incidents import opened_and_resolved

NOW_NS = 1_800_000_000 * NS_PER_S
OPENED, RESOLVED = opened_and_resolved()
SILENT_RULE = "silence.no_progress"


def routing(**content: Any) -> Routing:
    """An `alerts.yaml` with these parts; everything goes to `chat` when no route is given."""
    return Routing(RoutingSpec.model_validate({"route": {"targets": "chat"}, **content}))


def incident(name: str = "", *, nodes: int = 1, **changes: Any) -> Incident:
    """An open incident about a GPU of n1, changed."""
    reach = BlastRadius(nodes, nodes, 1)
    return msgspec.structs.replace(OPENED, incident_id=name or OPENED.incident_id, blast_radius=reach, **changes)


def resolved(incident: Incident, **changes: Any) -> Incident:
    """The same incident, resolved."""
    return msgspec.structs.replace(incident, status="resolved", revision=incident.revision + 1, **changes)


def with_cause(incident: Incident, **changes: Any) -> Incident:
    """The same incident with another root cause."""
    return msgspec.structs.replace(incident, root_cause=msgspec.structs.replace(incident.root_cause, **changes))


class PlannerHarness:
    """Processes revisions, moves the clock, and delivers at once what is pending to targets that accept everything."""

    def __init__(self, rules: Routing, now_ns: int = NOW_NS):
        self.rules = rules
        self.now_ns = now_ns
        self.actions = OperatorActions()
        self.records: dict[str, bytes] = {}
        self.sent: list[Notification] = []
        self.decisions: list[Delivery] = []
        self.restart()

    @property
    def kinds(self) -> list[str]:
        """The kind of each notification."""
        return [notification.kind for notification in self.sent]

    @property
    def notified(self) -> list[tuple[str, str]]:
        """Target and kind of each."""
        return [(notification.target, notification.kind) for notification in self.sent]

    @property
    def outcomes(self) -> list[str]:
        """Why a target was not notified, each decision once."""
        return [decision.outcome for decision in self.decisions]

    def restart(self) -> None:
        """Restart with the journal alone."""
        state, unreadable = AlertState.restored(self.records)
        assert not unreadable
        self.planner = Planner(self.rules, lambda incident: incident.root_cause.rule == SILENT_RULE, state)

    def process(self, *incidents: Incident, after_s: float = 0) -> PlannerHarness:
        """Process revisions, each `after_s` after the one before."""
        for revision in incidents:
            self.now_ns += round(after_s * NS_PER_S)
            self.observe(revision)
            self.wait(0)
        return self

    def observe(self, revision: Incident) -> None:
        """Observe a revision without evaluating the groups."""
        self.planner.observe(revision, Position("incidents/0", revision.revision), self.context())

    def wait(self, seconds: float, is_last: bool = False) -> PlannerHarness:
        """Let time pass."""
        self.now_ns += round(seconds * NS_PER_S)
        self.decisions += self.planner.advance(self.context(is_last))
        self._send()
        return self

    def save(self) -> None:
        """Write what changed to the journal."""
        for key, value in self.planner.state.take_changes().items():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    def _send(self) -> None:
        self.save()
        for group in list(self.planner.state.groups.values()):
            while group.pending:
                self.sent.append(group.pending[0].notification)
                self.planner.record_sent(group, {})
        self.save()

    def context(self, is_last: bool = False) -> EvaluationContext:
        """Now, with the operator actions."""
        return EvaluationContext(Instant(self.now_ns, self.now_ns), self.actions, is_last)


def ids(notifications: Iterable[Notification]) -> Collection[str]:
    """Their ids, in order."""
    return [notification.notification_id for notification in notifications]
