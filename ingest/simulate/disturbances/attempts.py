"""A job that starts again after it failed, on the same nodes, from its last checkpoint."""

from __future__ import annotations

from random import Random

import msgspec

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults import Case
from epicenter.ingest.simulate.jobs import live
from epicenter.ingest.simulate.model import Job
from epicenter.ingest.simulate.noise import emit_boot
from epicenter.rules.model.times import NS_PER_S

LASTS_S = 900.0
"""How much longer a run with a second attempt is watched."""


def restarted(cluster: Cluster, job: Job, case: Case, rng: Random) -> Process:
    """Wait for the job's end, restart the node at fault, and the job on all its nodes; other jobs there prevent it."""
    while not job.is_over:
        yield 5.0
    yield rng.uniform(40, 120)
    if any(not other.is_over for node in job.nodes for other in cluster.jobs_on(node)):
        return
    for node in job.nodes:
        if node.is_dead or node is case.node:
            node.is_dead, node.booted_ns = False, cluster.now_ns - 15 * NS_PER_S
            emit_boot(cluster, node)
    yield rng.uniform(20, 60)
    first_step = (job.first_step + job.steps_done) // job.checkpoint_every * job.checkpoint_every
    again = msgspec.structs.replace(
        job, is_over=False, is_stalled=False, is_cut=False, is_buffered=False, stop_at_step=None, slowness=1.0,
        steps_done=0, first_step=first_step, missing=frozenset(),
    )  # fmt: skip
    cluster.jobs = (*cluster.jobs, again)
    yield from live(cluster, again)
