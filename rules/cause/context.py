"""What is known of the cluster, besides an incident's own signals, when the incident is reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from epicenter.rules.cause.cost import JobLoss

JobRank = tuple[str, int]


@dataclass(frozen=True)
class IncidentContext:
    """Everything by job, node or (job, rank); a key that is not there stands for what is not known.

    `kernel_nodes` are the nodes whose kernel log was ever heard, `cut_nodes` those where a log ends within a line; each
    is None where nobody keeps account of it.
    """

    world_size_by_job: Mapping[str, int] = field(default_factory=dict)
    seen_ranks_by_job: Mapping[str, Collection[int]] = field(default_factory=dict)
    node_of_rank: Mapping[JobRank, str] = field(default_factory=dict)
    nodes_by_job: Mapping[str, Collection[str]] = field(default_factory=dict)
    loss_by_job: Mapping[str, JobLoss] = field(default_factory=dict)
    kernel_nodes: Collection[str] | None = None
    cut_nodes: Collection[str] | None = None


NO_CONTEXT = IncidentContext()
