"""What a worker counts, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from epicenter.rules.engine import Counts
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.report.open_incidents import Kind
from epicenter.stream.metric_rows import FORMER_METRICS as FORMER_METRICS
from epicenter.stream.metric_rows import FormerMetrics, Row
from epicenter.stream.scan.rule_budget import Use
from epicenter.stream.scan.scan import ScanResult

NEW_KINDS: Final = ("opened", "reopened", "updated", "resolved")
"""Kinds that report something new; the others usually come long after the event."""

STORED_AS: Final = {"heartbeats": "beats"}
"""Tables whose label is their former name."""


class Metrics:
    """Counters and gauges of one worker: all, or these. `records = matched + quiet + dead letters`, by partition."""

    _records = Row(Counter, "epicenter_records_total", "Counts the raw records that were read.", "source")
    _matched = Row(Counter, "epicenter_matched_records_total", "Counts the raw records that match a rule.", "source")
    _quiet = Row(Counter, "epicenter_quiet_records_total", "Counts the raw records that match no rule.", "source")
    _dead = Row(
        Counter, "epicenter_dead_letters_total", "Counts the raw records that could not be processed.", "source"
    )
    _harmless = Row(
        Counter, "epicenter_harmless_records_total", "Counts the raw records that match a harmless rule.", "source"
    )
    _shortened = Row(
        Counter,
        "epicenter_shortened_lines_total",
        "Counts the lines longer than 64 KiB of which rules saw only both ends.",
        "source",
    )
    _redactions = Row(
        Counter, "epicenter_redactions_total", "Counts the secrets removed from log text, by kind.", "kind"
    )
    _matches = Row(Counter, "epicenter_matches_total", "Counts the matches of each rule.", "rule")
    _stored = Row(
        Counter, "epicenter_stored_rows_total", "Counts the rows written to each table of the store.", "table"
    )
    _failures = Row(
        Counter, "epicenter_store_failures_total", "Counts the failed writes to the store, by kind of failure.", "kind"
    )
    _sources = Row(Gauge, "epicenter_sources", "Shows how many files and other sources `run` follows.")
    _sources_failing = Row(
        Gauge, "epicenter_sources_failing", "Shows how many followed sources and folders can't be read now."
    )
    _source_failures = Row(
        Counter, "epicenter_source_failures_total", "Counts how often a followed source or folder began to fail."
    )
    _source_lost = Row(
        Counter,
        "epicenter_source_lost_bytes_total",
        "Counts the bytes of followed files removed before they were read.",
    )
    _waiting = Row(Gauge, "epicenter_waiting_rows", "Shows how many rows wait in memory because the store fails.")
    _given_up = Row(
        Counter,
        "epicenter_given_up_rows_total",
        "Counts the rows that were never stored because too many waited, by table.",
        "table",
    )
    _record_age = Row(
        Gauge,
        "epicenter_record_age_seconds",
        "Shows how old the newest record was when it was read, in seconds.",
        "source",
    )
    _lag = Row(Gauge, "epicenter_lag_records", "Shows how many raw records in Kafka no worker has read yet.", "source")
    _partitions = Row(
        Gauge, "epicenter_partitions", "Shows how many raw partitions are assigned to this worker.", "topic"
    )
    _paused = Row(
        Gauge,
        "epicenter_paused_partitions",
        "Shows how many assigned raw partitions wait for the slowest one.",
        "topic",
    )
    _signals = Row(
        Gauge,
        "epicenter_signals",
        "Shows how many signals came since the snapshot began, by outcome and partition.",
        "outcome",
    )
    _deliveries = Row(
        Counter,
        "epicenter_deliveries_total",
        "Counts the notifications sent or held back, by target and outcome.",
        "target",
        "outcome",
    )
    _pending = Row(Gauge, "epicenter_deliveries_pending", "Shows how many notifications wait for the target.", "target")
    _target_up = Row(
        Gauge, "epicenter_target_up", "Shows whether the target accepts notifications (1) or is failing (0).", "target"
    )
    _delivered_after = Row(
        Histogram,
        "epicenter_delivery_seconds",
        "Measures the seconds from the event time of a change to the delivery of its notification.",
        "target",
        buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
    )
    _open = Row(Gauge, "epicenter_incidents_open", "Shows how many incidents are open.", "severity", "class")
    _opened = Row(
        Counter,
        "epicenter_incidents_total",
        "Counts the incidents that opened, and those that opened again.",
        "severity",
        "class",
    )
    _build = Row(Gauge, "epicenter_build_info", "Is always 1; the label says which version runs.", "version")
    _store_up = Row(Gauge, "epicenter_store_up", "Shows whether the store of a page answers (1) or not (0).", "store")
    _rules = Row(Gauge, "epicenter_rules", "Shows how many rules are in use, by the digest of their files.", "digest")
    _candidates = Row(Counter, "epicenter_rule_candidates_total", "Counts the lines checked against the rule.", "rule")
    _hits = Row(Counter, "epicenter_rule_hits_total", "Counts the checked lines that match the rule.", "rule")
    _seconds = Row(
        Counter, "epicenter_rule_seconds_total", "Counts the seconds spent on checking lines against the rule.", "rule"
    )
    _skipped = Row(
        Counter,
        "epicenter_rule_skipped_candidates_total",
        "Counts the lines not checked because the rule was over its budget.",
        "rule",
    )
    _reloads = Row(Counter, "epicenter_rules_reloads_total", "Counts the reloads of the rules, by outcome.", "outcome")
    _unknown = Row(
        Counter, "epicenter_unknown_rule_matches_total", "Counts the matches of rules that this worker does not have."
    )
    _skew = Row(
        Gauge, "epicenter_clock_skew_seconds", "Shows how far a node's clock is ahead of others, in seconds.", "node"
    )
    _watermark_delay = Row(
        Gauge,
        "epicenter_watermark_delay_seconds",
        "Shows how far the watermark stays behind the newest event, in seconds.",
        "partition",
    )
    _snapshot_bytes = Row(
        Gauge, "epicenter_snapshot_bytes", "Shows the size of the newest snapshot, in bytes.", "partition"
    )
    _snapshot_s = Row(
        Gauge, "epicenter_snapshot_seconds", "Shows how many seconds the newest snapshot took.", "partition"
    )
    _no_snapshots = Row(
        Counter,
        "epicenter_snapshot_failures_total",
        "Counts the snapshots that could not be kept or read, by reason.",
        "reason",
    )
    _kafka_faults = Row(Counter, "epicenter_kafka_faults_total", "Counts the Kafka faults, by kind.", "kind")
    _lost_records = Row(
        Counter,
        "epicenter_lost_records_total",
        "Counts the raw records deleted from Kafka before they were read.",
        "source",
    )
    _lost = Row(
        Counter,
        "epicenter_lost_messages_total",
        "Counts the messages on topics of epicenter that were deleted before a group read them.",
        "group",
        "source",
    )

    def __init__(self, names: Collection[str] = ()) -> None:
        self._registry, self._former = CollectorRegistry(), CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.collectors = {row.name: row.collector(self._registry) for row in ROWS if not names or row.name in names}
        if not names:
            self._former.register(FormerMetrics(self._registry))
        self._build.labels(version("epicenter")).set(1)
        self._known_kinds: set[Kind] = set()

    def record_opened(self, kinds: Iterable[Kind]) -> None:
        """Count incidents that opened."""
        for kind in kinds:
            self._opened.labels(*kind).inc()

    def record_open(self, counts: Mapping[Kind, int]) -> None:
        """Set how many incidents are open; a kind of which none is open any more stays, with 0."""
        self._known_kinds |= counts.keys()
        for kind in self._known_kinds:
            self._open.labels(*kind).set(counts.get(kind, 0))

    def forget_open(self) -> None:
        """It is not known how many incidents are open."""
        self._known_kinds.clear()
        self._open.clear()

    def record_store_up(self, store: str, is_up: bool) -> None:
        """Set whether the store at this address answers."""
        self._store_up.labels(store).set(is_up)

    def record_uses(self, used: Mapping[Rule, Use]) -> None:
        """Count candidates, hits, time and skipped lines of rules."""
        for rule, use in used.items():
            self._candidates.labels(rule.spec.id).inc(use.candidates)
            self._hits.labels(rule.spec.id).inc(use.hits)
            self._seconds.labels(rule.spec.id).inc(use.seconds)
            if use.skipped:
                self._skipped.labels(rule.spec.id).inc(use.skipped)

    def record_reload(self, outcome: str, rules: RuleSet) -> None:
        """Count a reload of the rules by its outcome."""
        self._reloads.labels(outcome).inc()
        self.record_rules(rules)

    def record_rules(self, rules: RuleSet) -> None:
        """Set the rules in use."""
        self._rules.clear()
        self._rules.labels(rules.digest).set(len(rules.rules))

    def record_unknown(self, matches: int) -> None:
        """Count matches of rules that this worker does not have; the store does not get them."""
        self._unknown.inc(matches)

    def record_scan(self, source: str, scanned: ScanResult) -> None:
        """Count a scanned batch."""
        self._records.labels(source).inc(scanned.records)
        self._matched.labels(source).inc(scanned.matched)
        self._quiet.labels(source).inc(scanned.quiet)
        self._dead.labels(source).inc(scanned.dead)
        self._harmless.labels(source).inc(scanned.harmless)
        self._shortened.labels(source).inc(scanned.shortened)
        for kind in scanned.redactions:
            self._redactions.labels(kind).inc()
        for match in scanned.matches:
            self._matches.labels(match.rule).inc()

    def record_newest_age(self, source: str, age_s: float) -> None:
        """Set the age of the newest record when it was read."""
        self._record_age.labels(source).set(age_s)

    def record_sources(self, followed: int, failing: int) -> None:
        """Set how many sources are followed, and how many can't be read now."""
        self._sources.set(followed)
        self._sources_failing.set(failing)

    def record_source_failure(self) -> None:
        """Count a source that began to fail."""
        self._source_failures.inc()

    def record_source_loss(self, lost_bytes: int) -> None:
        """Count what was removed before it was read."""
        self._source_lost.inc(lost_bytes)

    def record_stored(self, rows: Mapping[str, int]) -> None:
        """Count rows written to the store."""
        for table, count in rows.items():
            self._stored.labels(STORED_AS.get(table, table)).inc(count)

    def record_waiting(self, rows: int) -> None:
        """Set how many rows wait for the store."""
        self._waiting.set(rows)

    def record_given_up(self, rows: Mapping[str, int]) -> None:
        """Count rows that will never be stored."""
        for table, count in rows.items():
            self._given_up.labels(STORED_AS.get(table, table)).inc(count)

    def record_store_failure(self, kind: str) -> None:
        """Count a write that failed."""
        self._failures.labels(kind).inc()

    def record_fault(self, kind: str, times: int = 1) -> None:
        """Count a Kafka fault."""
        self._kafka_faults.labels(kind).inc(times)

    def record_lost_records(self, source: str, records: int) -> None:
        """Count raw records that were deleted before they were read."""
        self._lost_records.labels(source).inc(records)

    def record_delivery(self, delivery: Delivery, now_s: float) -> None:
        """Count the outcome of a notification; if it reports something new, also the time since then."""
        self._deliveries.labels(delivery.target, delivery.outcome.value).inc()
        if delivery.outcome is Outcome.SENT and delivery.kind in NEW_KINDS:
            event_s = datetime.fromisoformat(delivery.event_time).timestamp()
            self._delivered_after.labels(delivery.target).observe(now_s - event_s)

    def record_pending(self, target: str, pending: int, is_failing: bool) -> None:
        """Set how many notifications wait for a target, and whether it is failing."""
        self._pending.labels(target).set(pending)
        self._target_up.labels(target).set(not is_failing)

    def record_lag(self, records_by_source: Mapping[str, int]) -> None:
        """Set how far each raw partition is behind. One worker at a time reports it."""
        self._lag.clear()
        for source, records in records_by_source.items():
            self._lag.labels(source).set(records)

    def record_assigned(self, topic: str, partitions: int) -> None:
        """Set how many raw partitions this worker owns."""
        self._partitions.labels(topic).set(partitions)

    def record_paused(self, topic: str, partitions: int) -> None:
        """Set how many of them are paused, because they are far ahead of others."""
        self._paused.labels(topic).set(partitions)

    def record_engine(self, partition: int, counts: Counts) -> None:
        """Set the outcomes of signals in one correlator."""
        for outcome in ("signals", "late", "duplicate", "alone", "unknown"):
            self._signals.labels(f"{outcome}/{partition}").set(getattr(counts, outcome))

    def record_snapshot(self, partition: int, size_bytes: int, took_s: float) -> None:
        """Set size and duration of a correlator's newest snapshot."""
        self._snapshot_bytes.labels(partition).set(size_bytes)
        self._snapshot_s.labels(partition).set(took_s)

    def record_snapshot_failure(self, reason: str) -> None:
        """Count a snapshot that could not be written or read."""
        self._no_snapshots.labels(reason).inc()

    def record_lost_messages(self, group: str, source: str, count: int) -> None:
        """Count messages on our topics that were deleted or destroyed before a group read them."""
        self._lost.labels(group, source).inc(count)

    def record_wait(self, partition: int, wait_ns: int) -> None:
        """Set how far the watermark of one correlator stays behind."""
        self._watermark_delay.labels(str(partition)).set(wait_ns / NS_PER_S)

    def record_skews(self, skews_ns: Mapping[str, int]) -> None:
        """Set how far the clocks of nodes are ahead; nodes that are not among them any more are left out."""
        self._skew.clear()
        for node, skew_ns in skews_ns.items():
            self._skew.labels(node).set(skew_ns / NS_PER_S)

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Name, labels and value of every series that has a value; a count of nothing has none."""
        for family in chain(self._registry.collect(), self._former.collect()):
            for sample in family.samples:
                is_empty = sample.value == 0 and family.type != "gauge"
                if not is_empty and not sample.name.endswith("_created"):
                    yield sample.name, dict(sample.labels), float(sample.value)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry) + generate_latest(self._former)


ROWS: Final = [row for row in vars(Metrics).values() if isinstance(row, Row)]
"""Every metric, without the former names."""
