"""Faults that show as missing logs: silent processes and nodes, stalled jobs, and what only looks like it."""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate import endings, reactions
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults.case import TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.frameworks import printer_of


def _hang(cluster: Cluster, case: Case) -> Process:
    """All ranks stall at one step, alive; half an hour later a user cancels the job."""
    case.job.is_stalled = True
    yield 1800.0
    if not case.job.is_over:
        yield from endings.cancelled_by_user(cluster, case.job)


def _straggler(cluster: Cluster, case: Case) -> Process:
    """One node is slow from now on, and every step takes three times as long."""
    case.job.slowness = 3.0
    yield 0.0


def _rank_dies(cluster: Cluster, case: Case) -> Process:
    """A process is killed from outside, without a trace of why; its launcher sees signal 9."""
    yield from reactions.process_ends(cluster, case.job, case.rank, -9)


def _heartbeat(cluster: Cluster, case: Case) -> Process:
    """A JAX task dies without a log line; its node's kernel continues to log."""
    yield from reactions.process_ends(cluster, case.job, case.rank, -9)


def _watchdog(cluster: Cluster, case: Case) -> Process:
    """One rank stalls in its code for no logged reason; the others' watchdogs fire."""
    yield from reactions.peers_time_out(cluster, case.job, {case.rank})


def _shipper_silent(cluster: Cluster, case: Case) -> Process:
    """One node's shipper is dead: its logs stop, its jobs continue."""
    case.node.has_shipper = False
    yield 0.0


def _buffered(cluster: Cluster, case: Case) -> Process:
    """The job's output goes through a full buffer from here on: nothing for long, then much at once."""
    case.job.is_buffered = True
    yield 0.0


def _finished(cluster: Cluster, case: Case) -> Process:
    """The job is done with the step that it is at."""
    case.job.stop_at_step = case.job.steps_done + 1
    yield 0.0


def _cancelled(cluster: Cluster, case: Case) -> Process:
    """A user ends a healthy job."""
    yield from endings.cancelled_by_user(cluster, case.job)


def _cut_off(cluster: Cluster, case: Case) -> Process:
    """The job's log ends in the middle of a line, and nothing comes after."""
    job = case.job
    job.is_cut = True
    step = job.first_step + job.steps_done
    printer_of(job).saving(cluster, job, step)
    for place in range(len(job.nodes)):
        cluster.worker(job, place, [(cluster.now_ns + 1000, printer_of(job).noise(job, place, cluster.rng("cut")))])
    job.is_over = job.is_stalled = True
    yield 0.0


def _never_started(cluster: Cluster, case: Case) -> Process:
    """One node never joins: the others wait for it and give up after the rendezvous timeout."""
    yield from endings.rendezvous_failed(cluster, case.job, case.place)


def _never_joins(case: Case) -> None:
    case.job.missing = frozenset({case.place})


KINDS: Final = (
    FaultKind("hang", "hang", _hang, (), 1.0, "job", (), frameworks=("maxtext",), verdict="hung", lasts_s=2100),
    FaultKind("straggler", "straggler", _straggler, ("slow-gpu",), 0.0, "job", (), verdict="straggler", lasts_s=1500),
    FaultKind("rank-dies", "unknown-death", _rank_dies, ("sigkill", "elastic-worker-failed", "ray-worker-died",
        "ray-actor-died", "signal-kill"), 2.0, frameworks=("megatron", "hf", "ray"), verdict="rank-dead"),
    FaultKind("jax-heartbeat", "unknown-death", _heartbeat, ("heartbeat-timeout", "jax-coordination-error",
        "node-fail"), 2.0, frameworks=("maxtext",), verdict="rank-dead"),
    FaultKind("nccl-watchdog", "hang", _watchdog, ("nccl-timeout", "unknown-death"), 1.7, frameworks=("megatron", "hf",
        "ray"), verdict="hung", lasts_s=900),
    FaultKind("never-started", "rendezvous-timeout", _never_started, ("node-fail", "socket-timeout"), 0.5,
        names=("node",), names_node=False, frameworks=TORCHRUN, verdict="never-started", lasts_s=1500,
        begins="before its job", prepare=_never_joins),
    FaultKind("cut-off", "log-truncated", _cut_off, ("unknown-death", "hang"), 0.0, "job", (), verdict="cut-off",
        lasts_s=1500),
    FaultKind("shipper-silent", "", _shipper_silent, (), 0.0, "node", ("node",), verdict="shipper-silent",
        incident=False, lasts_s=1500),
    FaultKind("buffered", "", _buffered, (), 0.0, "job", (), platforms=("kubernetes",), frameworks=("megatron",
        "maxtext", "ray"), verdict="buffered", incident=False, lasts_s=1500),
    FaultKind("job-finished", "", _finished, (), 0.0, "job", (), verdict="finished", incident=False, lasts_s=1500),
    FaultKind("cancelled-by-user", "", _cancelled, (), 0.0, "job", (), verdict="cancelled", incident=False,
        lasts_s=1500),
)  # fmt: skip
