"""Limits how many nodes and jobs machines may act on within an hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from msgspec.structs import replace

from epicenter.rules.alerts.spec import GuardSpec, RoutingSpec
from epicenter.rules.model.notification import Action
from epicenter.rules.model.times import NS_PER_S

HOUR_NS: Final = 3600 * NS_PER_S
_TOUCHES_NOTHING: Final = ("none", "wait")
_ROUNDING: Final = 1e-9


class Acted(NamedTuple):
    """An allowed action that was notified. It counts whether or not it was carried out."""

    time_ns: int
    incident_id: str
    kind: str
    nodes: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    @classmethod
    def of(cls, action: Action, incident_id: str, time_ns: int) -> Acted:
        """The record of an allowed action."""
        return cls(time_ns, incident_id, action.kind, action.nodes, action.jobs)

    def acts_on(self) -> set[tuple[str, ...]]:
        """What counts toward the job limit: a job counts again for each incident, so that loops are noticed."""
        return {(self.incident_id, self.kind, job) for job in self.jobs}


def followed_by(recent: Iterable[Acted], acted: Acted) -> list[Acted]:
    """The actions to count after this one: it takes the place of those that touched no other node and no other job."""
    others = (
        earlier
        for earlier in recent
        if not (set(earlier.nodes) <= set(acted.nodes) and earlier.acts_on() <= acted.acts_on())
    )
    return [*others, acted]


class Guard:
    """Judges an action by the allowed actions of the hour before it, which the caller passes in."""

    def __init__(self, spec: RoutingSpec):
        self._spec = spec.guard
        self._is_dry_run = spec.actions == "dry-run"

    def judge(self, action: Action, recent: Sequence[Acted], now_ns: int, incident_id: str = "") -> Action:
        """The action, with whether it is allowed now and why.

        `recent` are earlier allowed actions, of any age and in any order. A node counts once within the hour, a job
        once for each incident and kind of action: repeated notifications use up nothing.
        """
        action = replace(action, is_dry_run=self._is_dry_run)
        if not action.is_allowed or action.kind in _TOUCHES_NOTHING:
            return action
        counted = [acted for acted in recent if acted.time_ns > now_ns - HOUR_NS and acted.kind not in _TOUCHES_NOTHING]
        problems = list(self._problems(Acted.of(action, incident_id, now_ns), counted))
        if problems:
            return replace(action, is_allowed=False, why=f"{' and '.join(problems)}: a person must decide")
        return action

    def _problems(self, wanted: Acted, counted: Sequence[Acted]) -> Iterator[str]:
        nodes = {node for acted in counted for node in acted.nodes}
        jobs = set[tuple[str, ...]]().union(*(acted.acts_on() for acted in counted))
        most_nodes, most_jobs = nodes_per_hour(self._spec), self._spec.jobs_per_hour
        if wanted.nodes and len(nodes.union(wanted.nodes)) > most_nodes:
            yield f"actions on {len(nodes)} nodes are used up, of {most_nodes} allowed per hour"
        if wanted.jobs and len(jobs | wanted.acts_on()) > most_jobs:
            yield f"actions on {len(jobs)} jobs are used up, of {most_jobs} allowed per hour"


def nodes_per_hour(spec: GuardSpec) -> int:
    """How many nodes may be acted on within an hour: the number, or the share of the fleet if that is less."""
    if spec.fleet_nodes is None:
        return spec.nodes_per_hour
    return min(spec.nodes_per_hour, int(spec.fleet_share * spec.fleet_nodes + _ROUNDING))


def faults(spec: GuardSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Values with which the guard can't work as intended, each with its key."""
    if spec.fleet_nodes is None:
        if "fleet_share" in spec.model_fields_set:
            yield ("fleet_share",), "a share needs the number of nodes: write `fleet_nodes` too"
    elif spec.nodes_per_hour and not nodes_per_hour(spec):
        least = ceil(1000 / spec.fleet_nodes) / 1000
        share = f"{spec.fleet_share:g} of {spec.fleet_nodes} nodes"
        yield (
            ("fleet_nodes",),
            f"{share} is less than one node, so no action is ever allowed: write `fleet_share: {least}`",
        )
