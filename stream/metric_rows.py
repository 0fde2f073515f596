"""What a metric is: a row of the table in `Metrics`; and former names under which metrics are still exposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class HasCollectors(Protocol):
    """An instance with one collector for each row of its class."""

    collectors: dict[str, Any]


class FormerMetric(NamedTuple):
    """The present name of a metric; `is_inverted`: 1 was 0 under the former name."""

    now: str
    is_inverted: bool = False


FORMER_METRICS: Final = {
    "epicenter_behind_seconds": FormerMetric("epicenter_record_age_seconds"),
    "epicenter_lateness_seconds": FormerMetric("epicenter_watermark_delay_seconds"),
    "epicenter_rule_throttled_total": FormerMetric("epicenter_rule_skipped_candidates_total"),
    "epicenter_target_is_away": FormerMetric("epicenter_target_up", is_inverted=True),
    "epicenter_trouble_total": FormerMetric("epicenter_kafka_faults_total"),
}
"""Former name -> what it became. Metrics are still exposed under their former names too."""


class FormerMetrics(Collector):
    """The renamed metrics of a registry, under their former names."""

    def __init__(self, registry: CollectorRegistry):
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Each under its former name, with its present values."""
        families = {family.name: family for family in self._registry.collect()}
        for name, (now, is_inverted) in FORMER_METRICS.items():
            family = families[now.removesuffix("_total")]
            former = Metric(name.removesuffix("_total"), f"Deprecated: use {now}.", family.type)
            for sample in family.samples:
                value = 1 - sample.value if is_inverted else sample.value
                former.add_sample(sample.name.replace(family.name, former.name, 1), sample.labels, value)
            yield former


class Row(Generic[Kind]):
    """One metric. As an attribute of `Metrics` it is the collector of that instance."""

    def __init__(self, kind: type[Kind], name: str, meaning: str, *labels: str, **options: Any):
        self.kind: type[Kind] = kind
        self.name, self.meaning, self.labels, self.options = name, meaning, labels, options

    def collector(self, registry: CollectorRegistry) -> Kind:
        """What counts this metric in a registry."""
        return self.kind(self.name, self.meaning, self.labels, registry=registry, **self.options)

    def __get__(self, metrics: HasCollectors, _: type[HasCollectors]) -> Kind:
        found: Kind = metrics.collectors[self.name]
        return found
