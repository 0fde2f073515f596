"""What is known about the cluster, in addition to an incident's signals, when the incident is reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from epicenter.rules.cause.cost import JobLoss
from epicenter.rules.model.ledger import Gap
from epicenter.rules.model.outlier import Outlier

JobRank = tuple[str, int]


@dataclass(frozen=True)
class IncidentContext:
    """Everything by job, node or (job, rank); what is unknown has no key.

    `seen_ranks_by_job` are the ranks that a banner places, `speaking_ranks_by_job` those whose own lines were seen.
    The logs of `mute_nodes_by_job` stopped while the job trained on; those of `unheard_nodes_by_job`, which its
    list of hosts names, never came, or only after others had given up on them. `node_count_by_job` is how many
    nodes its launchers wait for. `outliers_by_job` differ from its other nodes in what all print alike.
    `kernel_nodes` are the nodes with a kernel log, `cut_nodes` those where a log is cut off within a line; each is
    None where it is not tracked. `established_jobs` have shown to be more than a user's program; None where only
    one job is known, or where a node trains without a job's name. Lines of the `heard_jobs` have come. `unread` are
    gaps in logs of its nodes and jobs that could not be read.
    """

    world_size_by_job: Mapping[str, int] = field(default_factory=dict)
    seen_ranks_by_job: Mapping[str, Collection[int]] = field(default_factory=dict)
    speaking_ranks_by_job: Mapping[str, Collection[int]] = field(default_factory=dict)
    node_of_rank: Mapping[JobRank, str] = field(default_factory=dict)
    nodes_by_job: Mapping[str, Collection[str]] = field(default_factory=dict)
    mute_nodes_by_job: Mapping[str, Collection[str]] = field(default_factory=dict)
    unheard_nodes_by_job: Mapping[str, Collection[str]] = field(default_factory=dict)
    node_count_by_job: Mapping[str, int] = field(default_factory=dict)
    outliers_by_job: Mapping[str, Sequence[Outlier]] = field(default_factory=dict)
    loss_by_job: Mapping[str, JobLoss] = field(default_factory=dict)
    kernel_nodes: Collection[str] | None = None
    cut_nodes: Collection[str] | None = None
    established_jobs: Collection[str] | None = None
    heard_jobs: Collection[str] = ()
    unread: Sequence[Gap] = ()


NO_CONTEXT = IncidentContext()
