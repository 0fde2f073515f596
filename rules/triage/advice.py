"""What to do next: the rule's steps, and those that depend on this job."""

from __future__ import annotations

from typing import Final

from epicenter.rules.packs.steps import with_places
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.assessment import Assessment
from epicenter.rules.triage.primary import is_cancellation

_MORE: Final = {
    "container-pull-fail": ("Check the image's name and tag, and the registry's credentials.",),
    "nccl-nic-fail": ("Check that NCCL_SOCKET_IFNAME names an interface that every node has: `ip -br addr`.",),
    "train-timeout": ("Rule out a hang: check whether the job still completed steps at the end.",),
    "heartbeat-timeout": (
        "Set jax_distributed_heartbeat_timeout_seconds to several hours (14400), so it never ends healthy training.",
        "Watch the steps instead: heartbeats do not detect hangs.",
    ),
    "oom-host": (
        "Reduce per_device_batch_size, or set remat_policy=full.",
        "Look for a memory peak while a checkpoint is written, usually on the first data-parallel replica.",
    ),
    "oom-gpu": (
        "Reduce per_device_batch_size or max_target_length, or set remat_policy=full.",
        "Check XLA's buffer assignment to see what holds the memory.",
    ),
    "nccl-timeout": (
        "Check the network (ip link, ethtool -S, RDMA counters) and whether the same nodes fail repeatedly.",
        "Run again with `NCCL_DEBUG=INFO`.",
    ),
    "xla-compile-fail": (
        "Check XLA_FLAGS; `XLA_FLAGS=--xla_dump_to=/tmp/xla` saves the program that fails.",
        "Make the model smaller until it compiles, to find the part that fails.",
    ),
    "python-exception": ("Check for a known problem of the framework, and check the configuration's parameters.",),
    "signal-kill": (
        "Look for core files in the job's folder, and where /proc/sys/kernel/core_pattern says.",
        "Open one in the same container: `gdb python3 CORE`.",
    ),
    "sigkill": (
        "SIGKILL leaves no core file: check the host's memory first, then who or what may have ended the job.",
    ),
    "node-fail": ("For exit code 137, suspect memory; for 134 and 139, look for core files.",),
    "ray-start-fail": ("If Ray serves only metrics, training may go on without it; check the steps.",),
    "unknown-death": ("If it happens again, record the metrics of its nodes: host memory, GPU power and errors.",),
}
"""Steps that anybody can take, by class or parent class. A site's own are the `advice` of its packs."""


def next_steps(assessment: Assessment) -> tuple[str, ...]:
    """What to do, most urgent first."""
    if assessment.is_late_failure:
        return (
            "Do not submit it again: all steps are completed. Check that the last checkpoint is complete.",
            *_of_rule(assessment),
        )
    if assessment.primary == "hang":
        return _for_hang(assessment)
    if assessment.primary is not None and is_cancellation(assessment.primary):
        return (*_of_rule(assessment), "Nothing to fix if the cancellation was intended and steps were on time.")
    return (*_of_rule(assessment), *_more(assessment), *_at_scheduler(assessment), *_cores(assessment))


def _of_rule(assessment: Assessment) -> tuple[str, ...]:
    incident, spec = assessment.incident, assessment.spec
    if spec and incident and incident.incident.root_cause.rule == spec.id:
        return incident.incident.next_steps
    return tuple(with_places(step, str.upper) for step in spec.next_steps) if spec else ()


def _more(assessment: Assessment) -> tuple[str, ...]:
    name = assessment.primary or ""
    return _MORE.get(name, _MORE.get(vocabulary().parent(name), ()))


def _for_hang(assessment: Assessment) -> tuple[str, ...]:
    story = assessment.story
    job = story.slurm_id or "ID"
    is_live, is_ray = assessment.status.is_live, bool(story.fact("job.ssh_tunnel", "command"))
    steps = _of_rule(assessment) if is_live else ()
    if is_ray and is_live:
        steps += ("Open the Ray dashboard (port 8265): each actor's status and stack show which collective hangs.",)
    if is_ray or story.artifacts:
        steps += (
            "Look at the metrics of the time of the stop: GPUs at full use and low power spin in a collective; TCP "
            "retransmits and RDMA errors show a network event.",
        )
    if is_live:
        steps += (f"End the job: `scancel {job}`",)
    return (*steps, "Submit it again with `NCCL_DEBUG=INFO`, and watch its steps to detect a hang early.")


def _at_scheduler(assessment: Assessment) -> tuple[str, ...]:
    job = assessment.story.slurm_id
    if assessment.primary != "unknown-death" or not job:
        return ()
    return (f"Ask Slurm: `scontrol show job {job}`, or `sacct -j {job} -o State,ExitCode,Reason,NodeList`",)


def _cores(assessment: Assessment) -> tuple[str, ...]:
    cores = [name for name in assessment.story.artifacts if "core" in name.rpartition("/")[2]]
    is_crash = "signal-kill" in (assessment.primary, vocabulary().parent(assessment.primary or ""))
    return (f"Core files found: {', '.join(cores[:4])}",) if cores and is_crash else ()
