"""The core as one object: matches, heartbeats and rank placements in, incidents out. Time is an input."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from epicenter.rules.cause.exceptions import is_an_end
from epicenter.rules.cause.processes import foreign, may_be_foreign, serves_the_cluster, with_owner
from epicenter.rules.cause.ranking import Candidate, Relations
from epicenter.rules.correlate.broken_nodes import (
    breaks_a_node,
    broken_node_without_job,
    is_a_stop,
    jobs_that_stopped,
)
from epicenter.rules.correlate.lifecycle import Lifecycle
from epicenter.rules.correlate.pending import DELAYS, is_soft
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.detect.detectors import Detectors, DetectorState
from epicenter.rules.detect.inputs import step_signal
from epicenter.rules.detect.signal import pod_of, signal_of
from epicenter.rules.event_time.common_clock import corrected, place_of, time_of_ns
from epicenter.rules.event_time.ordering import bundle_order, heartbeat_order, match_order, placement_order
from epicenter.rules.event_time.skew import ClockSkew
from epicenter.rules.event_time.undated import Undated, UndatedMatches
from epicenter.rules.event_time.waiting_list import Input, StoredInput, Waiting, WaitingInput, WaitingList
from epicenter.rules.liveness.gaps import gap_of
from epicenter.rules.liveness.job_state import end_of
from epicenter.rules.liveness.reboots import is_boot
from epicenter.rules.liveness.retention import HOUR_NS
from epicenter.rules.liveness.signals import liveness_signal, rules_by_verdict
from epicenter.rules.liveness.state import STALL_FLOOR_NS as STALL_FLOOR_NS
from epicenter.rules.liveness.verdict import STRAGGLER, Verdict
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.heartbeats import EXIT, Advanced, Alive, Heartbeat, PhaseBegan, Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Gap, JobEnd, JobState, Joined
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.signals import (
    ENDS,
    ERRORS,
    HANDLED_RULE,
    PEER_FIELD,
    PEER_NODE_FIELD,
    POD_ASSIGNED_RULE,
    POD_FIELD,
    POD_STOPPED_RULE,
    QUIET_ROLES,
    SHELL_RULE,
    TEMPLATE_FIELD,
    UNKNOWN_FAILURE_RULE,
    UNNAMED,
    Signal,
    is_unnamed,
    without_suggestion,
)
from epicenter.rules.model.step_bundle import StepBundle
from epicenter.rules.model.times import END_NS, is_known
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.placement.completion import completed, is_named_by_slurm
from epicenter.rules.placement.host_names import MAX_KEPT_NAMES, HostNames, is_address
from epicenter.rules.quiet import QuietHeartbeats
from epicenter.rules.report.changes import ChangedIncidents
from epicenter.rules.report.context import is_about
from epicenter.rules.unnamed.memory import UnnamedMemory

KILLED_TASKS: Final = ("slurm.task_killed",)
"""Rules of kills that the scheduler orders itself once it has cancelled the step."""

CONTROLLERS: Final = ("scheduler",)
"""Sources whose lines come from another node than the job's."""

MAX_KEPT_WINDOWED: Final = 10_000


Named = TypeVar("Named", bound=Signal | RankPlacement | Heartbeat | Gap)


class Counts(msgspec.Struct):
    """What the input led to, so that counts add up. `evicted`: groups that windows had no room for."""

    signals: int = 0
    late: int = 0
    duplicate: int = 0
    alone: int = 0
    unknown: int = 0
    evicted: int = 0


class EngineState(msgspec.Struct):
    """The whole state of the engine, as snapshots have it. `waiting` is filled in snapshots only."""

    watermark_ns: int = 0
    waiting: list[StoredInput] = []
    undated: list[Undated] = []
    added: int = 0
    lifecycle: Lifecycle = msgspec.field(default_factory=Lifecycle, name="life")
    liveness: LivenessWatch = msgspec.field(default_factory=LivenessWatch, name="silence")
    detectors: DetectorState = msgspec.field(default_factory=DetectorState)
    host_names: HostNames = msgspec.field(default_factory=HostNames)
    skew: ClockSkew = msgspec.field(default_factory=ClockSkew)
    unnamed: UnnamedMemory = msgspec.field(default_factory=UnnamedMemory)
    swept_hour: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)


class Engine:
    """Inputs wait until the watermark passes them, then are processed in event-time order.

    So neither batch sizes nor the arrival order within the allowed lateness change the result. Later input is counted
    as late and still joins its incident.
    """

    def __init__(self, rules: RuleSet, snapshot: bytes | None = None, lists_joined: bool = False):
        self._lists_joined = lists_joined
        self._state = msgspec.msgpack.decode(snapshot, type=EngineState) if snapshot else EngineState()
        self._waiting = WaitingList(self._state.waiting, self._state.added)
        self._state.waiting = []
        self._undated = UndatedMatches(self._state.undated)
        self._changes = ChangedIncidents(rules, self._state.lifecycle, self._state.liveness, self._state.skew)
        self._record_progress = self._changes.record_progress
        self._attempt_of = self._changes.attempt_of
        self.reload(rules)
        self._timers: tuple[Sequence[tuple[Any, ...]], ...] = (
            self._state.liveness.timers,
            self._state.detectors.timers,
            self._state.lifecycle.timers,
        )
        self._names: dict[tuple[str, str], str] = {}
        placement = self._state.lifecycle.correlator.placement
        self._quiet = QuietHeartbeats(self._names, self._state.skew, placement, self._state.liveness)
        self._quiet_until_ns = END_NS
        self._windowed: deque[Signal] = deque(maxlen=MAX_KEPT_WINDOWED)
        self._joined: list[Joined] = []
        self._unread: list[Gap] = []
        self._newest_verdict = next(reversed(self._state.liveness.verdicts), None)
        self._has_times = is_known(self._state.watermark_ns)
        self._of_untimed: list[Incident] = []

    def reload(self, rules: RuleSet) -> None:
        """Continue with these rules. The state stays, except for windows whose definition has changed."""
        self._rules = self._changes.rules = rules
        self._rule_by_verdict = rules_by_verdict(rules)
        self._relations = Relations(
            rules.edge_index.between,
            self._state.lifecycle.correlator.jobs_of,
            rules.topology,
            self._state.liveness.trained,
        )
        self._detectors = Detectors(rules, self._state.detectors)

    @property
    def counts(self) -> Counts:
        """The counts of the input so far."""
        correlator = self._state.lifecycle.correlator
        return msgspec.structs.replace(
            self._state.counts,
            alone=correlator.alone,
            duplicate=correlator.duplicate,
            evicted=self._detectors.evicted,
        )

    @property
    def watermark_ns(self) -> int:
        """Everything before this time has been processed."""
        return self._state.watermark_ns

    @property
    def open_ids(self) -> frozenset[str]:
        """The ids of all incidents that are open or pending."""
        return frozenset(self._state.lifecycle.correlator.open)

    def ranked(self, incident_id: str) -> list[Candidate]:
        """The signals of an open or recently resolved incident, the likeliest cause first; else none."""
        return self._changes.ranked(incident_id)

    def weighed(self, incident_id: str) -> tuple[list[Candidate], frozenset[str]]:
        """Its distinct answers to what the cause is, the likeliest first, and what makes them doubtful."""
        return self._changes.weighed(incident_id)

    def jobs_of(self, match: Match) -> set[str]:
        """The jobs that a match affects, as far as placement is known by now."""
        correlator = self._state.lifecycle.correlator
        return correlator.jobs_of(completed(signal_of(self._rules, match), correlator.placement, pod_of(match)))

    def verdicts(self) -> list[Verdict]:
        """The newest verdicts on missing logs, whether they made incidents or not."""
        return list(self._state.liveness.verdicts)

    def skews_ns(self) -> dict[str, int]:
        """How far the clock of each node (`cluster/node`) is ahead of its jobs' other nodes, in ns, where known."""
        return self._state.skew.skews_ns()

    def snapshot(self) -> bytes:
        """The state as bytes; `Engine(rules, snapshot)` continues from it."""
        return msgspec.msgpack.encode(
            msgspec.structs.replace(self._state, waiting=self._waiting.stored(), added=self._waiting.added)
        )

    def add(
        self,
        matches: Iterable[Match],
        heartbeats: Iterable[Heartbeat] = (),
        rank_placements: Iterable[RankPlacement] = (),
        latest_ns_by_match: Mapping[str, int] = MappingProxyType({}),
        step_bundles: Iterable[StepBundle] = (),
    ) -> None:
        """Add matches, heartbeats, alone or in bundles, and rank placements, in any order.

        Matches with a latest time state none themselves; those that may be much later wait for the end of the input.
        """
        for match in matches:
            if self._undated.hold(match, latest_ns_by_match.get(match.match_id, 0)):
                continue
            self._state.counts.late += match.event.event_time_ns <= self._state.watermark_ns
            self._waiting.add(match_order(match), match)
        for heartbeat in heartbeats:
            self._waiting.add(heartbeat_order(heartbeat), heartbeat)
        for bundle in step_bundles:
            self._waiting.add(bundle_order(bundle), bundle)
        for rank_placement in rank_placements:
            self._waiting.add(placement_order(rank_placement), rank_placement)

    def advance(self, watermark_ns: int) -> list[Incident]:
        """Process everything up to the watermark, end included; return the incidents that changed, as of then.

        It goes no further than before the first match whose time the rest of the input may change.
        """
        self._process_until(watermark_ns)
        return self._reports()

    def _reports(self) -> list[Incident]:
        of_untimed, self._of_untimed = self._of_untimed, []
        return of_untimed + self._changes.reports()

    def _process_until(self, watermark_ns: int) -> None:
        self._date(watermark_ns)
        watermark_ns = min(watermark_ns, self._undated.first_ns - 1)
        for due in self._waiting.pop_until(watermark_ns):
            if due is None or (self._quiet and due[0][0] > self._quiet_until_ns):
                self._settle_before((min(watermark_ns, self._quiet_until_ns) + 1,))
                if due:
                    self._waiting.put_back(due)
            elif not self._is_quiet(due):
                self._settle_before(due[0])
                self._fire_before(due[0][0])
                self._process(self._without_rest(due))
        self._fire_before(watermark_ns + 1)
        self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)

    def _is_quiet(self, due: Waiting) -> bool:
        """Whether the input was added to the quiet heartbeats. No timer fires between those."""
        kind, due_ns = type(due[-1]), due[0][0]
        if not (kind is StepBundle or kind is Step or kind is Alive):
            return False
        if is_first := not self._quiet:
            self._fire_before(due_ns)
            self._quiet_until_ns = min((timers[0][0] for timers in self._timers if timers), default=END_NS)
        is_quiet = self._has_times and self._quiet.add(due)
        if is_first and is_quiet:
            self._record_progress()
        return is_quiet

    def _settle_before(self, order: tuple[Any, ...]) -> None:
        if self._quiet:
            for rest in self._quiet.settle(order):
                self._waiting.put_back(rest)

    def _without_rest(self, due: Waiting) -> WaitingInput:
        """The input; of a bundle the first step, and the others are put back."""
        order, number, arrived = due
        if type(arrived) is not StepBundle:
            return order, number, arrived
        if len(arrived.ranks) > 1:
            rest = arrived.since(1)
            self._waiting.put_back((bundle_order(rest), number, rest))
        return order, number, arrived.step_at(0)

    def _process(self, due: WaitingInput) -> None:
        due_ns, arrived = due[0][0], due[-1]
        if self._state.skew.ahead_ns and (ahead_ns := self._ahead_ns(arrived)):
            time_ns = time_of_ns(arrived) - ahead_ns
            if time_ns > due_ns:
                self._waiting.delay(due, time_ns)
                return
            arrived = corrected(arrived, ahead_ns)
        if type(arrived) is Match:
            self._on_match(arrived, found_ns=self._state.watermark_ns if due_ns <= self._state.watermark_ns else 0)
        elif type(arrived) is RankPlacement:
            self._on_rank_placement(arrived)
        else:
            self._on_heartbeat(arrived)

    def _begin_times(self) -> None:
        """Lines without any time come first: they end here, as a file does, since no known time passes after them."""
        self._has_times = True
        self._mark_changed(self._state.lifecycle.end_untimed(self._relations))
        self._of_untimed = self._changes.reports()

    def flush(self) -> list[Incident]:
        """The input has ended: process everything that waits, and return the incidents that changed."""
        changed = self.settle()
        self._mark_changed(self._state.lifecycle.release_all(self._relations))
        return changed + self._changes.reports()

    def settle(self) -> list[Incident]:
        """Process everything that waits, without waiting for late input; return the incidents that changed."""
        self.end_input()
        self._process_until(self._state.watermark_ns)
        while (newest_ns := self._waiting.newest_ns()) > self._state.watermark_ns:
            self._process_until(newest_ns)
        return self._reports()

    def end_input(self) -> None:
        """Nothing more will be added: give times to the matches that waited for this."""
        self._date(END_NS)

    def _date(self, read_until_ns: int) -> None:
        """Add the matches without a time whose time is certain by now."""
        newest_ns_by_job = cache(self._waiting.newest_ns_by_job)

        def ended_ns(match: Match) -> int:
            signal = signal_of(self._rules, match)
            return newest_ns_by_job().get((signal.cluster, signal.job), 0) if signal.job and is_an_end(signal) else 0

        self.add(self._undated.release(self._waiting_signals, read_until_ns, ended_ns))

    def _waiting_signals(self) -> list[Signal]:
        return [signal_of(self._rules, match) for match in filter(self._is_known, self._waiting.matches())]

    def _is_known(self, match: Match) -> bool:
        return match.rule in self._rules.by_id

    def windowed(self) -> list[Signal]:
        """The newest 10,000 signals that windows made since the last call, in incidents or not."""
        made = list(self._windowed)
        self._windowed.clear()
        return made

    def joined(self) -> list[Joined]:
        """The signals that joined incidents since the last call; empty unless `lists_joined`."""
        joined, self._joined = self._joined, []
        return joined

    def gaps(self) -> list[Gap]:
        """The evidence gaps since the last call, of verdicts and of logs; if there were very many, the newest."""
        verdicts = self._state.liveness.verdicts
        new = list(takewhile(lambda verdict: verdict is not self._newest_verdict, reversed(verdicts)))
        self._newest_verdict = next(reversed(verdicts), None)
        unread, self._unread = self._unread, []
        return [*unread, *(gap for verdict in reversed(new) if (gap := gap_of(verdict)))]

    def record_unread(self, gap: Gap, is_closed: bool = False) -> None:
        """Record a gap in a log that can't be read; `is_closed`: its lines were read later."""
        gap = self._with_host(gap)
        self._unread.append(gap)
        self._state.liveness.record_unread(gap, is_closed)
        correlator = self._state.lifecycle.correlator
        affected = [incident for incident in correlator.open.values() if is_about(gap, incident, correlator.placement)]
        self._mark_changed(affected)

    def job_states(self) -> list[JobState]:
        """The newest state of each job that was checked or changed since the last call."""
        return self._state.liveness.take_states()

    def _ahead_ns(self, arrived: Input) -> int:
        """By how much the clock that gave the input its time is to be corrected."""
        cluster, node = place_of(arrived)
        return self._state.skew.ahead_ns.get(f"{cluster}/{self._names.get((cluster, node), node)}", 0)

    def _fire_before(self, end_ns: int) -> None:
        """Fire timers due before then, in order of time; at the same time first liveness, then windows."""
        if not self._has_times and is_known(end_ns):
            self._begin_times()
        liveness, lifecycle = self._state.liveness, self._state.lifecycle
        while due := [timers[0][0] for timers in self._timers if timers and timers[0][0] < end_ns]:
            due_ns = min(due)
            if liveness.next_due_ns == due_ns:
                self._on_verdicts(liveness.wake())
            elif self._detectors.next_due_ns == due_ns:
                self._on_windowed(self._detectors.fire(due_ns))
            else:
                self._mark_changed(lifecycle.fire(self._attempt_of, liveness.next_expected_ns, self._relations))

        if (hour := end_ns // HOUR_NS) > self._state.swept_hour:
            self._state.swept_hour = hour
            self._forget_old(hour * HOUR_NS)

    def _forget_old(self, now_ns: int) -> None:
        """Forget what changes no result any more."""
        ended = frozenset(self._state.lifecycle.correlator.forget_old(now_ns))
        self._state.skew.forget(ended)
        self._detectors.forget_old(now_ns, ended)

    def _on_match(self, match: Match, found_ns: int) -> None:
        """`found_ns` is the watermark if the match came late, else 0."""
        if not self._is_known(match):
            self._state.counts.unknown += 1
            return
        correlator, liveness = self._state.lifecycle.correlator, self._state.liveness
        placement = correlator.placement
        of_line = self._with_host(without_suggestion(signal_of(self._rules, match)))
        signal = completed(of_line, placement, pod_of(match))
        signal = self._with_peer(signal if signal.node == of_line.node else self._with_host(signal))
        if serves_the_cluster(signal):
            signal = foreign(signal)
        elif may_be_foreign(signal) and placement.by_job:
            signal = with_owner(signal, correlator.jobs_of, placement.pids_of, placement.ranks_on, liveness.has_logged)
        if is_unnamed(signal) and not self._state.unnamed.admits(signal):
            return
        if signal.role in QUIET_ROLES:
            self._on_quiet(signal, self._rules.of(match).spec)
            return
        if signal.rule in KILLED_TASKS and liveness.was_cancelled(signal.cluster, signal.job):
            signal = msgspec.structs.replace(signal, role="teardown")
        if signal.role in ("teardown", "finished") or signal.failure_class in ENDS:
            origin = (signal.cluster, signal.job, signal.node)
            self._on_verdicts(liveness.end(*origin, end_of(signal), signal.event_time_ns))
            placement.end(signal.cluster, signal.job, signal.event_time_ns)
        self._place(signal, match.event.source)
        if signal.role == "root" and signal.severity in ERRORS and not is_soft(signal):
            liveness.record_root_cause(signal.cluster, correlator.jobs_of(signal), signal.event_time_ns)
        if self._rules.edge_index.between(signal.failure_class, STRAGGLER):
            liveness.record_slowdown(signal.cluster, correlator.jobs_of(signal), signal.event_time_ns)
        self._on_signal(signal, found_ns)
        if signal.failure_class in ENDS and end_of(signal) is JobEnd.FAILED:
            self._state.unnamed.record_stop(signal.cluster, signal.job, signal.event_time_ns)

    def _on_quiet(self, signal: Signal, spec: RuleSpec) -> None:
        """A line that reports no failure: facts to compare, a boot, the end of a failure."""
        correlator = self._state.lifecycle.correlator
        if spec.compared:
            correlator.placement.facts.record(signal, spec.compared)
        if signal.rule == POD_STOPPED_RULE:
            who = signal.event_time_ns, signal.cluster, signal.job, signal.node
            self._state.liveness.process(PhaseBegan(*who, phase=EXIT, source=signal.source))
        if signal.rule == POD_ASSIGNED_RULE:
            self._on_assigned_pod(signal)
        if signal.rule == HANDLED_RULE:
            correlator.forgive(signal)
        if signal.rule == UNKNOWN_FAILURE_RULE:
            correlator.placement.facts.record_failure(signal)
        if signal.rule == SHELL_RULE and signal.job:
            self._state.liveness.record_shell(signal)
        if is_boot(signal):
            self._on_verdicts(self._state.liveness.boot(signal, correlator.jobs_of(signal)))
        self._mark_changed(self._state.lifecycle.clear(signal, spec.clears, self._attempt_of))
        self._detect(signal)

    def _on_signal(self, signal: Signal, found_ns: int = 0) -> None:
        correlator = self._state.lifecycle.correlator
        if signal.job and is_a_stop(signal) and not correlator.has_class(signal):
            self._place_broken_node(signal)
        elif not signal.job and breaks_a_node(signal) and not correlator.jobs_of(signal):
            self._place_in_stopped_job(signal)
        self._correlate(signal, found_ns)
        self._detect(signal)

    def _detect(self, signal: Signal) -> None:
        if made := self._detectors.on_signal(signal):
            self._on_windowed(made)

    def _on_windowed(self, signals: Iterable[Signal]) -> None:
        for signal in signals:
            self._windowed.append(signal)
            if signal.role not in QUIET_ROLES:
                self._correlate(completed(signal, self._state.lifecycle.correlator.placement))

    def _on_placement(self, cluster: str, node: str, job: str, time_ns: int) -> None:
        self._list_assigned_nodes(cluster, job, time_ns)
        if changed := self._state.lifecycle.correlator.on_placement(cluster, node, job, time_ns):
            self._mark_changed(changed)

    def _list_assigned_nodes(self, cluster: str, job: str, time_ns: int) -> None:
        """A job has its first line: it has nodes where Kubernetes put its pods, also if they never log."""
        placement = self._state.lifecycle.correlator.placement
        if job and f"{cluster}/{job}" not in placement.by_job:
            for node in placement.pods.nodes_assigned_to(cluster, job):
                self._list_node(RankPlacement(time_ns, cluster, job, node, is_listed=True))

    def _on_assigned_pod(self, signal: Signal) -> None:
        """Record the pod's node, which is one of its job's if the job has logged."""
        placement, pod = self._state.lifecycle.correlator.placement, signal.fields[POD_FIELD]
        placement.pods.assign(signal.cluster, pod, signal.node)
        if job := placement.job_named_in(signal.cluster, pod):
            self._list_node(RankPlacement(signal.event_time_ns, signal.cluster, job, signal.node, is_listed=True))

    def _place(self, signal: Signal, source: str) -> None:
        """The job runs on the signal's node, or can't start there; one that Slurm only names may not have logged."""
        if not (signal.job and signal.node) or signal.is_foreign or signal.failure_class in DELAYS:
            return
        if is_named_by_slurm(signal):
            named = RankPlacement(signal.event_time_ns, signal.cluster, signal.job, signal.node, is_listed=True)
            self._mark_changed(self._state.lifecycle.correlator.on_listed_node(named))
        elif source not in CONTROLLERS:
            self._on_placement(signal.cluster, signal.node, signal.job, signal.event_time_ns)

    def _place_broken_node(self, stop: Signal) -> None:
        """A job stops: the node without known jobs that broke at that moment is the one that it lacks."""
        if not self._state.liveness.may_lack_a_node(stop.cluster, stop.job):
            return
        if broken := broken_node_without_job(self._state.lifecycle.correlator, stop):
            self._on_placement(stop.cluster, broken.node, stop.job, broken.event_time_ns)

    def _place_in_stopped_job(self, broken: Signal) -> None:
        """A node without known jobs breaks: it is the one that the only job lacks which stopped at that moment."""
        correlator, liveness = self._state.lifecycle.correlator, self._state.liveness
        jobs = jobs_that_stopped(correlator, broken, liveness.may_lack_a_node)
        if (job := next(jobs, "")) and all(other == job for other in jobs):
            self._on_placement(broken.cluster, broken.node, job, broken.onset_ns)

    def _correlate(self, signal: Signal, found_ns: int = 0) -> None:
        self._state.counts.signals += 1
        reports_within = self._state.liveness.reports_within_ns
        self._mark_changed(self._state.lifecycle.on_signal(signal, self._relations, reports_within, found_ns))
        joined = self._state.lifecycle.correlator.joined
        if unnamed := [of for of in joined if of.signal.failure_class == UNNAMED]:
            self._record_unusual(unnamed[0].incident_id, {of.signal.fields.get(TEMPLATE_FIELD, "") for of in unnamed})
        if self._lists_joined:
            self._joined += joined
        joined.clear()

    def _mark_changed(self, changed: Collection[IncidentState]) -> None:
        self._changes.mark(changed)
        for incident in changed:
            if incident.hurts and not incident.pending_until_ns:
                self._state.unnamed.record_incident(incident.cluster, incident.opened_ns)

    def _record_unusual(self, incident_id: str, messages: Collection[str]) -> None:
        """Lines of these messages joined the incident: record how unusual they are by now, of those that it keeps."""
        if not (incident := self._state.lifecycle.correlator.open.get(incident_id)):
            return
        known, found = incident.unusual, dict[str, Unusual]()
        for signal in incident.signals_by_class.get(UNNAMED, ()):
            is_new = signal.fields.get(TEMPLATE_FIELD) in messages
            unusual = self._unusual(signal, incident.last_seen_ns) if is_new else known.get(signal.signal_id)
            if unusual:
                found[signal.signal_id] = unusual
        incident.unusual = found

    def _unusual(self, signal: Signal, time_ns: int) -> Unusual | None:
        placement, of_job = self._state.lifecycle.correlator.placement, (signal.cluster, signal.job, time_ns)
        nodes = {*placement.nodes_of(*of_job), *placement.listed_nodes(*of_job)} if signal.job else ()
        return self._state.unnamed.unusual(signal, len(nodes), placement.world_size(*of_job))

    def _with_host(self, of: Named) -> Named:
        """With the first name of its node, looked up once: a name never changes. An address may yet have one."""
        name = self._names.get((of.cluster, of.node))
        if name is None:
            if len(self._names) > MAX_KEPT_NAMES:
                self._names.clear()
            name = self._state.host_names.name_of(of.cluster, of.node)
            if name != of.node or not is_address(name):
                self._names[of.cluster, of.node] = name
        return of if name == of.node else msgspec.structs.replace(of, node=name)

    def _with_peer(self, signal: Signal) -> Signal:
        """With the node of the peer that it lost, if its address is known only by the node's name."""
        fields = signal.fields
        if PEER_FIELD not in fields or PEER_NODE_FIELD in fields:
            return signal
        node = self._state.host_names.node_at(signal.cluster, fields[PEER_FIELD].partition(":")[0])
        return msgspec.structs.replace(signal, fields=signal.fields | {PEER_NODE_FIELD: node}) if node else signal

    def _with_node(self, rank_placement: RankPlacement) -> RankPlacement:
        """With the node that a banner means by its host, which may be a pod or an address."""
        placement = self._state.lifecycle.correlator.placement
        node = placement.node_called(rank_placement.cluster, rank_placement.node)
        return self._with_host(msgspec.structs.replace(rank_placement, node=node))

    def _on_rank_placement(self, rank_placement: RankPlacement) -> None:
        rank_placement = self._with_node(rank_placement)
        if rank_placement.moment:
            job, node = (f"{rank_placement.cluster}/{name}" for name in (rank_placement.job, rank_placement.node))
            self._state.skew.record_banner(job, rank_placement.moment, node, rank_placement.time_ns)
            return
        if rank_placement.is_listed and rank_placement.job:
            self._list_node(rank_placement)
            return
        self._list_assigned_nodes(rank_placement.cluster, rank_placement.job, rank_placement.time_ns)
        self._state.lifecycle.correlator.placement.record(rank_placement)
        if rank_placement.node and not rank_placement.address:
            self._on_placement(rank_placement.cluster, rank_placement.node, rank_placement.job, rank_placement.time_ns)

    def _list_node(self, listed: RankPlacement) -> None:
        self._mark_changed(self._state.lifecycle.correlator.on_listed_node(listed))
        self._state.liveness.list_node(listed)

    def _on_heartbeat(self, heartbeat: Heartbeat) -> None:
        heartbeat = self._with_host(heartbeat)
        self._record_progress()
        if heartbeat.source not in CONTROLLERS:
            self._on_placement(heartbeat.cluster, heartbeat.node, heartbeat.job, heartbeat.event_time_ns)
        if heartbeat.source == "worker":
            self._state.lifecycle.correlator.placement.record_log(heartbeat.cluster, heartbeat.job)
        if type(heartbeat) is Step or type(heartbeat) is Advanced:
            self._on_progress(heartbeat)
        else:
            self._state.liveness.process(heartbeat)

    def _on_progress(self, heartbeat: Step | Advanced) -> None:
        liveness = self._state.liveness
        if type(heartbeat) is Step and heartbeat.job and heartbeat.node:
            job, node = f"{heartbeat.cluster}/{heartbeat.job}", f"{heartbeat.cluster}/{heartbeat.node}"
            self._state.skew.record_step(job, node, heartbeat.step, heartbeat.event_time_ns)
            if heartbeat.rank is not None:
                placement = self._state.lifecycle.correlator.placement
                placement.record_reporter(heartbeat.cluster, heartbeat.job, heartbeat.rank, heartbeat.node)
        before = liveness.progress(heartbeat.cluster, heartbeat.job, heartbeat.node)
        step, step_ns = (before.written_last_step, before.last_step_ns) if before else (None, 0)
        effect = liveness.process(heartbeat)
        self._on_verdicts(effect.verdicts)
        if not effect.is_further:
            return
        self._detect(step_signal(heartbeat, None if effect.is_new_attempt else step, step_ns))
        is_recovering = liveness.is_recovering(heartbeat.cluster, heartbeat.job, heartbeat.node)
        on_step = self._state.lifecycle.on_step
        self._mark_changed(on_step(heartbeat, effect.is_new_attempt, is_recovering, self._attempt_of))

    def _on_verdicts(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            if rule := self._rule_by_verdict.get(verdict.verdict):
                placement = self._state.lifecycle.correlator.placement
                self._on_signal(completed(liveness_signal(rule, verdict), placement))
                if verdict.verdict != STRAGGLER:
                    self._state.unnamed.record_stop(verdict.cluster, verdict.job, verdict.onset_ns)
