"""Heartbeats in, verdicts out: watches every job's steps and every node's streams, with time as an input."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop
from typing import Final, NamedTuple

import msgspec

from epicenter.rules.liveness import slowness
from epicenter.rules.liveness.checks import (
    falling_behind,
    lost_nodes,
    slow_computation,
    slow_from_the_start,
    slow_steps,
)
from epicenter.rules.liveness.declared import Declared
from epicenter.rules.liveness.job_state import ADVANCING, CANCELLATIONS
from epicenter.rules.liveness.progress import PHASE_NS, JobProgress
from epicenter.rules.liveness.reboots import rebooted
from epicenter.rules.liveness.retention import HOUR_NS, forget_jobs, forget_streams
from epicenter.rules.liveness.roll_call import roll_call
from epicenter.rules.liveness.state import JobWatch, job_key, new_watch, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.liveness.timers import (
    CHECK,
    CHECK_AGAIN_NS,
    CHECK_EVERY_NS,
    START_UP_NS,
    STEP,
    Timers,
    await_step,
    set_check_timer,
    set_start_timer,
    set_step_timer,
)
from epicenter.rules.liveness.verdict import (
    CANCELLED,
    FAILED,
    FINISHED,
    HUNG,
    SHIPPER_SILENT,
    STRENGTH,
    Finding,
    Verdict,
    find,
    not_started,
    shipper_silent,
)
from epicenter.rules.model.heartbeats import (
    Advanced,
    Alive,
    CheckpointSaved,
    Heartbeat,
    LastStep,
    LineCut,
    MayAdvance,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)
from epicenter.rules.model.ledger import JobEnd
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.model.training_span import NOT_TRAINED, TrainingSpan

STILL_WRITES_NS: Final = 30 * NS_PER_S
"""A job that wrote a line within this time is alive."""

INACTIVE_NS: Final = 3600 * NS_PER_S
"""A job without a step for this long is not checked again until its next step."""


class HeartbeatEffect(NamedTuple):
    """What a heartbeat changed: whether its job advanced, whether in a new attempt, and immediate verdicts."""

    is_further: bool
    is_new_attempt: bool
    verdicts: list[Verdict]


class LivenessWatch(Declared):
    """The jobs and nodes with heartbeats in the last 24 hours of event time, and what was declared of them.

    Heartbeats come in event-time order. `wake` returns verdicts at the time that they were due.
    """

    jobs: dict[str, JobWatch] = msgspec.field(default_factory=dict)
    streams: dict[str, NodeStreams] = msgspec.field(default_factory=dict)
    timers: Timers = msgspec.field(default_factory=list)
    swept_hour: int = 0

    @property
    def next_due_ns(self) -> int | None:
        """When `wake` has to be called next; None without a timer."""
        return self.timers[0][0] if self.timers else None

    def progress(self, cluster: str, job: str, node: str = "") -> JobProgress | None:
        """The progress of a job; None if no line numbered its steps."""
        watch = self.jobs.get(job_key(cluster, job, node))
        if watch is None or watch.progress.written_last_step < 0 or watch.progress.is_counted:
            return None
        return watch.progress

    def reports_within_ns(self, cluster: str, job: str, reports: int) -> int:
        """How long a job takes for so many more reports of its progress, with one pause; 0 if it is unknown."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        return reports * watch.progress.reports_every_ns + watch.progress.longest_gap_ns if watch else 0

    def next_expected_ns(self, cluster: str, job: str) -> int:
        """Until when a job may make no step: as usual, as a line announced, as it starts, or as it still writes."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        if watch is None or watch.progress.has_ended or watch.progress.is_stalled:
            return 0
        writes_within_ns = STILL_WRITES_NS if watch.progress.last_step_ns else START_UP_NS
        return max(watch.progress.next_expected_ns, watch.last_seen_ns + writes_within_ns)

    def kernels_heard(self, cluster: str) -> int:
        """Of how many nodes of a cluster the kernel has logged."""
        of_cluster = (streams for key, streams in self.streams.items() if key.startswith(node_key(cluster, "")))
        return sum(streams.kernel.count > 0 for streams in of_cluster)

    def may_lack_a_node(self, cluster: str, job: str) -> bool:
        """Whether the job may run on more nodes than those that logged, by its number of nodes or of ranks."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        if watch is None:
            return False
        call = roll_call(watch)
        if call.expected:
            return call.missing > 0
        return not watch.world_size or len(watch.ranks_placed) < watch.world_size

    def trained(self, cluster: str, job: str) -> TrainingSpan:
        """When a job trained in its newest attempt."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        if watch is None:
            return NOT_TRAINED
        return TrainingSpan(watch.attempt_ns, watch.progress.before_ns, watch.earlier_step_ns)

    def process(self, heartbeat: Heartbeat) -> HeartbeatEffect:
        """Process a heartbeat."""
        self._sweep(heartbeat.event_time_ns)
        if heartbeat.node:
            self._observe_node(heartbeat)
        if not heartbeat.job and type(heartbeat) is not Step:
            return HeartbeatEffect(False, False, [])
        key = job_key(heartbeat.cluster, heartbeat.job, heartbeat.node)
        watch = self.jobs.get(key)
        if watch is None:
            watch = self.jobs[key] = new_watch(heartbeat)
        watch.observe(heartbeat)
        if watch.shown_phase is None:
            self.show(key, watch, heartbeat.event_time_ns)
        attempt = watch.progress.attempt
        if not self._advances(key, watch, heartbeat):
            return HeartbeatEffect(False, False, [])
        is_new_attempt = watch.progress.attempt != attempt
        verdicts = self._on_step(key, watch, heartbeat.event_time_ns)
        if is_new_attempt or watch.shown_phase not in ADVANCING:
            self.show(key, watch, heartbeat.event_time_ns)
        return HeartbeatEffect(True, is_new_attempt, verdicts)

    def list_node(self, listed: RankPlacement) -> None:
        """Record a node that a list of a job's hosts names: it should log."""
        key = job_key(listed.cluster, listed.job, "")
        watch = self.jobs.get(key)
        if watch is None:
            watch = self.jobs[key] = new_watch(listed)
        if not (watch.listed or watch.world_size or watch.node_count):
            set_start_timer(self.timers, key, listed.time_ns)
        watch.list_node(listed)

    def record_shell(self, found: Signal) -> None:
        """A person works at a shell in a job."""
        key = job_key(found.cluster, found.job, "")
        watch = self.jobs.setdefault(key, new_watch(found))
        watch.has_shell = True
        watch.last_seen_ns = max(found.event_time_ns, watch.last_seen_ns)

    def record_root_cause(self, cluster: str, jobs: Iterable[str], time_ns: int) -> None:
        """A line reported a root cause that concerns these jobs: their next pause is not an ordinary one."""
        for key in sorted(job_key(cluster, job, "") for job in jobs):
            if watch := self.jobs.get(key):
                watch.progress.root_cause_ns = max(time_ns, watch.progress.root_cause_ns)
                if (watch.progress.stall_due_ns or 0) > time_ns and watch.verdict != SHIPPER_SILENT:
                    await_step(self.timers, key, watch)

    def record_slowdown(self, cluster: str, jobs: Iterable[str], time_ns: int) -> None:
        """A line reported what slows down steps of these jobs."""
        for key in (job_key(cluster, job, "") for job in jobs):
            if watch := self.jobs.get(key):
                slowness.explain(watch.progress, time_ns)

    def is_recovering(self, cluster: str, job: str, node: str = "") -> bool:
        """Whether a further step of the job counts as recovery: not while a straggler holds it back."""
        watch = self.jobs.get(job_key(cluster, job, node))
        return watch is None or not watch.is_straggling

    def has_logged(self, cluster: str, job: str) -> bool:
        """Whether workers of the job have logged."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        return watch is not None and (watch.has_logged or bool(watch.nodes))

    def was_cancelled(self, cluster: str, job: str) -> bool:
        """Whether the scheduler has ended the job or its step: from then on it kills the tasks that still run."""
        watch = self.jobs.get(job_key(cluster, job, ""))
        return watch is not None and watch.progress.has_ended and watch.end in CANCELLATIONS

    def end(self, cluster: str, job: str, node: str, end: JobEnd, time_ns: int) -> list[Verdict]:
        """The job or its scheduler reported its end: from now on missing logs mean nothing. Returns the last verdicts.

        If it was cancelled after at least half of `PHASE_NS` without a step, or a line of a phase such as a checkpoint,
        it had hung. After less, only a stronger verdict than `hung` counts.
        """
        key = job_key(cluster, job, node)
        watch, is_finished = self.jobs.get(key), end is JobEnd.COMPLETED
        if watch is None:
            return []
        if watch.progress.has_ended:
            self.correct_end(key, watch, end, time_ns)
            return []
        seen = [] if is_finished and not watch.progress.is_stalled else self._final_verdicts(watch, time_ns)
        watch.progress.end(is_finished)
        watch.end, watch.ended_ns = end, time_ns
        has_failed = end in (JobEnd.FAILED, JobEnd.TIME_LIMIT)
        name = FINISHED if is_finished else FAILED if has_failed else CANCELLED
        self.record(watch, Finding(name, text=watch.progress.last_step_in_words), time_ns)
        return seen

    def boot(self, boot: Signal, jobs: Iterable[str]) -> list[Verdict]:
        """A kernel starts on a node of these jobs: the verdict on the node, if it went down under one of them."""
        watches = [self.jobs.get(job_key(boot.cluster, job, "")) for job in sorted(jobs)]
        streams = self.streams.get(node_key(boot.cluster, boot.node))
        verdict = rebooted(boot, streams, filter(None, watches))
        return [self.keep(verdict)] if verdict else []

    def wake(self) -> list[Verdict]:
        """The verdicts of the first timer, at its time."""
        due_ns, kind, key = heappop(self.timers)
        watch = self.jobs.get(key)
        if watch is None:
            return []
        if kind == STEP:
            return self._on_step_timer(key, watch, due_ns)
        return self._on_check_timer(key, watch, due_ns) if kind == CHECK else self._on_start_timer(watch, due_ns)

    def _advances(self, key: str, watch: JobWatch, heartbeat: Heartbeat) -> bool:
        """Record the heartbeat; true if the job advanced."""
        if type(heartbeat) is Step:
            return watch.step(heartbeat)
        if type(heartbeat) is Advanced:
            return watch.progress.count(heartbeat.event_time_ns)
        if type(heartbeat) is WorldSize or type(heartbeat) is NodeCount:
            self._place(key, watch, heartbeat)
        elif type(heartbeat) is PhaseBegan:
            watch.begin_phase(heartbeat)
        elif type(heartbeat) is MayAdvance:
            watch.progress.may_advance(heartbeat.until_ns)
        elif type(heartbeat) is CheckpointSaved:
            watch.progress.save(heartbeat.step, heartbeat.event_time_ns)
        elif type(heartbeat) is LastStep:
            watch.progress.count_last(heartbeat.step)
        return False

    def _observe_node(self, heartbeat: Heartbeat) -> None:
        if type(heartbeat) is Alive:
            is_of_host = heartbeat.source == "worker" and not heartbeat.job
            source = "kernel" if is_of_host else heartbeat.source
            self._streams_of(heartbeat).record(source, heartbeat.event_time_ns)
        elif type(heartbeat) is LineCut:
            self._streams_of(heartbeat).record_cut(heartbeat.event_time_ns)

    def _streams_of(self, heartbeat: Heartbeat) -> NodeStreams:
        return self.streams.setdefault(node_key(heartbeat.cluster, heartbeat.node), NodeStreams())

    def _place(self, key: str, watch: JobWatch, heartbeat: WorldSize | NodeCount) -> None:
        if not (watch.listed or watch.world_size or watch.node_count):
            set_start_timer(self.timers, key, heartbeat.event_time_ns)
        watch.place(heartbeat)
        watch.progress.has_finished = False

    def _on_step(self, key: str, watch: JobWatch, time_ns: int) -> list[Verdict]:
        watch.verdict = ""
        await_step(self.timers, key, watch)
        if not watch.check_timer_ns:
            set_check_timer(self.timers, key, watch, time_ns + CHECK_EVERY_NS)
        finding = slow_steps(watch)
        return [self.record(watch, finding, time_ns)] if finding else []

    def _on_step_timer(self, key: str, watch: JobWatch, now_ns: int) -> list[Verdict]:
        if watch.step_timer_ns != now_ns:
            return []
        watch.step_timer_ns = 0
        due_ns = watch.progress.stall_due_ns
        if due_ns is None:
            return []
        if due_ns > now_ns:
            await_step(self.timers, key, watch)
            return []
        if finding := shipper_silent(watch, self.streams, now_ns):
            return self._wait_for_shipper(key, watch, finding, now_ns)
        finding = find(watch, self.streams, now_ns)
        if watch.has_exited:
            text = "processes exited wherever steps were reported, and no line reports a failure"
            return self._finish(watch, JobEnd.UNKNOWN, text, now_ns)
        if finding.verdict == HUNG and now_ns < (until_ns := watch.may_only_pause_until_ns):
            set_step_timer(self.timers, key, watch, min(now_ns + CHECK_AGAIN_NS, until_ns))
            return []
        if finding.verdict == HUNG and (why := watch.progress.completion):
            return self._finish(watch, JobEnd.COMPLETED, why, now_ns)
        watch.progress.is_stalled = True
        set_check_timer(self.timers, key, watch, now_ns + CHECK_AGAIN_NS)
        return [self.declare(watch, finding, now_ns)]

    def _finish(self, watch: JobWatch, end: JobEnd, text: str, now_ns: int) -> list[Verdict]:
        watch.end = end
        watch.progress.end(is_finished=True)
        return [self.record(watch, Finding(FINISHED, text=text), now_ns)]

    def _wait_for_shipper(self, key: str, watch: JobWatch, finding: Finding, now_ns: int) -> list[Verdict]:
        if now_ns - watch.progress.last_step_ns < INACTIVE_NS:
            set_step_timer(self.timers, key, watch, now_ns + CHECK_AGAIN_NS)
        return [] if watch.verdict == finding.verdict else [self.declare(watch, finding, now_ns)]

    def _on_check_timer(self, key: str, watch: JobWatch, now_ns: int) -> list[Verdict]:
        if watch.check_timer_ns != now_ns:
            return []
        watch.check_timer_ns = 0
        if watch.progress.has_ended or now_ns - watch.progress.last_step_ns > INACTIVE_NS:
            return []
        is_stalled = watch.progress.is_stalled
        set_check_timer(self.timers, key, watch, now_ns + (CHECK_AGAIN_NS if is_stalled else CHECK_EVERY_NS))
        if is_stalled:
            verdicts = self._stronger_verdict(watch, now_ns)
        else:
            slow_computation(watch, now_ns)
            stragglers = filter(None, (slow_from_the_start(watch), falling_behind(watch, now_ns)))
            findings = [*stragglers, *lost_nodes(watch, self.streams, now_ns)]
            verdicts = [self.record(watch, finding, now_ns) for finding in findings]
        self.show(key, watch, now_ns)
        return verdicts

    def _stronger_verdict(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        """A stronger verdict than the current one, if the evidence now allows one."""
        finding = find(watch, self.streams, now_ns)
        if STRENGTH[finding.verdict] > STRENGTH.get(watch.verdict, 0):
            return [self.declare(watch, finding, now_ns)]
        return []

    def _final_verdicts(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        progress = watch.progress
        silent_ns = now_ns - max(watch.last_report_ns, progress.phase_ns)
        if not progress.is_stalled:
            if not progress.is_trusted or silent_ns < progress.late_ns():
                return []
            finding = find(watch, self.streams, now_ns)
            if finding.verdict == HUNG and silent_ns < PHASE_NS // 2:
                return []
        return self._stronger_verdict(watch, now_ns)

    def _on_start_timer(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        has_begun = watch.progress.last_step is not None or watch.progress.has_ended
        finding = None if has_begun else not_started(watch, self.streams, now_ns)
        return [self.declare(watch, finding, now_ns)] if finding else []

    def _sweep(self, time_ns: int) -> None:
        hour = time_ns // HOUR_NS
        if hour > self.swept_hour:
            self.swept_hour = hour
            forget_streams(self.streams, hour)
            for key, watch in forget_jobs(self.jobs, hour):
                self.show_forgotten(key, watch, time_ns)
