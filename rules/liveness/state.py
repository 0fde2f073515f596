"""The state of each watched job: its ranks, nodes, progress, timers and current verdict."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.liveness.progress import MIN_SILENCE_NS, JobProgress, median
from epicenter.rules.model.heartbeats import (
    AFTER,
    CHECKPOINT,
    EVALUATION,
    EXIT,
    RUN_EXIT,
    SERVING,
    Heartbeat,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)
from epicenter.rules.model.ledger import JobEnd, JobPhase
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S

STALL_FLOOR_NS: Final = 900 * NS_PER_S
"""A job of unknown cadence may pause for this long: it compiles, restores or warms up."""

MAX_KEPT_TIMES: Final = 5
"""Of the newest steps of a rank, this many times of computation; their median leaves out a step that checkpoints."""

STEPS_TO_TRAIN: Final = 100
"""Bars without step numbers that advanced this often are those of training."""

LAST_STEPS_NS: Final = 30 * NS_PER_S
"""Steps this soon after the end were under way: the job has still ended."""

MAX_PLACES: Final = 200_000
_OF_WORK: Final = (SERVING, EVALUATION, CHECKPOINT)
_KEY_BREAK: Final = "\x1f"


class Member(msgspec.Struct, array_like=True):
    """One rank that reports steps; `rank` is None if its lines do not name it.

    `abreast_ns` is when it last reported the job's newest step: since then it may lag. `step` counts from the first of
    its `reports` on. `compute_ns` is how long it computed, without waits, for its newest steps, and `least_compute_ns`
    the least median of as many: both are empty where its lines don't say. `computed_step` is the newest of these steps.
    """

    node: str
    rank: int | None
    step: int = 0
    step_ns: int = 0
    reports: int = 0
    abreast_ns: int = 0
    compute_ns: list[int] = []
    least_compute_ns: int = 0
    computed_step: int = -1

    def compute(self, step: int, compute_ns: int) -> None:
        """Record how long it computed for a step; of several ranks of a node that no line names, the slowest counts."""
        if step == self.computed_step and self.compute_ns:
            self.compute_ns[-1] = max(compute_ns, self.compute_ns[-1])
        else:
            self.compute_ns = [*self.compute_ns[1 - MAX_KEPT_TIMES :], compute_ns]
            self.computed_step = step
        if len(self.compute_ns) == MAX_KEPT_TIMES:
            usual_ns = median(self.compute_ns)
            self.least_compute_ns = min(self.least_compute_ns or usual_ns, usual_ns)

    @property
    def usual_compute_ns(self) -> int:
        """How long it computes for a step now; 0 if too few of its lines say."""
        return median(self.compute_ns) if self.least_compute_ns else 0

    @property
    def slowdown(self) -> float:
        """How many times as long as at best it computes now; 0 if its lines don't say."""
        return self.usual_compute_ns / self.least_compute_ns if self.least_compute_ns else 0


class SlowSteps(msgspec.Struct, array_like=True):
    """Steps that took `usual_ns` until `since_ns` and are slow now; `is_reported`: as something that needs a person."""

    usual_ns: int
    since_ns: int
    is_reported: bool = False


class JobWatch(msgspec.Struct):
    """One job, or one node whose lines name no job.

    `nodes` have had lines of the job's workers. `attempt_ns` is the first step since it last went back to a checkpoint,
    `earlier_step_ns` the last step before that, `ended_ns` when a line last reported its end. `ranks_placed` are the
    ranks, of `world_size`, that printed a banner. `node_count` is on how many nodes it starts, `listed` are their
    names, where a list has them. `verdict` is the current one. `suspect` is the rank that lagged at the last check, at
    `suspect_step`, `suspect_lag` steps behind, and has fallen further behind at `suspect_falls` checks in a row: a rank
    with a slow clock lags too, but does not. `named_node` and `named_rank` are those of the newest verdict,
    `verdict_text` its evidence. `shown_phase` is that of the newest `JobState`. `run_exit_ns` is when a line last
    reported the end of the run. `works`: it has answered, evaluated or saved. `has_logged`: its workers have.
    `lags`: a rank was found to fall behind. `has_shell`: a person works in it.
    """

    progress: JobProgress
    members: dict[str, Member] = {}
    nodes: set[str] = set()
    world_size: int = 0
    node_count: int = 0
    listed: set[str] = set()
    ranks_placed: set[int] = set()
    first_ns: int = 0
    attempt_ns: int = 0
    earlier_step_ns: int = 0
    ended_ns: int = 0
    last_seen_ns: int = msgspec.field(default=0, name="heard_ns")
    placed_ns: int = 0
    step_timer_ns: int = 0
    check_timer_ns: int = msgspec.field(default=0, name="look_timer_ns")
    verdict: str = ""
    slow: SlowSteps | None = None
    lags: bool = msgspec.field(default=False, name="is_straggling")
    suspect: str = ""
    suspect_lag: int = 0
    suspect_step: int = 0
    suspect_falls: int = 0
    lost_nodes: set[str] = set()
    named_node: str = ""
    named_rank: int | None = None
    verdict_text: str = ""
    end: JobEnd = JobEnd.UNKNOWN
    shown_phase: JobPhase | None = None
    exit_ns_by_node: dict[str, int] = {}
    run_exit_ns: int = 0
    works: bool = False
    has_logged: bool = False
    has_shell: bool = False

    @property
    def is_straggling(self) -> bool:
        """Whether its steps have become slow, or a rank falls behind."""
        return self.lags or self.slow is not None

    @property
    def last_report_ns(self) -> int:
        """When a rank last reported a step that was new to it: the newest step, or a rank whose clock is behind it."""
        return max((member.step_ns for member in self.members.values()), default=0) or self.progress.last_step_ns

    @property
    def is_established(self) -> bool:
        """Whether it has shown to be a job: it trains, evaluates or serves, or has several ranks or nodes.

        Snapshots of older versions have no `works`, but the newest phase.
        """
        progress = self.progress
        has_numbers = progress.last_step is not None and not progress.is_counted
        trains = has_numbers or progress.seen_steps >= STEPS_TO_TRAIN
        places = max(len(self.nodes), len(self.listed), self.node_count, self.world_size, len(self.members))
        return trains or self.works or progress.phase.removeprefix(AFTER) in _OF_WORK or places > 1

    def observe(self, heartbeat: Heartbeat) -> None:
        """Record that the job is alive on a node."""
        self.first_ns = self.first_ns or heartbeat.event_time_ns
        self.last_seen_ns = max(self.last_seen_ns, heartbeat.event_time_ns)
        self.has_logged |= heartbeat.source == "worker"
        if heartbeat.node and heartbeat.source == "worker" and len(self.nodes) < MAX_PLACES:
            self.nodes.add(heartbeat.node)

    def begin_phase(self, heartbeat: PhaseBegan) -> None:
        """Record that a phase begins or ends, or that a process exits."""
        self.works |= heartbeat.phase in _OF_WORK
        if heartbeat.phase == EXIT:
            if heartbeat.node in self.exit_ns_by_node or len(self.exit_ns_by_node) < MAX_PLACES:
                self.exit_ns_by_node[heartbeat.node] = heartbeat.event_time_ns
        elif heartbeat.phase == RUN_EXIT:
            self.run_exit_ns = heartbeat.event_time_ns
        else:
            self.progress.begin_phase(heartbeat.phase, heartbeat.event_time_ns)

    @property
    def has_exited(self) -> bool:
        """Whether the run, or a process of each node that reports steps, exited after the last step without a cause."""
        exits, last_step_ns = self.exit_ns_by_node, self.progress.last_step_ns
        nodes = {member.node for member in self.members.values()} - {""} or self.nodes
        have_all = bool(exits) and all(exits.get(node, 0) >= last_step_ns for node in nodes)
        return (have_all or self.run_exit_ns >= last_step_ns) and not self.progress.is_after_root_cause

    @property
    def may_only_pause_until_ns(self) -> int:
        """Until when silence alone does not show that the job hangs; without step numbers, other lines show life."""
        progress = self.progress
        is_idle = progress.is_counted and not progress.is_after_root_cause
        return max(progress.may_only_pause_until_ns, self.last_seen_ns + MIN_SILENCE_NS if is_idle else 0)

    def place(self, heartbeat: WorldSize | NodeCount) -> None:
        """Record a banner's number of ranks or nodes; the largest group is the job."""
        if type(heartbeat) is WorldSize:
            self._place_rank(heartbeat)
        else:
            self.node_count = max(self.node_count, heartbeat.nodes)
            self.placed_ns = self.placed_ns or heartbeat.event_time_ns

    def list_node(self, listed: RankPlacement) -> None:
        """Record a node that a list of the job's hosts names."""
        self.first_ns = self.first_ns or listed.time_ns
        self.last_seen_ns = max(self.last_seen_ns, listed.time_ns)
        self.placed_ns = self.placed_ns or listed.time_ns
        if len(self.listed) < MAX_PLACES:
            self.listed.add(listed.node)

    def _place_rank(self, heartbeat: WorldSize) -> None:
        if heartbeat.world_size > self.world_size:
            self.world_size, self.ranks_placed = heartbeat.world_size, set()
        is_of_all = heartbeat.world_size == self.world_size
        if is_of_all and heartbeat.rank is not None and len(self.ranks_placed) < MAX_PLACES:
            self.ranks_placed.add(heartbeat.rank)
            self.placed_ns = self.placed_ns or heartbeat.event_time_ns

    def step(self, heartbeat: Step) -> bool:
        """Record a step; true if the job advanced."""
        step, attempt, last_step_ns = heartbeat.step, self.progress.attempt, self.progress.last_step_ns
        key = member_key(heartbeat.node, heartbeat.rank)
        member = self.members.get(key)
        is_catching_up = member is not None and (step > member.step or heartbeat.event_time_ns == member.step_ns)
        has_just_ended = self.progress.has_ended and heartbeat.event_time_ns <= self.ended_ns + LAST_STEPS_NS
        is_finished = self.progress.has_finished
        is_further = self.progress.step(step, heartbeat.event_time_ns, is_catching_up)
        if has_just_ended:
            self.progress.end(is_finished)
        if self.progress.attempt != attempt:
            self.members.clear()
            self.attempt_ns, self.earlier_step_ns = heartbeat.event_time_ns, last_step_ns
            member = None
        if member is None:
            member = Member(heartbeat.node, heartbeat.rank)
            if len(self.members) < MAX_PLACES:
                self.members[key] = member
        if step > member.step or not member.reports:
            member.step, member.step_ns, member.reports = step, heartbeat.event_time_ns, member.reports + 1
            if step >= self.progress.written_last_step:
                member.abreast_ns = heartbeat.event_time_ns
        if heartbeat.compute_ns and step == member.step:
            member.compute(step, heartbeat.compute_ns)
        return is_further


def job_key(cluster: str, job: str, node: str) -> str:
    """The key of a job, or of the node whose lines name no job."""
    of_kind = f"job{_KEY_BREAK}{job}" if job else f"node{_KEY_BREAK}{node}"
    return f"{cluster}{_KEY_BREAK}{of_kind}"


def member_key(node: str, rank: int | None) -> str:
    """The key of a rank of a job."""
    return f"{node}{_KEY_BREAK}{rank}"


def node_key(cluster: str, node: str) -> str:
    """The key of a node."""
    return f"{cluster}{_KEY_BREAK}{node}"


def new_watch(of: Heartbeat | RankPlacement | Signal) -> JobWatch:
    """The state of a new job."""
    return JobWatch(JobProgress(STALL_FLOOR_NS, of.cluster, of.job, "" if of.job else of.node))
