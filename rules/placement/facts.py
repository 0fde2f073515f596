"""What the nodes of a job print alike, such as their versions and network, and which node differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.signals import Signal

MAX_KEPT_JOBS: Final = 5_000
MAX_KEPT_FACTS: Final = 64
MIN_NODES: Final = 3
"""Of fewer nodes, it is not known which one differs."""

OUTLIER_SHARE: Final = 8
"""At most one of this many nodes may differ from the others; in a small job, a single one."""


class NodeFacts(msgspec.Struct):
    """By job: fact -> node -> its newest value. Lines that name no job count for all jobs of their node."""

    by_job: dict[str, dict[str, dict[str, str]]] = {}

    def record(self, signal: Signal, compared: Mapping[str, str]) -> None:
        """Record the facts in a line. The job that has had facts for the longest time is forgotten first."""
        if not signal.node:
            return
        facts = self.by_job.setdefault(_key(signal.cluster, signal.job), {})
        for field, words in compared.items():
            if value := signal.fields.get(field):
                name = words.format_map(signal.fields)
                if name in facts or len(facts) < MAX_KEPT_FACTS:
                    facts.setdefault(name, {})[signal.node] = value
        if len(self.by_job) > MAX_KEPT_JOBS:
            del self.by_job[next(iter(self.by_job))]

    def outliers(self, cluster: str, job: str, nodes: Collection[str]) -> tuple[Outlier, ...]:
        """The nodes that differ from a clear majority of the job's `nodes`, by name, then fact."""
        tables = (self.by_job.get(key, {}) for key in (_key(cluster, job), _key(cluster, "")))
        by_fact = ((fact, values) for facts in tables for fact, values in facts.items())
        return tuple(sorted({outlier for fact, values in by_fact for outlier in _outliers(fact, values, nodes)}))


def _key(cluster: str, job: str) -> str:
    return f"{cluster}/{job}"


def _outliers(fact: str, values: Mapping[str, str], nodes: Collection[str]) -> Iterator[Outlier]:
    of_job = {node: value for node, value in values.items() if node in nodes}
    counts = Counter(of_job.values())
    usual, others = counts.most_common(1)[0] if counts else ("", 0)
    if len(of_job) < MIN_NODES or len(of_job) - others > max(1, len(of_job) // OUTLIER_SHARE):
        return
    for node, value in of_job.items():
        if value != usual:
            yield Outlier(node, fact, value, usual, others)
