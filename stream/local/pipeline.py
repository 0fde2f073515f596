"""The core on one machine: batches in, incidents out. `match`, `replay`, `run` and `demo` use it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.rules.detect.signal import match_of
from epicenter.rules.engine import Engine
from epicenter.rules.event_time.watermark import Watermark
from epicenter.rules.liveness.verdict import Verdict
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Gap, JobState, Joined
from epicenter.rules.model.records import Match
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.redact.redactor import Redactor
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.line_times import Earlier
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.scan.scan import BatchScanner, ScanResult


class PipelineState(msgspec.Struct):
    """What a pipeline knows after the records that it does not buffer."""

    engine: bytes
    watermark: Watermark
    earlier_by_source: dict[str, Earlier]


class Pipeline:
    """Scanner, watermark and engine combined. `dead` counts the records that could not be processed.

    With `state` it continues after the records that led to it.
    """

    def __init__(
        self,
        rules: RuleSet,
        cluster: str,
        lateness_ns: int,
        rule_budget: RuleBudget | None = None,
        lists_joined: bool = False,
        redactor: Redactor | None = None,
        state: PipelineState | None = None,
    ):
        self._batch_scanner = BatchScanner(rules, cluster, rule_budget=rule_budget, redactor=redactor)
        self._batch_scanner.earlier_by_source = state.earlier_by_source if state else {}
        self._scanner = BlockBuffer(self._batch_scanner)
        self._engine = Engine(rules, state.engine if state else None, lists_joined=lists_joined)
        self._watermark = state.watermark if state else Watermark(lateness_ns)
        self._watermark.lateness_ns = lateness_ns
        self.dead = 0

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from now on; the state of nodes, jobs and incidents stays."""
        self._scanner.reload(rules)
        self._engine.reload(rules)

    def snapshot(self) -> PipelineState:
        """The state after all records but those that are buffered, from `first_buffered` of their source on."""
        return PipelineState(self._engine.snapshot(), self._watermark, self._batch_scanner.earlier_by_source)

    def first_buffered(self, source: str) -> int | None:
        """As `BlockBuffer.first_buffered`."""
        return self._scanner.first_buffered(source)

    @property
    def open_ids(self) -> frozenset[str]:
        """As `Engine.open_ids`."""
        return self._engine.open_ids

    def process(self, batch: Batch, read_ns: int = 0) -> ScanResult:
        """Scan a batch, which was read at `read_ns`, and pass the results to the engine."""
        return self._add(batch.source, self._scanner.scan(batch, read_ns))

    def overdue(self, now_ns: int) -> list[ScanResult]:
        """Scan records buffered for a block of a source that has been idle for long enough."""
        return [self._add(source, self._scanner.rest_of(source)) for source in self._scanner.overdue(now_ns)]

    def rest(self) -> list[ScanResult]:
        """Scan records buffered for an unfinished block, without waiting for its rest."""
        return [self._add(source, scanned) for source, scanned in self._scanner.rest()]

    def _add(self, source: str, scanned: ScanResult) -> ScanResult:
        self.dead += scanned.dead
        self._watermark.observe(source, scanned.newest_ns)
        matches = [*scanned.matches, *scanned.observed]
        self._engine.add(matches, scanned.heartbeats, scanned.rank_placements, scanned.latest_ns_by_match)
        return scanned

    def advance(self, lagging: Collection[str], elapsed_ns: int = 0) -> list[Incident]:
        """Advance event time; return the incidents that changed. `lagging` are the sources with more to read."""
        if behind := [*lagging, *self._scanner.waiting]:
            return self._engine.advance(self._watermark.hold(behind))
        self._engine.end_input()
        return self._engine.advance(self._watermark.idle(elapsed_ns, at_pace=True))

    def verdicts(self) -> list[Verdict]:
        """The verdicts on missing logs, with or without an incident."""
        return self._engine.verdicts()

    def skews_ns(self) -> dict[str, int]:
        """How far nodes' clocks are ahead of the others, where that is known."""
        return self._engine.skews_ns()

    def windowed(self) -> list[Match]:
        """The matches that windows produced since the last call, as rows of the store."""
        return list(map(match_of, self._engine.windowed()))

    def joined(self) -> list[Joined]:
        """As `Engine.joined`."""
        return self._engine.joined()

    def gaps(self) -> list[Gap]:
        """As `Engine.gaps`."""
        return self._engine.gaps()

    def record_unread(self, gap: Gap, is_closed: bool) -> None:
        """As `Engine.record_unread`."""
        self._engine.record_unread(gap, is_closed)

    def job_states(self) -> list[JobState]:
        """As `Engine.job_states`."""
        return self._engine.job_states()

    @property
    def newest_ns(self) -> int:
        """The newest event time so far."""
        return self._watermark.newest_ns

    @property
    def settled_ns(self) -> int:
        """As `Engine.watermark_ns`."""
        return self._engine.watermark_ns

    def settle(self) -> list[Incident]:
        """As `Engine.settle`. Call `rest` first."""
        return self._engine.settle()

    def flush(self) -> list[Incident]:
        """The input has ended: process everything pending. Call `rest` first."""
        return self._engine.flush()


def replay(
    pipeline: Pipeline, sources: Sources, on_batch: Callable[[Batch], None] = lambda batch: None
) -> list[Incident]:
    """The final state of every incident in recorded input, first seen first; one that another took over is left out."""
    for batch in read_to_the_end(sources):
        on_batch(batch)
        pipeline.process(batch)
    pipeline.rest()
    newest = {incident.incident_id: incident for incident in pipeline.flush()}
    final = [incident for incident in newest.values() if not incident.merged_into]
    return sorted(final, key=lambda incident: (incident.first_seen, incident.incident_id))
