"""Heartbeats in, verdicts out: watches every job's steps and every node's streams, with time as an input."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec

from epicenter.rules.liveness import verdict as told
from epicenter.rules.liveness.progress import PHASE_NS, JobProgress
from epicenter.rules.liveness.state import JobWatch, job_key, new_watch, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.liveness.verdict import STRENGTH, Finding, all_silent, find, laggard, not_started
from epicenter.rules.model.heartbeats import (
    CHECKPOINT,
    Advanced,
    Alive,
    CheckpointSaved,
    Heartbeat,
    LineCut,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)
from epicenter.rules.model.times import NS_PER_S

START_UP_NS: Final = 900 * NS_PER_S
QUIET_START_NS: Final = 300 * NS_PER_S
LOOK_NS: Final = 60 * NS_PER_S
LOOK_AGAIN_NS: Final = 30 * NS_PER_S
HOUR_NS: Final = 3600 * NS_PER_S
NOT_HEARD_NS: Final = HOUR_NS
"""A job without a step for so long is looked at no more, until it steps again."""

FORGET_HOURS: Final = 24
"""A job or node not heard of for so long in event time is forgotten; looked after once an hour."""

FORGET_ENDED_HOURS: Final = 2
"""The same for a job that has ended: silence means nothing any more."""

MAX_KEPT_VERDICTS: Final = 1_000


class Verdict(msgspec.Struct, frozen=True):
    """What a silence means. `onset_ns` is the last sign of progress, `time_ns` when it was declared."""

    verdict: str
    cluster: str
    job: str
    node: str
    rank: int | None
    time_ns: int
    onset_ns: int
    text: str
    fields: dict[str, str] = {}


class Taken(NamedTuple):
    """What a heartbeat did: whether its job got further by it, as a new attempt or not, and what is clear at once."""

    is_further: bool
    is_new_attempt: bool
    verdicts: list[Verdict]


class LivenessWatch(msgspec.Struct):
    """All jobs and nodes that were heard of in the last 24 hours of event time, and the newest verdicts.

    Heartbeats come in event-time order. A verdict comes from `wake`, at the time that it was due.
    """

    jobs: dict[str, JobWatch] = {}
    streams: dict[str, NodeStreams] = {}
    timers: list[tuple[int, str, str]] = []
    verdicts: list[Verdict] = []
    swept_hour: int = 0

    @property
    def next_due_ns(self) -> int | None:
        """When `wake` wants to be called next."""
        return self.timers[0][0] if self.timers else None

    def progress(self, cluster: str, job: str, node: str = "") -> JobProgress | None:
        """How far a job has come; None when it has told no step."""
        watch = self.jobs.get(job_key(cluster, job, node))
        is_known = watch is not None and watch.progress.last_step >= 0 and not watch.progress.is_counted
        return watch.progress if watch and is_known else None

    def take(self, heartbeat: Heartbeat) -> Taken:
        """Note a heartbeat."""
        self._sweep(heartbeat.event_time_ns)
        if heartbeat.node:
            self._hear_node(heartbeat)
        if not heartbeat.job and type(heartbeat) is not Step:
            return Taken(False, False, [])
        key = job_key(heartbeat.cluster, heartbeat.job, heartbeat.node)
        watch = self.jobs.get(key)
        if watch is None:
            watch = self.jobs[key] = new_watch(heartbeat)
        watch.hear(heartbeat)
        attempt = watch.progress.attempt
        if not self._gets_further(key, watch, heartbeat):
            return Taken(False, False, [])
        return Taken(True, watch.progress.attempt != attempt, self._step(key, watch, heartbeat.event_time_ns))

    def record_trouble(self, cluster: str, jobs: Iterable[str], time_ns: int) -> None:
        """A line told a cause of failures that concerns these jobs."""
        for key in sorted(job_key(cluster, job, "") for job in jobs):
            if watch := self.jobs.get(key):
                watch.progress.trouble_ns = max(time_ns, watch.progress.trouble_ns)
                if (watch.progress.stall_due_ns or 0) > time_ns and watch.verdict != told.SHIPPER_SILENT:
                    self._await_step(key, watch)

    def is_recovering(self, cluster: str, job: str, node: str = "") -> bool:
        """Whether a further step of the job speaks for its recovery: not while one rank holds it back."""
        watch = self.jobs.get(job_key(cluster, job, node))
        return watch is None or not watch.is_straggling

    def end(self, cluster: str, job: str, node: str, is_finished: bool, time_ns: int) -> list[Verdict]:
        """The job has ended by its own or its scheduler's words: silence after it means nothing. Looks a last time.

        A job that was ended by others after half of the longest wait without a step had hung; after less, only what is
        clear by itself is told.
        """
        key = job_key(cluster, job, node)
        watch = self.jobs.get(key)
        if watch is None or watch.progress.has_ended:
            return []
        seen = [] if is_finished and not watch.progress.is_stalled else self._look_last(watch, time_ns)
        watch.progress.end(is_finished)
        name = told.FINISHED if is_finished else told.CANCELLED
        self._note(watch, Finding(name, text=f"the last step was {watch.progress.last_step}"), time_ns)
        return seen

    def wake(self) -> list[Verdict]:
        """What the first timer makes clear, at its time."""
        due_ns, kind, key = heappop(self.timers)
        watch = self.jobs.get(key)
        if watch is None:
            return []
        if kind == "step":
            return self._on_step_timer(key, watch, due_ns)
        return self._on_look_timer(key, watch, due_ns) if kind == "look" else self._on_start_timer(watch, due_ns)

    def _gets_further(self, key: str, watch: JobWatch, heartbeat: Heartbeat) -> bool:
        """Note what it tells of the job; true when the job got further by it."""
        if type(heartbeat) is Step:
            return watch.step(heartbeat)
        if type(heartbeat) is Advanced:
            return watch.progress.count(heartbeat.event_time_ns)
        if type(heartbeat) is WorldSize or type(heartbeat) is NodeCount:
            self._place(key, watch, heartbeat)
        elif type(heartbeat) is PhaseBegan:
            watch.progress.begin_phase(heartbeat.phase, heartbeat.event_time_ns)
        elif type(heartbeat) is CheckpointSaved:
            watch.progress.begin_phase(CHECKPOINT, heartbeat.event_time_ns)
            watch.progress.saved_step = heartbeat.step
        return False

    def _hear_node(self, heartbeat: Heartbeat) -> None:
        if type(heartbeat) is Alive:
            is_of_host = heartbeat.source == "worker" and not heartbeat.job
            source = "kernel" if is_of_host else heartbeat.source
            self._streams_of(heartbeat).note(source, heartbeat.event_time_ns)
        elif type(heartbeat) is LineCut:
            self._streams_of(heartbeat).record_cut(heartbeat.event_time_ns)

    def _streams_of(self, heartbeat: Heartbeat) -> NodeStreams:
        return self.streams.setdefault(node_key(heartbeat.cluster, heartbeat.node), NodeStreams())

    def _place(self, key: str, watch: JobWatch, heartbeat: WorldSize | NodeCount) -> None:
        if not watch.world_size and not watch.node_count:
            heappush(self.timers, (heartbeat.event_time_ns + START_UP_NS, "start", key))
        watch.place(heartbeat)
        watch.progress.has_finished = False

    def _step(self, key: str, watch: JobWatch, time_ns: int) -> list[Verdict]:
        watch.verdict = ""
        self._await_step(key, watch)
        if not watch.look_timer_ns:
            self._look_at(key, watch, time_ns + LOOK_NS)
        was_straggling, is_slow = watch.is_straggling, watch.progress.is_slow
        watch.is_straggling = is_slow or bool(watch.suspect and was_straggling)
        if watch.is_straggling and not was_straggling:
            return [
                self._note(
                    watch, Finding(told.STRAGGLER, text=_slow(watch), onset_ns=watch.progress.slow_since_ns), time_ns
                )
            ]
        return []

    def _await_step(self, key: str, watch: JobWatch) -> None:
        due_ns = watch.progress.stall_due_ns
        if due_ns is not None and (not watch.step_timer_ns or due_ns < watch.step_timer_ns):
            watch.step_timer_ns = due_ns
            heappush(self.timers, (due_ns, "step", key))

    def _look_at(self, key: str, watch: JobWatch, time_ns: int) -> None:
        watch.look_timer_ns = time_ns
        heappush(self.timers, (time_ns, "look", key))

    def _on_step_timer(self, key: str, watch: JobWatch, now_ns: int) -> list[Verdict]:
        if watch.step_timer_ns != now_ns:
            return []
        watch.step_timer_ns = 0
        due_ns = watch.progress.stall_due_ns
        if due_ns is None:
            return []
        if due_ns > now_ns:
            self._await_step(key, watch)
            return []
        if all_silent(watch, self.streams, watch.progress.cluster, now_ns):
            return self._wait_for_shipper(key, watch, now_ns)
        watch.progress.is_stalled = True
        self._look_at(key, watch, now_ns + LOOK_AGAIN_NS)
        return [self._declare(watch, find(watch, self.streams, now_ns), now_ns)]

    def _wait_for_shipper(self, key: str, watch: JobWatch, now_ns: int) -> list[Verdict]:
        if now_ns - watch.progress.last_step_ns < NOT_HEARD_NS:
            watch.step_timer_ns = now_ns + LOOK_AGAIN_NS
            heappush(self.timers, (watch.step_timer_ns, "step", key))
        if watch.verdict == told.SHIPPER_SILENT:
            return []
        text = f"{watch.progress.sentence()}; nothing at all is heard of the cluster since then"
        return [self._declare(watch, Finding(told.SHIPPER_SILENT, text=text), now_ns)]

    def _on_look_timer(self, key: str, watch: JobWatch, now_ns: int) -> list[Verdict]:
        if watch.look_timer_ns != now_ns:
            return []
        watch.look_timer_ns = 0
        if watch.progress.has_ended or now_ns - watch.progress.last_step_ns > NOT_HEARD_NS:
            return []
        is_stalled = watch.progress.is_stalled
        self._look_at(key, watch, now_ns + (LOOK_AGAIN_NS if is_stalled else LOOK_NS))
        if not is_stalled:
            return self._look_for_laggard(watch, now_ns) + self._look_for_lost(watch, now_ns)
        return self._look(watch, now_ns)

    def _look(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        """A stronger verdict than the one that holds, if by now one can be given."""
        finding = find(watch, self.streams, now_ns)
        if STRENGTH[finding.verdict] > STRENGTH.get(watch.verdict, 0):
            return [self._declare(watch, finding, now_ns)]
        return []

    def _look_last(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        progress = watch.progress
        silent_ns = now_ns - progress.last_step_ns
        if not progress.is_stalled:
            if not progress.is_trusted or silent_ns < progress.late_ns():
                return []
            finding = find(watch, self.streams, now_ns)
            if finding.verdict == told.HUNG and silent_ns < PHASE_NS // 2:
                return []
        return self._look(watch, now_ns)

    def _look_for_laggard(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        suspect, before = laggard(watch, now_ns), watch.suspect
        step_before, step = watch.suspect_step, watch.members[suspect].step if suspect else -1
        lag_before, lag = watch.suspect_lag, watch.progress.last_step - step
        watch.suspect, watch.suspect_step, watch.suspect_lag = suspect, step, lag
        watch.is_straggling = watch.progress.is_slow or bool(suspect and watch.is_straggling)
        falls_back = suspect == before and step > step_before and lag > lag_before
        if not suspect or not falls_back or watch.is_straggling:
            return []
        watch.is_straggling = True
        member = watch.members[suspect]
        who = f"rank {member.rank} on {member.node}" if member.rank is not None else member.node
        text = f"{who} is at step {member.step} and goes on, the others are at step {watch.progress.last_step}"
        return [self._note(watch, Finding(told.STRAGGLER, member.node, member.rank, text, member.abreast_ns), now_ns)]

    def _look_for_lost(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        """Nodes of which nothing comes any more while the job, which needs them all, gets further."""
        found: list[Verdict] = []
        due_ns = watch.progress.stall_due_ns
        if due_ns is None or due_ns <= now_ns:
            return found
        for node in sorted(watch.nodes):
            one = self.streams.get(node_key(watch.progress.cluster, node))
            if one is None or not one.is_lost(now_ns, len(watch.nodes)):
                watch.lost_nodes.discard(node)
            elif node not in watch.lost_nodes and one.last_ns(now_ns) < watch.progress.last_step_ns:
                watch.lost_nodes.add(node)
                text = f"nothing comes from {node}, while the job got to step {watch.progress.last_step}"
                found.append(self._note(watch, Finding(told.SHIPPER_SILENT, node, None, text), now_ns))
        return found

    def _on_start_timer(self, watch: JobWatch, now_ns: int) -> list[Verdict]:
        has_begun = watch.progress.last_step >= 0 or watch.progress.has_ended
        streams = [self.streams.get(node_key(watch.progress.cluster, node)) for node in watch.nodes]
        is_quiet = not any(one and one.worker.spoken(now_ns - QUIET_START_NS, now_ns) for one in streams)
        finding = not_started(watch) if is_quiet and not has_begun else None
        return [self._declare(watch, finding, now_ns)] if finding else []

    def _declare(self, watch: JobWatch, finding: Finding, now_ns: int) -> Verdict:
        watch.verdict = finding.verdict
        if finding.verdict == told.HUNG and watch.progress.is_buffered:
            self._note(watch, Finding(told.BUFFERED, text="steps come in bursts: the stop is seen late"), now_ns)
        return self._note(watch, finding, now_ns)

    def _note(self, watch: JobWatch, finding: Finding, now_ns: int) -> Verdict:
        progress = watch.progress
        noted = Verdict(
            verdict=finding.verdict,
            cluster=progress.cluster,
            job=progress.job,
            node=finding.node or progress.node,
            rank=finding.rank,
            time_ns=now_ns,
            onset_ns=finding.onset_ns or progress.last_step_ns or watch.placed_ns or watch.first_ns,
            text=finding.text,
            fields={"verdict": finding.verdict, "last_step": str(progress.last_step)},
        )
        self.verdicts = [*self.verdicts[1 - MAX_KEPT_VERDICTS :], noted]
        return noted

    def _sweep(self, time_ns: int) -> None:
        hour = time_ns // HOUR_NS
        if hour <= self.swept_hour:
            return
        self.swept_hour = hour
        for key in [key for key, one in self.jobs.items() if one.heard_ns // HOUR_NS < hour - _kept_hours(one)]:
            del self.jobs[key]
        for key in [key for key, one in self.streams.items() if one.heard_ns // HOUR_NS < hour - FORGET_HOURS]:
            del self.streams[key]


def _kept_hours(watch: JobWatch) -> int:
    return FORGET_ENDED_HOURS if watch.progress.has_ended else FORGET_HOURS


def _slow(watch: JobWatch) -> str:
    paces = sorted(watch.progress.paces_ns[:-10])
    before_s, now_s = paces[len(paces) // 2] / NS_PER_S, watch.progress.paces_ns[-1] / NS_PER_S
    return f"every step takes {now_s:.1f} s, before it took {before_s:.1f} s; one slow rank holds all"
