"""Whether an incident hurts a job, so that somebody should be paged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from epicenter.rules.correlate.pending import is_of_a_node, is_soft
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.signals import ERRORS, Signal
from epicenter.rules.packs.vocabulary import vocabulary

REBOOT_CLASS: Final = "node-reboot"


def hurts_a_job(incident: IncidentState) -> bool:
    """Whether it is more than what jobs survive, an end that was intended, or a node without a job that boots."""
    return any(signal.severity in ERRORS and not _is_harmless(signal, incident.jobs) for signal in incident.signals())


def _is_harmless(signal: Signal, jobs: Collection[str]) -> bool:
    is_of_node_only = is_of_a_node(signal) and not signal.job
    is_intended = signal.failure_class in vocabulary().intended
    return is_intended or (is_of_node_only and is_soft(signal)) or (signal.failure_class == REBOOT_CLASS and not jobs)
