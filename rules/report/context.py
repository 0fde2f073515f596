"""What is known about an incident and its jobs from placement and liveness, as of its newest signal."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import structs

from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.cost import JobLoss
from epicenter.rules.correlate.state import AtOnset, IncidentState
from epicenter.rules.event_time.skew import ClockSkew
from epicenter.rules.liveness.gaps import is_open
from epicenter.rules.liveness.mute import mute_nodes
from epicenter.rules.liveness.progress import JobProgress
from epicenter.rules.liveness.retention import HOUR_NS
from epicenter.rules.liveness.state import job_key, node_key
from epicenter.rules.liveness.streams import BUCKET_NS, NodeStreams
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.ledger import Gap
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.placement.facts import MIN_NODES
from epicenter.rules.placement.placement import Placement
from epicenter.rules.report.culprit import AWAITING_RULES


def record_onset(incident: IncidentState, placement: Placement, liveness: LivenessWatch, skew: ClockSkew) -> None:
    """Record the progress of jobs that are new to the incident."""
    for job in sorted(incident.jobs - incident.at_onset.keys()):
        progress = liveness.progress(incident.cluster, job)
        gpus = placement.world_size(incident.cluster, job, incident.last_seen_ns)
        watch = liveness.jobs.get(job_key(incident.cluster, job, ""))
        nodes = placement.nodes_of(incident.cluster, job, incident.last_seen_ns)
        outliers = placement.facts.outliers(incident.cluster, job, nodes)
        if watch and watch.progress.last_step_ns:
            outliers = (*outliers, *_only_failed_node(incident.cluster, watch.progress, nodes, placement, liveness))
        at_onset = structs.replace(AtOnset.of(progress, gpus), outliers=outliers)
        if watch:
            mute = tuple(sorted(mute_nodes(watch, liveness.streams)))
            at_onset = structs.replace(at_onset, mute_nodes=mute, node_count=watch.node_count)
        incident.at_onset[job] = at_onset
        incident.skews_ns |= {
            name.removeprefix(f"{incident.cluster}/"): skew_ns
            for name, skew_ns in skew.skews_of_job_ns(f"{incident.cluster}/{job}").items()
        }


def _only_failed_node(
    cluster: str, progress: JobProgress, nodes: Collection[str], placement: Placement, liveness: LivenessWatch
) -> Iterator[Outlier]:
    """The only node of a job, or without a known job if it may lack one, whose drivers report a failure as it stops."""
    stop_ns = progress.last_step_ns
    lines = placement.facts.failures_at(cluster, stop_ns, progress.pace_ns or 0)
    if not lines:
        return
    may_lack_one = liveness.may_lack_a_node(cluster, progress.job)
    of_no_other = {
        node for node in lines if may_lack_one and placement.jobs_on(cluster, node, stop_ns) <= {progress.job}
    }
    of_job = sorted(lines.keys() & (of_no_other | set(nodes)))
    others = liveness.kernels_heard(cluster) - 1
    if len(of_job) == 1 and others + 1 >= MIN_NODES:
        yield Outlier(of_job[0], "the kernel's line", lines[of_job[0]], "none like it", others)


def context_of(incident: IncidentState, placement: Placement, liveness: LivenessWatch) -> IncidentContext:
    """What was known at the time of an incident's newest signal: later lines don't change it."""
    cluster, then_ns = incident.cluster, incident.last_seen_ns
    sizes = {job: placement.world_size(cluster, job, then_ns) for job in sorted(incident.jobs)}
    rank_placements = {job: placement.nodes_by_rank(cluster, job, then_ns) for job in sorted(incident.jobs)}
    streams = {node: liveness.streams.get(node_key(cluster, node)) for node in sorted(incident.nodes)}
    heard = {job: set(placement.nodes_of(cluster, job, then_ns)) for job in sorted(incident.jobs)}
    arrived = {job: set(placement.nodes_of(cluster, job, _awaited_until_ns(incident))) for job in sorted(incident.jobs)}
    reporters = {job: placement.nodes_by_reporter(cluster, job) for job in sorted(incident.jobs)}
    listed = {job: placement.listed_nodes(cluster, job, then_ns) for job in sorted(incident.jobs)}
    return IncidentContext(
        world_size_by_job={job: size for job, size in sizes.items() if size},
        seen_ranks_by_job={job: set(of_job) for job, of_job in rank_placements.items() if of_job},
        node_of_rank={
            (job, rank): node
            for job, of_job in rank_placements.items()
            for rank, node in (reporters[job] | of_job).items()
            if node
        },
        speaking_ranks_by_job={job: placement.speaking_ranks(cluster, job, then_ns) for job in sorted(incident.jobs)},
        nodes_by_job={job: nodes | listed[job] for job, nodes in heard.items()},
        mute_nodes_by_job={job: at_onset.mute_nodes for job, at_onset in incident.at_onset.items()},
        unheard_nodes_by_job={job: listed[job] - nodes for job, nodes in arrived.items()},
        outliers_by_job={job: at_onset.outliers for job, at_onset in incident.at_onset.items()},
        node_count_by_job={job: at_onset.node_count for job, at_onset in incident.at_onset.items()},
        loss_by_job={job: _loss(at_onset, incident) for job, at_onset in sorted(incident.at_onset.items())},
        kernel_nodes=incident.kernel_nodes
        | {node for node, of_node in streams.items() if _has_kernel(of_node, then_ns)},
        established_jobs=_established(incident, placement, liveness),
        heard_jobs={job for job in incident.jobs if job_key(cluster, job, "") in liveness.jobs},
        cut_nodes={node for node, of_node in streams.items() if of_node and 0 < of_node.first_cut_ns <= then_ns},
        unread=[gap for gap in liveness.unread.values() if is_about(gap, incident, placement)],
    )


def is_about(gap: Gap, incident: IncidentState, placement: Placement) -> bool:
    """Whether the log that can't be read is one of its nodes or jobs, or has lines of it."""
    is_over = not is_open(gap) and gap.ends_ns < incident.opened_ns - HOUR_NS
    if gap.cluster != incident.cluster or is_over:
        return False
    if gap.node in incident.nodes or gap.job in incident.jobs:
        return True
    jobs = sorted(incident.jobs) if gap.node else ()
    if any(gap.node in placement.nodes_of(incident.cluster, job, incident.last_seen_ns) for job in jobs):
        return True
    return any(signal.position.source == gap.source for signal in incident.signals() if signal.position)


def _awaited_until_ns(incident: IncidentState) -> int:
    """When the first node gave up waiting for others: one that logs only later, as it is ended, had not come."""
    gave_up = (signal.event_time_ns for signal in incident.signals() if signal.rule in AWAITING_RULES)
    return min(gave_up, default=incident.last_seen_ns)


def _has_several_jobs(incident: IncidentState, placement: Placement, liveness: LivenessWatch) -> bool:
    """Whether jobs are known by name, so that an error is of one of them or of no job."""
    of_nodes = (liveness.jobs.get(job_key(incident.cluster, "", node)) for node in incident.nodes)
    trains_unnamed = not incident.jobs and any(watch.is_established for watch in of_nodes if watch)
    named = (job for watch in liveness.jobs.values() if is_named_job(job := watch.progress.job))
    first = next(named, "")
    return not trains_unnamed and (len(placement.by_job) > 1 or any(job != first for job in named))


def _established(incident: IncidentState, placement: Placement, liveness: LivenessWatch) -> set[str] | None:
    """The jobs that have shown to be more than single programs; None where each is one: only one job is known."""
    watches = {job: liveness.jobs.get(job_key(incident.cluster, job, "")) for job in incident.jobs}
    are_shells = bool(watches) and all(watch and watch.has_shell for watch in watches.values())
    if not (are_shells or _has_several_jobs(incident, placement, liveness)):
        return None
    return {job for job, watch in watches.items() if watch and watch.is_established}


def _has_kernel(streams: NodeStreams | None, then_ns: int) -> bool:
    return streams is not None and streams.kernel.count > 0 and (streams.kernel.first + 1) * BUCKET_NS <= then_ns


def _loss(job: AtOnset, incident: IncidentState) -> JobLoss:
    return JobLoss(
        last_step=job.last_step,
        last_step_ns=job.last_step_ns,
        until_ns=incident.resolved_ns or incident.last_seen_ns,
        step_time_s=job.pace_ns / NS_PER_S if job.pace_ns else None,
        gpus=job.gpus,
        checkpoint_step=job.saved_step,
    )
