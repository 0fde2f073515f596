"""Heartbeats that change nothing but the newest times of their own job, node and ranks: their order does not matter.

Between two inputs that may read these times, such heartbeats are applied together, a bundle at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from epicenter.rules.event_time.ordering import bundle_order, count_before
from epicenter.rules.event_time.skew import ClockSkew
from epicenter.rules.event_time.waiting_list import Waiting
from epicenter.rules.liveness.retention import HOUR_NS
from epicenter.rules.liveness.state import JobWatch, Member, job_key, member_key, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.heartbeats import Alive, Step
from epicenter.rules.model.step_bundle import StepBundle
from epicenter.rules.placement.placement import SWEEP_EVERY_NS, JobPlaces, Placement

WORKER: Final = "worker"
Names = Mapping[tuple[str, str], str]


@dataclass(slots=True, eq=False)
class _JobOnNode:
    """A job that is known to be on a node since `since_ns`, and the state that each of its heartbeats changes.

    `members` are those of its ranks that are known to report from the node alone, in this `attempt`.
    """

    job: str
    node: str
    round_key: str
    clock_key: str
    since_ns: int
    watch: JobWatch
    places: JobPlaces
    seen: dict[str, tuple[int, int]]
    streams: NodeStreams | None
    attempt: int = 0
    members: dict[int | None, Member] = field(default_factory=dict)

    def observe(self, time_ns: int) -> None:
        """As `Placement.observe` and `JobWatch.observe`."""
        first_ns, last_ns = self.seen[self.job]
        if time_ns > last_ns:
            self.seen[self.job] = first_ns, time_ns
        places, watch = self.places, self.watch
        if time_ns > places.last_ns:
            places.last_ns = time_ns
        if time_ns > places.last_ns_by_node[self.node]:
            places.last_ns_by_node[self.node] = time_ns
        if time_ns > watch.last_seen_ns:
            watch.last_seen_ns = time_ns


class _QuietAlive(NamedTuple):
    """A sign of life, with the state that it changes."""

    time_ns: int
    stream: str
    place: _JobOnNode | None
    streams: NodeStreams

    def apply(self, before: tuple[Any, ...]) -> None:
        """Record it; it comes before this order."""
        if self.place:
            self.place.observe(self.time_ns)
        self.streams.record(self.stream, self.time_ns)


class _QuietSteps(NamedTuple):
    """A bundle of steps with the state that it changes; `number` is that of the input."""

    bundle: StepBundle
    number: int
    place: _JobOnNode
    reported_ns: dict[str, int] | None
    members: list[Member]

    def apply(self, before: tuple[Any, ...]) -> Waiting | None:
        """Record the steps before this order; return the others as an input."""
        bundle, place, members = self.bundle, self.place, self.members
        times_ns, step, count = bundle.times_ns, bundle.step, len(members)
        if times_ns[-1] >= before[0]:
            count = count_before(bundle, before)
        place.observe(times_ns[count - 1])
        if self.reported_ns is not None:
            self.reported_ns.setdefault(place.clock_key, times_ns[0])
        is_newest = step >= place.watch.progress.written_last_step
        for member, time_ns, compute_ns in zip(members[:count], times_ns, bundle.compute_ns, strict=False):
            member.step, member.step_ns = step, time_ns
            member.reports += 1
            if is_newest:
                member.abreast_ns = time_ns
            if compute_ns:
                member.compute(step, compute_ns)
        return None if count == len(members) else _rest(bundle, count, self.number)


def _rest(bundle: StepBundle, first: int, number: int) -> Waiting:
    rest = bundle.since(first)
    return bundle_order(rest), number, rest


class QuietHeartbeats:
    """The quiet heartbeats since the last input that was not quiet. Add them in order; `settle` applies them."""

    def __init__(self, names: Names, skew: ClockSkew, placement: Placement, liveness: LivenessWatch):
        self._names, self._skew, self._placement, self._liveness = names, skew, placement, liveness
        self._quiet: list[_QuietAlive | _QuietSteps] = []
        self._members: set[int] = set()
        self._known: dict[tuple[str, str, str], _JobOnNode] = {}
        self._known_until_ns = 0

    def __bool__(self) -> bool:
        return bool(self._quiet)

    def add(self, due: Waiting) -> bool:
        """Add an input if it is quiet when everything before it has been applied; else false.

        A second step of the same rank is not: the first one is still to be applied.
        """
        order, number, arrived = due
        if type(arrived) is StepBundle:
            found: _QuietAlive | _QuietSteps | None = self._steps(arrived, number)
        elif type(arrived) is Step and arrived.event_time_ns == order[0]:
            found = self._steps(StepBundle.alone(arrived), number)
        elif type(arrived) is Alive and arrived.event_time_ns == order[0]:
            found = self._alive(arrived)
        else:
            return False
        if found is None:
            return False
        self._quiet.append(found)
        return True

    def settle(self, before: tuple[Any, ...]) -> Iterable[Waiting]:
        """Apply what comes before an input of this order, and forget the others; return these."""
        rests = [quiet.apply(before) for quiet in self._quiet]
        self._quiet.clear()
        self._members.clear()
        return filter(None, rests)

    def _alive(self, alive: Alive) -> _QuietAlive | None:
        time_ns, cluster, node, source = alive.event_time_ns, alive.cluster, alive.node, alive.source
        if alive.job:
            place = self._place(cluster, alive.job, node, time_ns, time_ns) if source == WORKER else None
            return _QuietAlive(time_ns, source, place, place.streams) if place and place.streams else None
        streams = self._liveness.streams.get(node_key(cluster, node))
        is_quiet = self._names.get((cluster, node)) == node and f"{cluster}/{node}" not in self._skew.ahead_ns
        if streams is None or not is_quiet or time_ns // HOUR_NS > self._liveness.swept_hour:
            return None
        return _QuietAlive(time_ns, "kernel" if source == WORKER else source, None, streams)

    def _steps(self, bundle: StepBundle, number: int) -> _QuietSteps | None:
        times_ns, step = bundle.times_ns, bundle.step
        if bundle.source != WORKER:
            return None
        place = self._place(bundle.cluster, bundle.job, bundle.node, times_ns[0], times_ns[-1])
        if place is None or (reported := self._skew.rounds.get(place.round_key)) is None or step > reported.step:
            return None
        members = _members(place, bundle.ranks, step)
        if not members or not self._members.isdisjoint(ids := [id(member) for member in members]):
            return None
        self._members.update(ids)
        return _QuietSteps(bundle, number, place, reported.reported_ns if step == reported.step else None, members)

    def _place(self, cluster: str, job: str, node: str, first_ns: int, last_ns: int) -> _JobOnNode | None:
        """The job on the node, if it is known to be there, alone, at the time of the other nodes, and has not ended."""
        until_ns = min(self._placement.swept_ns + SWEEP_EVERY_NS, (self._liveness.swept_hour + 1) * HOUR_NS)
        if until_ns != self._known_until_ns:
            self._known_until_ns = until_ns
            self._known.clear()
        key = (cluster, job, node)
        place = self._known.get(key)
        if place is None:
            if (place := self._look_up(cluster, job, node)) is None:
                return None
            self._known[key] = place
        seen, is_late = place.seen, first_ns < place.since_ns
        if is_late or last_ns >= until_ns or len(seen) > 1 or job not in seen or seen[job][0] > first_ns:
            return None
        return None if place.places.ended_ns or place.clock_key in self._skew.ahead_ns else place

    def _look_up(self, cluster: str, job: str, node: str) -> _JobOnNode | None:
        """What stays as it is until the next sweep."""
        places = self._placement.by_job.get(f"{cluster}/{job}")
        seen = self._placement.seen_by_node.get(f"{cluster}/{node}")
        watch = self._liveness.jobs.get(job_key(cluster, job, node))
        is_named = bool(job) and self._names.get((cluster, node)) == node
        if not is_named or places is None or seen is None or watch is None:
            return None
        is_placed = places.has_logged and node in places.last_ns_by_node and node in places.first_ns_by_node
        is_watched = watch.has_logged and watch.first_ns and watch.shown_phase is not None and node in watch.nodes
        if not (is_placed and is_watched and job in seen):
            return None
        since_ns = places.first_ns_by_node[node]
        streams = self._liveness.streams.get(node_key(cluster, node))
        return _JobOnNode(job, node, f"{cluster}/{job}", f"{cluster}/{node}", since_ns, watch, places, seen, streams)


def _members(place: _JobOnNode, ranks: Iterable[int | None], step: int) -> list[Member]:
    """The ranks, if all are known, and this step is new to each, but not to the job; else none."""
    progress = place.watch.progress
    if step > progress.written_last_step or progress.is_counted or progress.has_ended:
        return []
    if place.attempt != progress.attempt:
        place.attempt = progress.attempt
        place.members.clear()
    members, known = [], place.members
    for rank in ranks:
        member = known.get(rank) or _member(place, rank)
        if member is None or member.step >= step:
            return []
        members.append(member)
    return members


def _member(place: _JobOnNode, rank: int | None) -> Member | None:
    """The rank, if it has reported steps from this node; from now on it is known."""
    member = place.watch.members.get(member_key(place.node, rank))
    is_reporter = rank is None or place.places.node_by_reporter.get(rank) in (place.node, "")
    if member is None or not is_reporter:
        return None
    place.members[rank] = member
    return member
