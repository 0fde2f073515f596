"""Wherever a process is killed, targets get the messages of an undisturbed run in the same order, at least once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.rules.alerts.counted_time import Instant
from epicenter.rules.alerts.mute_stages import EvaluationContext, OperatorActions
from epicenter.rules.alerts.planner import Planner
from epicenter.rules.alerts.state import AlertState
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from tests.support.planning import NOW_NS, SILENT_RULE, PlannerHarness, incident, routing, with_cause

ROUTING = routing(
    route={
        "targets": ["chat", "pager"],
        "repeat_interval": "1h",
        "escalate": [{"after": "10m", "targets": "boss"}],
        "routes": [
            {
                "match": {"severity": "warning"},
                "targets": "digest",
                "group_by": ["cluster"],
                "group_wait": "30s",
                "continue": True,
            },
            {"match": {"class": "host-*"}, "targets": "chat"},
        ],
    },
    inhibit=[{"source": {"severity": "critical"}, "target": {"severity": "warning"}, "equal": ["node"]}],
)
STEPS = ("grow", "other cause", "worse", "silent", "resolve", "wait 20 s", "wait 2 m", "wait 1 h", "acknowledge")
Step = tuple[str, int]
SETTLE: tuple[Step, ...] = (("wait 2 m", 0), ("wait 2 m", 0))


def story(steps: Collection[Step]) -> list[tuple[Incident | None, int, OperatorActions]]:
    """Revisions of three incidents, or None where only time passes; the clock; the operator actions so far."""
    now = {number: incident(f"i{number}", severity="warning") for number in range(3)}
    moments: list[tuple[Incident | None, int, OperatorActions]] = []
    now_ns, acknowledgements = NOW_NS, dict[str, Acknowledgement]()
    for step, number in (*steps, *SETTLE):
        revision: Incident | None = None
        match step:
            case "wait 20 s" | "wait 2 m" | "wait 1 h":
                now_ns += {"s": 20, "m": 120, "h": 3600}[step[-1]] * NS_PER_S
            case "acknowledge":
                acknowledgements = {**acknowledgements, f"i{number}": Acknowledgement(f"i{number}", "ada", now_ns)}
            case _:
                revision = now[number] = _revised(now[number], step)
        now_ns += NS_PER_S
        moments.append((revision, now_ns, OperatorActions((), acknowledgements)))
    return moments


def _revised(revision: Incident, step: str) -> Incident:
    reach, count = revision.blast_radius.nodes, revision.signal_count + 1
    changes = {
        "severity": "critical" if step == "worse" else revision.severity,
        "failure_class": revision.failure_class,
    }
    if step == "other cause":
        changes["failure_class"] = "host-oom-kill"
    if revision.status == "resolved":
        return incident(
            revision.incident_id, nodes=reach, signal_count=count, reopened=revision.reopened + 1, **changes
        )
    status = "resolved" if step == "resolve" else "open"
    grown = incident(
        revision.incident_id, nodes=reach * 4, signal_count=count, reopened=revision.reopened, status=status, **changes
    )
    return with_cause(grown, rule=SILENT_RULE) if step == "silent" else grown


@dataclass
class Run:
    """A process that is killed at some of its writes and restarts from the journal."""

    kills: set[int] = field(default_factory=set)
    records: dict[str, bytes] = field(default_factory=dict)
    sent: list[tuple[str, str]] = field(default_factory=list)
    writes: int = 0

    def play(self, steps: list[Step]) -> Run:
        planner = self._planner()
        for number, (revision, now_ns, actions) in enumerate(story(steps)):
            while not self._is_evaluated(
                planner, revision, number, EvaluationContext(Instant(now_ns, now_ns), actions)
            ):
                planner = self._planner()
            while not self._is_delivered(planner):
                planner = self._planner()
        return self

    def _planner(self) -> Planner:
        state, unreadable = AlertState.restored(self.records)
        assert not unreadable
        return Planner(ROUTING, lambda revision: revision.root_cause.rule == SILENT_RULE, state)

    def _is_evaluated(
        self, planner: Planner, revision: Incident | None, number: int, context: EvaluationContext
    ) -> bool:
        if revision:
            planner.observe(revision, Position("incidents/0", number), context)
        planner.advance(context)
        return self._is_written(planner)

    def _is_delivered(self, planner: Planner) -> bool:
        for group in sorted(planner.state.groups.values(), key=lambda group: group.key):
            while group.pending:
                self.sent.append((group.key, group.pending[0].notification.notification_id))
                planner.record_sent(group, {})
                if not self._is_written(planner):
                    return False
        return True

    def _is_written(self, planner: Planner) -> bool:
        """False when the process is killed between two records."""
        for key, value in planner.state.take_changes().items():
            self.writes += 1
            if self.writes in self.kills:
                return False
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value
        return True

    def ids_by_group(self) -> dict[str, list[str]]:
        """The notification ids of each group, each at its first delivery."""
        return {key: list(dict.fromkeys(name for group, name in self.sent if group == key)) for key, _ in self.sent}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=25),
    kills=st.sets(st.integers(1, 120), max_size=8),
)
def test_a_run_killed_anywhere_notifies_the_same_as_an_undisturbed_one(steps: list[Step], kills: set[int]) -> None:
    calm = Run().play(steps)
    assert len(set(calm.sent)) == len(calm.sent), "nothing twice"
    assert Run(kills).play(steps).ids_by_group() == calm.ids_by_group()


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=25))
def test_logs_read_again_notify_nothing_more(steps: list[Step]) -> None:
    harness = PlannerHarness(ROUTING)
    revisions = [revision for revision, _, _ in story(steps) if revision]
    harness.process(*revisions, after_s=61).wait(120)
    sent = list(harness.sent)
    harness.process(*revisions).wait(1)
    assert harness.sent == sent
