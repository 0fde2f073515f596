"""What the nodes of a job print alike, such as their versions and network, and which node differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S

MAX_KEPT_JOBS: Final = 5_000
MAX_KEPT_FACTS: Final = 64
MAX_KEPT_NODES: Final = 20_000
"""Of a fact, the values of the newest this many nodes."""

MAX_KEPT_OF_A_NODE: Final = 4
MIN_NODES: Final = 3
"""Of fewer nodes, it is not known which one differs."""

MAX_KEPT_FAILURES: Final = 10_000
FAILED_BEFORE_NS, FAILED_AFTER_NS = 2 * NS_PER_S, 5 * NS_PER_S
"""How near to the last step of a job a line is that may tell why it was the last, besides two steps."""

OUTLIER_SHARE: Final = 8
"""At most one of this many nodes may differ from the others; in a small job, a single one."""

Kept = TypeVar("Kept")


class NodeFacts(msgspec.Struct):
    """By job: fact -> node -> its newest value. Lines that name no job count for all jobs of their node.

    `failures` are by node: when its drivers reported failures that no rule knows, and the texts, the newest last.
    """

    by_job: dict[str, dict[str, dict[str, str]]] = {}
    failures: dict[str, list[tuple[int, str]]] = {}

    def record(self, signal: Signal, compared: Mapping[str, str]) -> None:
        """Record the facts in a line. The job that has had facts for the longest time is forgotten first."""
        if not signal.node:
            return
        facts = self.by_job.setdefault(_key(signal.cluster, signal.job), {})
        for field, words in compared.items():
            if value := signal.fields.get(field):
                name = words.format_map(signal.fields)
                if name in facts or len(facts) < MAX_KEPT_FACTS:
                    _keep(facts.setdefault(name, {}), signal.node, value, MAX_KEPT_NODES)
        if len(self.by_job) > MAX_KEPT_JOBS:
            del self.by_job[next(iter(self.by_job))]

    def forget(self, job: str) -> None:
        """Forget the facts of a job (`cluster/job`)."""
        self.by_job.pop(job, None)

    def record_failure(self, signal: Signal) -> None:
        """Record what a driver reports. The node that was quiet for the longest time is forgotten first."""
        if not signal.node:
            return
        key = _key(signal.cluster, signal.node)
        earlier = self.failures.get(key, [])[1 - MAX_KEPT_OF_A_NODE :]
        newest = signal.event_time_ns, signal.fields.get("message", signal.text)
        _keep(self.failures, key, [*earlier, newest], MAX_KEPT_FAILURES)

    def failures_at(self, cluster: str, stop_ns: int, step_ns: int) -> dict[str, str]:
        """The newest failure that drivers of each node of a cluster reported as a job stopped."""
        since_ns, until_ns = stop_ns - FAILED_BEFORE_NS, stop_ns + FAILED_AFTER_NS + 2 * step_ns
        of_cluster = ((key, lines) for key, lines in self.failures.items() if key.startswith(f"{cluster}/"))
        return {
            key.rpartition("/")[2]: text
            for key, lines in of_cluster
            for time_ns, text in lines
            if since_ns <= time_ns <= until_ns
        }

    def outliers(self, cluster: str, job: str, nodes: Collection[str]) -> tuple[Outlier, ...]:
        """The nodes that differ from a clear majority of the job's `nodes`, by name, then fact."""
        tables = (self.by_job.get(key, {}) for key in (_key(cluster, job), _key(cluster, "")))
        by_fact = ((fact, values) for facts in tables for fact, values in facts.items())
        return tuple(sorted({outlier for fact, values in by_fact for outlier in _outliers(fact, values, nodes)}))


def _keep(known: dict[str, Kept], node: str, newest: Kept, most: int) -> None:
    """Keep what is newest of a node; the node that was quiet for the longest time is forgotten first."""
    known.pop(node, None)
    known[node] = newest
    if len(known) > most:
        del known[next(iter(known))]


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
