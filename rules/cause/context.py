"""What is known about the cluster, in addition to an incident's signals, when the incident is reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from epicenter.rules.cause.cost import JobLoss

JobRank = tuple[str, int]


@dataclass(frozen=True)
class IncidentContext:
    """Everything by job, node or (job, rank); what is unknown has no key.

    `seen_ranks_by_job` are the ranks that had lines. `kernel_nodes` are the nodes with a kernel log, `cut_nodes` those
    where a log is cut off within a line; each is None where it is not tracked.
    """

    world_size_by_job: Mapping[str, int] = field(default_factory=dict)
    seen_ranks_by_job: Mapping[str, Collection[int]] = field(default_factory=dict)
    node_of_rank: Mapping[JobRank, str] = field(default_factory=dict)
    nodes_by_job: Mapping[str, Collection[str]] = field(default_factory=dict)
    loss_by_job: Mapping[str, JobLoss] = field(default_factory=dict)
    kernel_nodes: Collection[str] | None = None
    cut_nodes: Collection[str] | None = None


NO_CONTEXT = IncidentContext()
