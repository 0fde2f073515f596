"""What a worker counts, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from epicenter.rules.engine import Counts
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.stream.scan.rule_budget import Use
from epicenter.stream.scan.scan import ScanResult

NEW_KINDS: Final = ("opened", "reopened", "updated", "resolved")
"""What is repeated, escalated or acknowledged happened long before, as a rule."""

STORED_AS: Final = {"heartbeats": "beats"}
"""Tables whose label is older than their name."""


class Metrics:
    """Counters and gauges of one worker. `records = matched + quiet + dead letters`, for each raw partition."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._records = self._counter("epicenter_records_total", "Raw records read.", "source")
        self._matched = self._counter("epicenter_matched_records_total", "Raw records that a rule fits.", "source")
        self._quiet = self._counter("epicenter_quiet_records_total", "Raw records that say nothing.", "source")
        self._dead = self._counter("epicenter_dead_letters_total", "Raw records that can't be processed.", "source")
        self._harmless = self._counter("epicenter_harmless_records_total", "Known-harmless records.", "source")
        self._redactions = self._counter("epicenter_redactions_total", "Secrets taken out of what is kept.", "kind")
        self._matches = self._counter("epicenter_matches_total", "Lines that a rule fits.", "rule")
        self._stored = self._counter("epicenter_stored_rows_total", "Rows handed to the store.", "table")
        self._failures = self._counter("epicenter_store_failures_total", "Writes that had to be tried again.", "kind")
        self._behind = self._gauge("epicenter_behind_seconds", "Age of the newest record that was read.", "source")
        self._lag = self._gauge("epicenter_lag_records", "Raw records not read yet.", "source")
        self._partitions = self._gauge("epicenter_partitions", "Raw partitions that this worker owns.", "topic")
        self._paused = self._gauge("epicenter_paused_partitions", "Of these, waiting for the slowest.", "topic")
        self._signals = self._gauge("epicenter_signals", "What became of signals since the snapshot began.", "outcome")
        self._deliveries = Counter(
            "epicenter_deliveries_total",
            "What became of notifications, or why there were none.",
            ["target", "outcome"],
            registry=self._registry,
        )
        self._pending = self._gauge("epicenter_deliveries_pending", "Notifications that wait for it.", "target")
        self._away = self._gauge(
            "epicenter_target_is_away", "1: it takes nothing, and is tried now and then.", "target"
        )
        self._delivered_after = Histogram(
            "epicenter_delivery_seconds",
            "From the event time of what was news to its delivery.",
            ["target"],
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
            registry=self._registry,
        )
        self._rules = self._gauge("epicenter_rules", "How many rules run, by the digest of their files.", "digest")
        self._candidates = self._counter("epicenter_rule_candidates_total", "Lines that a rule may fit.", "rule")
        self._hits = self._counter("epicenter_rule_hits_total", "Of these, lines that it fits.", "rule")
        self._seconds = self._counter("epicenter_rule_seconds_total", "Time for looking at its candidates.", "rule")
        self._throttled = self._counter("epicenter_rule_throttled_total", "Candidates passed over.", "rule")
        self._reloads = self._counter("epicenter_rules_reloads_total", "Changes of the rules.", "outcome")
        self._unknown = Counter(
            "epicenter_unknown_rule_matches_total", "Matches of rules of other workers.", registry=self._registry
        )
        self._skew = self._gauge("epicenter_clock_skew_seconds", "How far a node's clock is ahead of others.", "node")
        self._wait = self._gauge("epicenter_lateness_seconds", "How long lines are waited for.", "partition")
        self._snapshot_bytes = self._gauge("epicenter_snapshot_bytes", "Size of the newest snapshot.", "partition")
        self._snapshot_s = self._gauge("epicenter_snapshot_seconds", "What the newest snapshot took.", "partition")
        self._no_snapshots = self._counter("epicenter_snapshot_failures_total", "Snapshots of no use.", "reason")
        self._fault = self._counter("epicenter_trouble_total", "Trouble with Kafka, by its name.", "kind")
        self._lost_records = self._counter("epicenter_lost_records_total", "Raw records never read.", "source")
        self._lost = Counter(
            "epicenter_lost_messages_total",
            "Messages on our own topics that a group could not read any more.",
            ["group", "source"],
            registry=self._registry,
        )

    def note_uses(self, used: Mapping[Rule, Use]) -> None:
        """Count what rules cost."""
        for rule, use in used.items():
            self._candidates.labels(rule.spec.id).inc(use.candidates)
            self._hits.labels(rule.spec.id).inc(use.hits)
            self._seconds.labels(rule.spec.id).inc(use.seconds)
            if use.passed_over:
                self._throttled.labels(rule.spec.id).inc(use.passed_over)

    def note_reload(self, outcome: str, rules: RuleSet) -> None:
        """Count a change of the rules by what became of it."""
        self._reloads.labels(outcome).inc()
        self.note_rules(rules)

    def note_rules(self, rules: RuleSet) -> None:
        """Set which rules run."""
        self._rules.clear()
        self._rules.labels(rules.digest).set(len(rules.rules))

    def note_unknown(self, matches: int) -> None:
        """Count matches of rules that this worker does not have, which the store does not get."""
        self._unknown.inc(matches)

    def note_scan(self, source: str, scanned: ScanResult) -> None:
        """Count a scanned batch."""
        self._records.labels(source).inc(scanned.records)
        self._matched.labels(source).inc(scanned.matched)
        self._quiet.labels(source).inc(scanned.quiet)
        self._dead.labels(source).inc(scanned.dead)
        self._harmless.labels(source).inc(scanned.harmless)
        for kind in scanned.redactions:
            self._redactions.labels(kind).inc()
        for match in scanned.matches:
            self._matches.labels(match.rule).inc()

    def note_behind(self, source: str, age_s: float) -> None:
        """Set how old the newest record was when it was read."""
        self._behind.labels(source).set(age_s)

    def note_stored(self, rows: Mapping[str, int]) -> None:
        """Count rows that the store has taken."""
        for table, count in rows.items():
            self._stored.labels(STORED_AS.get(table, table)).inc(count)

    def note_store_failure(self, kind: str) -> None:
        """Count a write that failed."""
        self._failures.labels(kind).inc()

    def note_fault(self, kind: str, times: int = 1) -> None:
        """Count trouble with Kafka."""
        self._fault.labels(kind).inc(times)

    def note_lost_records(self, source: str, records: int) -> None:
        """Count raw records that were deleted before they were read."""
        self._lost_records.labels(source).inc(records)

    def note_delivery(self, delivery: Delivery, now_s: float) -> None:
        """Count what became of a notification; when it told of something new, with how long after that."""
        self._deliveries.labels(delivery.target, delivery.outcome.value).inc()
        if delivery.outcome is Outcome.SENT and delivery.kind in NEW_KINDS:
            event_s = datetime.fromisoformat(delivery.event_time).timestamp()
            self._delivered_after.labels(delivery.target).observe(now_s - event_s)

    def note_pending(self, target: str, pending: int, is_away: bool) -> None:
        """Set how many notifications wait for a target, and whether it takes nothing."""
        self._pending.labels(target).set(pending)
        self._away.labels(target).set(is_away)

    def note_lag(self, records_by_source: Mapping[str, int]) -> None:
        """Set how far each raw partition is behind: one worker at a time tells, and the others show none."""
        self._lag.clear()
        for source, records in records_by_source.items():
            self._lag.labels(source).set(records)

    def note_assigned(self, topic: str, partitions: int) -> None:
        """Set how many raw partitions this worker owns."""
        self._partitions.labels(topic).set(partitions)

    def note_paused(self, topic: str, partitions: int) -> None:
        """Set how many of them are so far ahead of others that they are not read."""
        self._paused.labels(topic).set(partitions)

    def note_engine(self, partition: int, counts: Counts) -> None:
        """Set what became of signals in one correlator."""
        for outcome in ("signals", "late", "duplicate", "alone", "unknown"):
            self._signals.labels(f"{outcome}/{partition}").set(getattr(counts, outcome))

    def note_snapshot(self, partition: int, size_bytes: int, took_s: float) -> None:
        """Set what the newest snapshot of a correlator took."""
        self._snapshot_bytes.labels(partition).set(size_bytes)
        self._snapshot_s.labels(partition).set(took_s)

    def note_snapshot_failure(self, reason: str) -> None:
        """Count a snapshot that could not be kept, or not be read."""
        self._no_snapshots.labels(reason).inc()

    def note_lost_messages(self, group: str, source: str, count: int) -> None:
        """Count messages of ours that were deleted or destroyed before a group read them."""
        self._lost.labels(group, source).inc(count)

    def note_wait(self, partition: int, wait_ns: int) -> None:
        """Set how far the watermark of one correlator stays behind."""
        self._wait.labels(str(partition)).set(wait_ns / NS_PER_S)

    def note_skews(self, skews_ns: Mapping[str, int]) -> None:
        """Set how far the clocks of nodes are ahead."""
        for node, skew_ns in skews_ns.items():
            self._skew.labels(node).set(skew_ns / NS_PER_S)

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Name, labels and value of every series that has a value; a count of nothing has none."""
        for family in self._registry.collect():
            for sample in family.samples:
                is_empty = sample.value == 0 and family.type != "gauge"
                if not is_empty and not sample.name.endswith("_created"):
                    yield sample.name, dict(sample.labels), float(sample.value)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, help_text: str, label: str) -> Counter:
        return Counter(name, help_text, [label], registry=self._registry)

    def _gauge(self, name: str, help_text: str, label: str) -> Gauge:
        return Gauge(name, help_text, [label], registry=self._registry)
