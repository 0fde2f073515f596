"""The verdict on a stopped job: who stopped first, by the ranks' steps and by which nodes still log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from statistics import fmean
from typing import Final

import msgspec

from epicenter.rules.liveness.mute import REPORTS_TO_COUNT as REPORTS_TO_COUNT
from epicenter.rules.liveness.mute import mute_nodes
from epicenter.rules.liveness.progress import JobProgress
from epicenter.rules.liveness.roll_call import roll_call
from epicenter.rules.liveness.state import JobWatch, Member, node_key
from epicenter.rules.liveness.streams import BUCKET_NS, NodeStreams, chance_gaps
from epicenter.rules.model.signals import MAY_PASS_FIELD, Signal
from epicenter.rules.model.times import NS_PER_S

HUNG: Final = "hung"
STRAGGLER: Final = "straggler"
RANK_DEAD: Final = "rank-dead"
NODE_DEAD: Final = "node-dead"
NEVER_STARTED: Final = "never-started"
CUT_OFF: Final = "cut-off"
SHIPPER_SILENT: Final = "shipper-silent"
BUFFERED: Final = "buffered"
FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"

STRENGTH: Final = {HUNG: 1, STRAGGLER: 2, RANK_DEAD: 3, CUT_OFF: 4, NODE_DEAD: 5}
"""A later check replaces a verdict only by a stronger one."""

_TIMEOUT: Final = "nccl-timeout"

_VERDICT_OF_CLASS: Final = {
    "straggler": STRAGGLER,
    "unknown-death": RANK_DEAD,
    "sigkill": RANK_DEAD,
    "host-oom-kill": RANK_DEAD,
    "cgroup-oom-kill": RANK_DEAD,
    "ray-oom-kill": RANK_DEAD,
    "ray-worker-died": RANK_DEAD,
    "ray-actor-died": RANK_DEAD,
    "segfault": RANK_DEAD,
    "sigbus": RANK_DEAD,
    "slurm-preempted": CANCELLED,
    "k8s-preempted": CANCELLED,
    "slurm-cancelled": CANCELLED,
    "cancelled": CANCELLED,
    "heartbeat-timeout": RANK_DEAD,
    "node-fail": NODE_DEAD,
    "slurm-node-fail": NODE_DEAD,
    "k8s-node-notready": NODE_DEAD,
    "kernel-panic": NODE_DEAD,
    "rendezvous-timeout": NEVER_STARTED,
    "k8s-image-pull": NEVER_STARTED,
    "container-pull-fail": NEVER_STARTED,
    "slurm-time-limit": CANCELLED,
    "k8s-unschedulable": NEVER_STARTED,
    "log-truncated": CUT_OFF,
    "hang": HUNG,
    "hang-py-spy": HUNG,
    _TIMEOUT: HUNG,
}
"""The verdict that a root cause found in a line implies."""

_OUTCOMES: Final = ("kernel-panic", "sigbus", "segfault", "k8s-image-pull", "container-pull-fail")
"""Classes that tell how what their node's cause struck ended: a full disk keeps an image from being pulled."""

_OF_A_LAUNCH: Final = ("slurm.launch_failed_node",)
"""Rules of nodes that failed before the job ran there."""

QUIET_START_NS: Final = 300 * NS_PER_S
"""A job whose workers logged within this time is still starting."""

MAX_CUTS: Final = 3
"""If lines of a node are cut off in more seconds than this, that is its usual output and means nothing."""

LAG_STEPS: Final = 2
_SHORTLY_BEFORE_NS: Final = 60 * NS_PER_S


class Finding(msgspec.Struct, frozen=True):
    """A verdict with its node and rank, as far as they are known, and the evidence in words.

    `onset_ns` is when it began, 0 for the job's last step. `may_pass`: most jobs get over it.
    """

    verdict: str
    node: str = ""
    rank: int | None = None
    text: str = ""
    onset_ns: int = 0
    may_pass: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What missing logs mean. `onset_ns` is the last sign of progress, `time_ns` the time of the verdict.

    In `fields`, an unknown last step is -1; progress without step numbers has none.
    """

    verdict: str
    cluster: str
    job: str
    node: str
    rank: int | None
    time_ns: int
    onset_ns: int
    text: str
    fields: dict[str, str] = {}

    @classmethod
    def of(cls, watch: JobWatch, finding: Finding, now_ns: int) -> Verdict:
        """The verdict on a job now."""
        progress = watch.progress
        last_step = {} if progress.is_counted else {"last_step": str(progress.written_last_step)}
        may_pass = {MAY_PASS_FIELD: "yes"} if finding.may_pass else {}
        return cls(
            verdict=finding.verdict,
            cluster=progress.cluster,
            job=progress.job,
            node=finding.node or progress.node,
            rank=finding.rank,
            time_ns=now_ns,
            onset_ns=finding.onset_ns or progress.last_step_ns or watch.placed_ns or watch.first_ns,
            text=finding.text,
            fields={"verdict": finding.verdict, **last_step, **may_pass},
        )


def verdict_of(ranked: Sequence[Signal]) -> str:
    """The verdict of an incident with these signals, likeliest cause first; empty if no logs are missing.

    What happened on another node than the cause's is not the verdict. A line that names the cause outranks a mere hang.
    A cause that killed its process or its node on the way, or kept it from starting, counts as that. A job that a
    watchdog ended after its timeout had hung until then.
    """
    cause, silences = ranked[0], [signal for signal in ranked if signal.position is None and "verdict" in signal.fields]
    outcomes = filter(None, (_outcome_of(signal) for signal in ranked if signal.node == cause.node != ""))
    of_cause = NEVER_STARTED if cause.rule in _OF_A_LAUNCH else _VERDICT_OF_CLASS.get(cause.failure_class, "")
    named_by_line = max(outcomes, key=_strength, default="") or of_cause
    near = [signal.fields["verdict"] for signal in silences if not cause.node or signal.node in ("", cause.node)]
    has_waited = bool(silences) or any(signal.failure_class == _TIMEOUT for signal in ranked)
    best = max(near, key=_strength, default=HUNG if has_waited else "")
    return named_by_line if best in ("", HUNG) and named_by_line else best


def _strength(verdict: str) -> int:
    return STRENGTH.get(verdict, 0)


def _outcome_of(signal: Signal) -> str:
    """What died, or could not start, by a line of the cause's node; empty if nothing."""
    if signal.failure_class == "mce-uncorrected":
        return RANK_DEAD if "pid" in signal.fields else ""
    return _VERDICT_OF_CLASS[signal.failure_class] if signal.failure_class in _OUTCOMES else ""


def shipper_silent(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> Finding | None:
    """The verdict if the whole cluster has had no lines since the job's last step, and chance does not explain it.

    While a job hangs, kernels and the workers of nodes without this job still log. A single node has only its own
    files, so a hang there is a hang.
    """
    if not _is_cluster_silent(watch, streams, now_ns):
        return None
    return Finding(SHIPPER_SILENT, text=f"{_stopped(watch.progress)}; since then there are no logs from the cluster")


def _is_cluster_silent(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> bool:
    cluster, after_ns = watch.progress.cluster, watch.progress.last_step_ns
    of_cluster = {key: of_node for key, of_node in streams.items() if key.startswith(node_key(cluster, ""))}
    if len(of_cluster) < 2 or any(of_node.activity(after_ns, now_ns) for of_node in of_cluster.values()):
        return False
    job_nodes = {node_key(cluster, node) for node in watch.nodes}
    kernels = [of_node.kernel for of_node in of_cluster.values()]
    expected_streams = kernels + [of_node.worker for key, of_node in of_cluster.items() if key not in job_nodes]
    passed = now_ns // BUCKET_NS - -(-after_ns // BUCKET_NS)
    expected = sum(passed / cadence.mean_gap for of_node in expected_streams if (cadence := of_node.cadence(now_ns)))
    return expected >= chance_gaps(1)


def find(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> Finding:
    """The best explanation now for a stopped job."""
    mute = mute_nodes(watch, streams)
    active = _active_nodes(watch, streams, now_ns, mute)
    return (
        _silent_node(watch, active, now_ns)
        or _cut_line(watch.progress, active, now_ns)
        or _rank_behind(watch, mute, now_ns)
        or _silent_workers(watch, active, now_ns)
        or _hung(watch)
    )


def _silent_node(watch: JobWatch, active: Mapping[str, NodeStreams], now_ns: int) -> Finding | None:
    since = watch.last_report_ns + BUCKET_NS, now_ns
    silent = [node for node, of_node in active.items() if of_node.kernel.count and not of_node.activity(*since)]
    for node in sorted(silent) if _are_few(silent, active) else ():
        peers, usual = _peers(watch, node, active), _usual_of_kernel(active, node, *since)
        others = [
            min(usual, of_node.kernel.activity(*since)) + (of_node.worker.activity(*since) if other in peers else 0)
            for other, of_node in active.items()
            if other not in silent
        ]
        is_overdue = any(others) and active[node].kernel.is_overdue(now_ns, len(active))
        if is_overdue or fmean(others) >= chance_gaps(len(active)):
            text = f"{_stopped(watch.progress)}; since then neither the kernel nor a worker of {node} has logged"
            return Finding(NODE_DEAD, node, None, f"{text}, while {sum(map(bool, others))} other nodes still log")
    return None


def _usual_of_kernel(active: Mapping[str, NodeStreams], node: str, stop_ns: int, now_ns: int) -> float:
    """In how many buckets since the stop the node's kernel would have logged at most, at its rate before."""
    began_ns = BUCKET_NS * min(of_node.first_bucket for of_node in active.values())
    observed_ns = max(BUCKET_NS, stop_ns - began_ns)
    return (active[node].kernel.count + 1) * (now_ns - stop_ns) / observed_ns


def _silent_workers(watch: JobWatch, active: Mapping[str, NodeStreams], now_ns: int) -> Finding | None:
    since = watch.last_report_ns + BUCKET_NS, now_ns
    silent = [node for node, of_node in active.items() if of_node.worker.count and not of_node.worker.activity(*since)]
    for node in sorted(silent) if _are_few(silent, active) else ():
        others = [active[other].worker.activity(*since) for other in _peers(watch, node, active) if other not in silent]
        if others and fmean(others) >= chance_gaps(len(active)):
            kernel = (
                "its kernel still logs" if active[node].kernel.activity(*since) else "its kernel has no lines either"
            )
            text = f"{_stopped(watch.progress)}; since then no worker of {node} has logged, while those of others have"
            return Finding(RANK_DEAD, node, None, f"{text}; {kernel}")
    return None


def _peers(watch: JobWatch, node: str, active: Mapping[str, NodeStreams]) -> list[str]:
    """Nodes whose workers should log as often while the job is stopped: all of them report steps, or none does.

    A node that alone reports everyone's steps stops logging for that reason, so it has no peers.
    """
    reporters = {member.node for member in watch.members.values()}
    if reporters.issuperset(active):
        return list(active)
    return [] if node in reporters else [other for other in active if other not in reporters]


def _are_few(silent: Sequence[str], active: Mapping[str, NodeStreams]) -> bool:
    return 0 < len(silent) <= max(1, len(active) // 4) and len(silent) < len(active)


def _active_nodes(
    watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int, mute: Set[str]
) -> dict[str, NodeStreams]:
    """The nodes of the job's newest attempt: those with lines since it began, without the `mute`."""
    since_ns, nodes = watch.attempt_ns, watch.nodes.union(watch.listed) - mute
    of_job = {node: streams.get(node_key(watch.progress.cluster, node)) for node in nodes}
    return {node: of_node for node, of_node in of_job.items() if of_node and of_node.was_active(since_ns, now_ns)}


def _cut_line(progress: JobProgress, active: Mapping[str, NodeStreams], now_ns: int) -> Finding | None:
    for node, of_node in sorted(active.items()):
        is_last = not of_node.worker.activity(of_node.cut_ns + BUCKET_NS, now_ns)
        if of_node.cut_ns >= progress.last_step_ns - BUCKET_NS and of_node.cuts <= MAX_CUTS and is_last:
            text = f"{_stopped(progress)}; the last line of {node} is cut off, and no line follows it"
            return Finding(CUT_OFF, node, None, text)
    return None


def _rank_behind(watch: JobWatch, mute: Collection[str], now_ns: int) -> Finding | None:
    """One rank, or the ranks of one node, that had kept up and now lack the step that the others have.

    One that always reports later than the others has a fast clock.
    """
    members = [member for member in kept_up(watch) if member.node not in mute]
    behind = [member for member in members if member.step < watch.progress.written_last_step]
    if not behind or len({member.node for member in behind}) > 1 or 2 * len(behind) > len(members):
        return None
    lowest = min(behind, key=lambda member: (member.step, member.step_ns, -1 if member.rank is None else member.rank))
    ahead_ns = max(member.step_ns for member in members if member.step == watch.progress.last_step)
    rank = lowest.rank if len(behind) == 1 else None
    is_in_time = lowest.step_ns > min(ahead_ns, now_ns - watch.progress.late_ns())
    if is_in_time and lowest.abreast_ns < recent_since_ns(watch.progress):
        return None
    who = who_of(lowest.node, rank)
    others, last = len(members) - len(behind), watch.progress.last_step
    if lowest.step_ns > ahead_ns:
        text = f"{who} still advances at step {lowest.step}, while {others} others wait at step {last}"
        return Finding(STRAGGLER, lowest.node, rank, text)
    text = f"{who} has not logged since step {lowest.step}, while {others} others are at step {last}"
    return Finding(RANK_DEAD, lowest.node, rank, f"{_stopped(watch.progress)}; {text}")


def not_started(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> Finding | None:
    """Ranks, or otherwise nodes, that never started; None if more than half are missing, or if the job still logs.

    That only one node logs may be the job's way.
    """
    nodes = [streams.get(node_key(watch.progress.cluster, node)) for node in watch.nodes]
    if any(of_node and of_node.worker.activity(now_ns - QUIET_START_NS, now_ns) for of_node in nodes):
        return None
    missing = sorted(set(range(watch.world_size)) - watch.ranks_placed)
    if missing and len(missing) <= watch.world_size // 2:
        shown = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        text = f"no first step; {len(missing)} of {watch.world_size} ranks never started: {shown}"
        return Finding(NEVER_STARTED, rank=missing[0] if len(missing) == 1 else None, text=text)
    call = roll_call(watch)
    if 0 < call.missing <= call.expected // 2 and len(watch.nodes) > 1:
        return Finding(NEVER_STARTED, call.names[0] if len(call.names) == 1 else "", text=f"no first step; {call}")
    return None


def who_of(node: str, rank: int | None) -> str:
    """`rank 3 on node0001`, as far as both are known."""
    place = f" on {node}" if node else ""
    return f"rank {rank}{place}" if rank is not None else node or "a rank of an unknown node"


def kept_up(watch: JobWatch) -> list[Member]:
    """The ranks that reported several steps, one of them shortly before the job's last."""
    since_ns = recent_since_ns(watch.progress)
    return [
        member for member in watch.members.values() if member.reports >= REPORTS_TO_COUNT and member.step_ns >= since_ns
    ]


def recent_since_ns(progress: JobProgress) -> int:
    """From when on a step counts as shortly before the job's last."""
    return progress.last_step_ns - max(_SHORTLY_BEFORE_NS, 10 * (progress.pace_ns or 0))


def laggard(watch: JobWatch, now_ns: int) -> str:
    """The key of the one rank that still makes steps, but behind all others; empty if there is none."""
    found = [
        key
        for key, member in watch.members.items()
        if member.reports >= REPORTS_TO_COUNT and member.step <= watch.progress.written_last_step - LAG_STEPS
    ]
    if len(found) != 1 or len(watch.members) < 2:
        return ""
    pace_ns = watch.progress.pace_ns or 0
    is_advancing = watch.members[found[0]].step_ns > now_ns - max(_SHORTLY_BEFORE_NS, 10 * pace_ns)
    return found[0] if is_advancing else ""


def _hung(watch: JobWatch) -> Finding:
    members = kept_up(watch)
    step = watch.progress.last_step
    are_equal = len(members) > 1 and all(member.step == step for member in members)
    who = f"; all {len(members)} ranks that report steps are at step {step}" if are_equal else ""
    return Finding(HUNG, watch.progress.node, None, _stopped(watch.progress) + who)


def _stopped(progress: JobProgress) -> str:
    return progress.sentence()
