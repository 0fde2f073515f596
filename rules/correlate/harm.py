"""Whether an incident hurts a job, so that it pages the on-call."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from epicenter.rules.cause.exceptions import is_of_a_sandbox, is_of_a_shell, is_of_a_test
from epicenter.rules.cause.survival import breaks_its_node
from epicenter.rules.correlate.keys import is_node_wide
from epicenter.rules.correlate.pending import DELAYS, is_announced, is_of_a_node, is_quoted, is_soft
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.signals import ERRORS, MAY_PASS_FIELD, POD_FIELD, Signal
from epicenter.rules.packs.vocabulary import vocabulary

REBOOT_CLASS: Final = "node-reboot"
_OF_DEVICES: Final = ("cuda-ecc-error", "gpu-lost")
_FAMILIES_OF_PROGRAMS: Final = ("memory", "cuda", "environment")
_OF_PROGRAMS: Final = (
    *("python-exception", "import-error", "subprocess-fail", "signal-kill", "sigabrt", "sigbus", "sigkill", "segfault"),
    *("unknown-death", "slurm-exit-nonzero", "k8s-evicted", "k8s-crashloop", "k8s-oomkilled"),
)


def hurts_a_job(incident: IncidentState, established: Collection[str] | None, heard: Collection[str] = ()) -> bool:
    """Whether it is more than what jobs survive, an end that was intended, or a node without a job that boots.

    What ends a single program of a user hurts none of the `established` jobs; None means that every job is one. Where
    several jobs are known, a broken node on which none of them runs hurts none, nor does what delays the only pod of a
    job that was never `heard`.
    """
    is_idle = established is not None and not incident.jobs
    delayed_pods = {signal.fields.get(POD_FIELD) for signal in incident.signals() if signal.failure_class in DELAYS}
    is_of_one_pod = established is not None and len(delayed_pods) == 1
    return any(
        signal.severity in ERRORS
        and not is_harmless(signal, incident.jobs)
        and not (is_idle and signal.node and is_node_wide(signal))
        and not (_is_of_a_program(signal) and _is_of_none(established, incident.jobs_of(signal)))
        and not (is_of_one_pod and signal.failure_class in DELAYS and incident.jobs_of(signal).isdisjoint(heard))
        for signal in incident.signals()
    )


def _is_of_none(established: Collection[str] | None, jobs: Collection[str]) -> bool:
    return established is not None and not any(job in established for job in jobs)


def is_harmless(signal: Signal, jobs: Collection[str]) -> bool:
    """Whether an error in an incident of these jobs is one that jobs survive, or one that was intended."""
    is_of_node_only = is_of_a_node(signal) and not signal.job
    is_intended = signal.failure_class in vocabulary().intended
    is_of_no_pod = signal.failure_class in DELAYS and not signal.job
    is_boot = signal.failure_class == REBOOT_CLASS and not jobs
    is_survivable = (is_of_node_only and is_soft(signal)) or MAY_PASS_FIELD in signal.fields
    is_not_of_a_job = is_quoted(signal) or is_of_a_shell(signal) or is_of_a_test(signal) or is_of_a_sandbox(signal)
    return is_intended or is_of_no_pod or is_boot or is_not_of_a_job or is_announced(signal) or is_survivable


def _is_of_a_program(signal: Signal) -> bool:
    """Whether it reports an error or the end of one process, rather than of a job, a node or a device."""
    failure_class = signal.failure_class
    is_of_a_family = vocabulary().family(failure_class) in _FAMILIES_OF_PROGRAMS
    is_of_one = is_of_a_family or failure_class in _OF_PROGRAMS
    is_of_a_device = breaks_its_node(signal) or vocabulary().is_latent(failure_class) or failure_class in _OF_DEVICES
    return is_of_one and signal.position is not None and not is_of_a_device
