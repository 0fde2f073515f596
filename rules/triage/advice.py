"""What to do next: the rule's steps, and those that depend on this job."""

from __future__ import annotations

from typing import Final

from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.assessment import Assessment
from epicenter.rules.triage.primary import is_cancellation

_MORE: Final = {
    "container-pull-fail": ("Check the image's name in container_env.sh.",),
    "nccl-nic-fail": ("Check the logic of choose_nccl_socket_ifname.sh.",),
    "model-not-found": ("For a new model, write a configuration: docs/model-configs.md.",),
    "train-timeout": ("Rule out a hang: check whether the job still completed steps at the end.",),
    "heartbeat-timeout": (
        "Set jax_distributed_heartbeat_timeout_seconds to several hours (14400), so it never ends healthy training.",
        "Watch the steps instead (slurm_job_monitor.sh -j ID): heartbeats do not detect hangs.",
        "Background: docs/jax-heartbeat-false-positive-postmortem.md.",
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
        "Run again with NCCL_DEBUG=INFO (_env_NCCL_DEBUG=INFO in maxtext-slurm).",
    ),
    "xla-compile-fail": (
        "Check the XLA flags in train_env.sh; _env_ENABLE_XLA_DUMP=1 saves the program that fails.",
        "Make the model smaller until it compiles, to find the part that fails.",
    ),
    "python-exception": ("Check for a known problem of the framework, and check the configuration's parameters.",),
    "signal-kill": (
        "Look for core files in the job's folder, the outputs folder, and COREDUMP_EXTRA_DIRS of container_env.sh.",
        "Open one in the same container: gdb python3 CORE (docs/debugging.md).",
    ),
    "sigkill": (
        "SIGKILL leaves no core file: check the host's memory first, then who or what may have ended the job.",
    ),
    "node-fail": ("For exit code 137, suspect memory; for 134 and 139, look for core files.",),
    "ray-start-fail": ("Training continues without Ray: fix it only if you need its dashboards.",),
    "unknown-death": ("If it happens again, run with RAY=1 to record metrics of the nodes.",),
}
"""Steps of the job-log-triage table that belong to its launcher and configuration, by class or parent class."""


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
    return assessment.spec.next_steps if assessment.spec else ()


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
            "Query Prometheus at the time of the stop: ray_node_gpus_utilization at 100 % while hw_gpu_power_watts is "
            "low means spinning in a collective; hw_tcp_retransmits_total and RDMA counters show a network event.",
        )
    if is_live:
        steps += (f"End the job: scancel {job}",)
    return (
        *steps,
        "Submit it again with NCCL_DEBUG=INFO (_env_NCCL_DEBUG=INFO in maxtext-slurm).",
        f"Watch its steps to detect a hang early: slurm_job_monitor.sh -j {'ID' if not is_live else job}",
    )


def _at_scheduler(assessment: Assessment) -> tuple[str, ...]:
    job = assessment.story.slurm_id
    if assessment.primary != "unknown-death" or not job:
        return ()
    return (f"scontrol show job {job}, or sacct -j {job} -o State,ExitCode,Reason,NodeList",)


def _cores(assessment: Assessment) -> tuple[str, ...]:
    cores = [name for name in assessment.story.artifacts if "core" in name.rpartition("/")[2]]
    is_crash = "signal-kill" in (assessment.primary, vocabulary().parent(assessment.primary or ""))
    return (f"Core files found: {', '.join(cores[:4])}",) if cores and is_crash else ()
