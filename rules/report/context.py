"""What placement and silence know of an incident and its jobs, as it was when the incident last changed."""

from __future__ import annotations

from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.cost import JobLoss
from epicenter.rules.correlate.state import AtOnset, IncidentState
from epicenter.rules.liveness.state import node_key
from epicenter.rules.liveness.streams import BUCKET_NS, NodeStreams
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.placement.placement import Placement


def note_onset(incident: IncidentState, placement: Placement, silence: LivenessWatch) -> None:
    """Note how far the jobs are that the incident has just taken in."""
    if incident.jobs <= incident.at_onset.keys():
        return
    for job in sorted(incident.jobs - incident.at_onset.keys()):
        progress = silence.progress(incident.cluster, job)
        gpus = placement.world_size(incident.cluster, job, incident.last_seen_ns)
        incident.at_onset[job] = AtOnset.of(progress, gpus)


def context_of(incident: IncidentState, placement: Placement, silence: LivenessWatch) -> IncidentContext:
    """What was known by the time of an incident's newest signal, however much was heard since: so it stays the same."""
    cluster, then_ns = incident.cluster, incident.last_seen_ns
    sizes = {job: placement.world_size(cluster, job, then_ns) for job in sorted(incident.jobs)}
    rank_placements = {job: placement.seats_of(cluster, job, then_ns) for job in sorted(incident.jobs)}
    streams = {node: silence.streams.get(node_key(cluster, node)) for node in sorted(incident.nodes)}
    return IncidentContext(
        world_size_by_job={job: size for job, size in sizes.items() if size},
        heard_ranks_by_job={job: set(of_job) for job, of_job in rank_placements.items() if of_job},
        node_of_rank={
            (job, rank): node for job, of_job in rank_placements.items() for rank, node in of_job.items() if node
        },
        nodes_by_job={job: placement.nodes_of(cluster, job, then_ns) for job in sorted(incident.jobs)},
        loss_by_job={job: _loss(one, incident) for job, one in sorted(incident.at_onset.items())},
        kernel_nodes=incident.kernel_nodes | {node for node, one in streams.items() if _hears_kernel(one, then_ns)},
        cut_nodes={node for node, one in streams.items() if one and 0 < one.first_cut_ns <= then_ns},
    )


def _hears_kernel(streams: NodeStreams | None, then_ns: int) -> bool:
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
