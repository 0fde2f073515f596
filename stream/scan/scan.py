"""One batch of records -> its matches, heartbeats and dead letters; only lines with a hit are parsed one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.records import Records
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import is_envelope, parse
from epicenter.ingest.parse.wrapped import unwrapped
from epicenter.rules.detect.inputs import observed
from epicenter.rules.errors import DeadLetterKind, RecordError
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.model.heartbeats import EVALUATION, Heartbeat
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import LogEvent, Match, RankPlacement
from epicenter.rules.model.signals import ERRORS, QUIET_ROLES
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.precedence import LineHit
from epicenter.rules.packs.ruleset import COMPUTE_FIELDS, STEP_TIME_FIELD, WAIT_FIELD, RuleSet
from epicenter.rules.packs.waits import stated_wait_ns
from epicenter.rules.placement.banners import placements_of
from epicenter.rules.redact.redactor import Redactor
from epicenter.stream.scan.batch_lines import BatchLines
from epicenter.stream.scan.blocks import RecordHits, join_blocks, with_short_lines
from epicenter.stream.scan.confirm import Confirmer, patterns_by_record
from epicenter.stream.scan.heartbeats import Heartbeats
from epicenter.stream.scan.line_times import Earlier, LineTimes
from epicenter.stream.scan.liveness import MAX_SPEAKERS, Liveness
from epicenter.stream.scan.prefilter import Prefilter, Prefiltered, scanner_of
from epicenter.stream.scan.redaction import Redactions, match_id, redacted_dead_letter, without_secrets
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.scan.validation import Fault, envelope_fault, searchable, unescaped, why_invalid, without_tails

_HOUR_NS = 3600 * NS_PER_S


@dataclass
class ScanResult:
    """The results of a batch. `records = matched + quiet + dead`, exactly: an oversized record counts as dead, even if
    its head matches. `newest_ns` is None without any time. `observed` are matches that report no failure, for windows
    that watch them. `latest_ns_by_match`: when errors and ends that state no time were written at the latest, in a
    recording. `redactions` are the kinds of the secrets removed. `shortened` counts the lines that were too long to be
    searched in full.
    """

    records: int = 0
    matched: int = 0
    dead: int = 0
    harmless: int = 0
    newest_ns: int | None = None
    matches: list[Match] = field(default_factory=list)
    observed: list[Match] = field(default_factory=list)
    latest_ns_by_match: dict[str, int] = field(default_factory=dict)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    rank_placements: list[RankPlacement] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    redactions: Redactions = field(default_factory=list)
    shortened: int = 0

    @property
    def quiet(self) -> int:
        """Records without a hit."""
        return self.records - self.matched - self.dead

    @property
    def pending(self) -> int:
        """How many of the results wait in the correlator for the watermark."""
        return len(self.matches) + len(self.observed) + len(self.heartbeats)


class BatchScanner:
    """Scans batches of one cluster; they may be cut anywhere.

    Rules see the whole line; a `redactor` removes secrets from their matches. State between batches: the times of each
    source so far (`earlier_by_source`), and which writers were alive. `may_be_pasted`: lines may have passed
    through a ticket or an export, which takes longer to read. `finds_liveness`: who was alive when is asked for.
    """

    def __init__(
        self,
        rules: RuleSet,
        cluster: str,
        scanner: Scanner | None = None,
        keep_all: bool = False,
        rule_budget: RuleBudget | None = None,
        redactor: Redactor | None = None,
        may_be_pasted: bool = False,
        finds_liveness: bool = True,
    ):
        self._may_be_pasted = may_be_pasted
        self._finds_liveness = finds_liveness
        self._redactor = redactor
        self._rule_budget = rule_budget or RuleBudget()
        self._cluster = cluster
        self._keep_all = keep_all
        self.reload(rules, scanner)
        self.earlier_by_source: dict[str, Earlier] = {}
        self._liveness = Liveness()
        self._reported_pods: set[tuple[str, str, str]] = set()
        self._placed_hour_by_source: dict[str, int] = {}

    def reload(self, rules: RuleSet, scanner: Scanner | None = None) -> None:
        """Use these rules from the next batch on; the state of sources stays."""
        self._scanner = scanner or scanner_of(rules, in_triage=self._keep_all)
        self._prefilter = Prefilter(self._scanner)
        self._owners = rules.rule_of_pattern
        self._observed = observed(rules)
        in_full = None if self._keep_all else self._observed
        self._confirmer = Confirmer(rules, self._scanner, self._cluster, in_full, self._may_be_pasted)

    def scan(self, batch: Batch, is_last: bool = True) -> ScanResult:
        """Every match, heartbeat and dead letter of the batch; deterministic.

        With `is_last` false, it stops before a block that may continue beyond the batch. `records` is the number
        scanned; pass the others again at the start of the next batch.
        """
        whole = searchable(batch.values)
        invalid = why_invalid(whole, batch.is_text)
        values = without_tails(whole, invalid)
        batch, validated = replace(batch, values=whole), replace(batch, values=values)
        prefiltered = self._prefilter.prefiltered(values)
        lines = BatchLines(validated, self._cluster, invalid)
        times = LineTimes(lines, self.earlier_by_source.get(batch.source, Earlier()))
        hits_by_record = self._hits_by_record(times, self._candidates(values, prefiltered), invalid)
        if self._may_be_pasted and batch.is_text:
            self._join_wrapped(times, hits_by_record)
        end = join_blocks(hits_by_record, lines, is_last)
        for number in prefiltered.suspicious:
            if number not in hits_by_record and number not in invalid and (fault := envelope_fault(values[number])):
                invalid[number] = fault
        with_hits = [record for number, record in sorted(hits_by_record.items()) if number < end]
        self.earlier_by_source[batch.source] = times.earlier_than(end, _last_own_time(with_hits))
        invalid = {number: fault for number, fault in invalid.items() if number < end}
        scanned, heartbeats = self._scanned(times, end, with_hits, invalid)
        if self._finds_liveness:
            self._record_cut_lines(times.anew(), invalid, heartbeats)
            self._record_liveness(times.anew(), end, prefiltered, scanned, heartbeats)
        return self._finished(scanned, heartbeats, batch, invalid)

    def _hits_by_record(
        self, times: LineTimes, candidates: Mapping[int, Sequence[int]], invalid: dict[int, Fault]
    ) -> dict[int, RecordHits]:
        hits_by_record = {}
        for number, patterns in candidates.items():
            if not (allowed := self._rule_budget.within_budget(patterns, self._owners)):
                continue
            begun_s = self._rule_budget.clock_s()
            try:
                parsed, hits = self._confirmer.confirmed(times.batch.record(number), times.lines.read(number), allowed)
            except RecordError as error:
                invalid[number] = Fault.of(error)
                continue
            self._rule_budget.record(allowed, self._owners, hits, begun_s)
            if hits:
                hits_by_record[number] = RecordHits(number, times.with_time(parsed, number), hits)
        return hits_by_record

    def _join_wrapped(self, times: LineTimes, hits_by_record: dict[int, RecordHits]) -> None:
        """Name lines that were wrapped, where no part of them is named, in place."""
        values = times.batch.values
        if any(map(is_envelope, values[:1])):
            return
        whole = values.cut_up() if isinstance(values, TextLines) else values
        for texts, first, end in unwrapped([value.decode("utf-8", "replace") for value in whole]):
            parts = [hits_by_record[number] for number in range(first, end) if number in hits_by_record]
            if any(hit.is_failure and not hit.rule.spec.fallback for part in parts for hit in part.hits):
                continue
            if found := next(filter(None, map(partial(self._of_whole, times, first), texts)), None):
                for part in parts:
                    del hits_by_record[part.number]
                hits_by_record[first] = found

    def _of_whole(self, times: LineTimes, number: int, text: str) -> RecordHits | None:
        """The hits in this text in place of the record's, if it names a failure."""
        value = text.encode("utf-8", "surrogatepass")
        candidates = patterns_by_record(self._scanner.scan([value])).get(0)
        if not candidates:
            return None
        record = msgspec.structs.replace(times.batch.record(number), value=value)
        parsed, hits = self._confirmer.confirmed(record, parse(record, self._cluster), candidates)
        is_named = any(hit.is_failure and not hit.rule.spec.fallback for hit in hits)
        return RecordHits(number, times.with_time(parsed, number), hits) if is_named else None

    def _scanned(
        self, times: LineTimes, end: int, with_hits: Sequence[RecordHits], invalid: Mapping[int, Fault]
    ) -> tuple[ScanResult, Heartbeats]:
        """The results of records with hits; liveness and dead letters are added later."""
        batch, scanned, heartbeats = times.batch, ScanResult(records=end), Heartbeats()
        scanned.shortened, self._confirmer.shortened = self._confirmer.shortened, 0
        scanned.matched = sum(record.number not in invalid for record in with_hits)
        for record in with_hits:
            event = record.parsed.event
            self._record_pod(event, scanned)
            if event.has_own_time or not batch.is_recorded:
                scanned.newest_ns = _later(scanned.newest_ns, event, batch.received_ns[record.number])
            scanned.harmless += "harmless" in [hit.rule.spec.role for hit in record.hits]
            evaluates = any(hit.rule.spec.phase == EVALUATION for hit in record.hits)
            for hit in record.hits:
                if not (evaluates and hit.rule.spec.role == "progress"):
                    _record_heartbeat(heartbeats, event, hit)
                    if hit.rule.spec.role == "progress" and (until_ns := times.next_ns(record.number, event)):
                        heartbeats.add_until(event, until_ns)
                if hit.rule.spec.role == "placement":
                    scanned.rank_placements += placements_of(event, hit.fields)
                if self._keep_all or hit.rule.spec.role not in QUIET_ROLES:
                    match = _match(hit, event, record.block if hit.is_failure else ())
                    scanned.matches.append(match)
                    may_end = hit.rule.spec.severity in ERRORS or hit.rule.spec.role == "finished"
                    if may_end and (latest_ns := times.latest_ns(record.number, event)):
                        scanned.latest_ns_by_match[match.match_id] = latest_ns
                elif hit.rule.spec.id in self._observed:
                    scanned.observed.append(_match(hit, event, ()))
        return scanned, heartbeats

    def _candidates(self, values: Records | TextLines, prefiltered: Prefiltered) -> dict[int, list[int]]:
        hits, escaped = prefiltered.candidates, prefiltered.escaped
        if escaped:
            plain = [unescaped(values[number]) for number in escaped]
            hits = sorted({*hits, *((escaped[number], pattern) for number, pattern in self._scanner.scan(plain))})
        return patterns_by_record(hits)

    def _record_liveness(
        self,
        times: LineTimes,
        end: int,
        prefiltered: Prefiltered,
        scanned: ScanResult,
        heartbeats: Heartbeats,
    ) -> None:
        """Record every writer in every ten seconds: this places its job on its node and advances event time."""

        batch = times.batch
        own_node = batch.origin is None or not batch.origin.hosts

        def time_of(number: int) -> int | None:
            event = self._timed_event(times, number)
            if event is None:
                return None
            scanned.newest_ns = _later(scanned.newest_ns, event, batch.received_ns[number])
            heartbeats.add_alive(event if own_node else msgspec.structs.replace(event, node=""))
            self._record_pod(event, scanned)
            if event.job:
                scanned.rank_placements += self._places_of_file(event, batch)
            return event.event_time_ns

        self._liveness.observe(batch, end, prefiltered.of_kernel, time_of)

    def _timed_event(self, times: LineTimes, number: int) -> LogEvent | None:
        """The event of a record; None if nothing says when it happened."""
        parsed = times.lines.at(number)
        is_recorded = times.batch.is_recorded
        if parsed is None or (is_recorded and not parsed.event.has_own_time):
            return None
        event = times.alone(number, parsed).event
        return event if event.has_own_time or not is_recorded else None

    def _record_pod(self, event: LogEvent, scanned: ScanResult) -> None:
        """Record a pod's job, node and address from its lines: Kubernetes' events and peers name only the pod."""
        pod = (event.cluster, event.pod, event.node)
        if event.pod and event.job and pod not in self._reported_pods:
            if len(self._reported_pods) >= MAX_SPEAKERS:
                self._reported_pods.clear()
            self._reported_pods.add(pod)
            place = (event.event_time_ns, event.cluster, event.job, event.node)
            scanned.rank_placements.append(RankPlacement(*place, pod=event.pod))
            if event.address and event.node:
                scanned.rank_placements.append(RankPlacement(*place, address=event.address))

    def _places_of_file(self, event: LogEvent, batch: Batch) -> list[RankPlacement]:
        """Once an hour: where a file's rank runs, by its path, and the nodes of its tasks, even when they are quiet."""
        origin, hour = batch.origin, event.event_time_ns // _HOUR_NS
        if origin is None or self._placed_hour_by_source.get(batch.source) == hour:
            return []
        self._placed_hour_by_source[batch.source] = hour
        time_ns, cluster, job = event.event_time_ns, event.cluster, event.job
        hosts = sorted(filter(None, set(origin.hosts)))
        of_tasks = [RankPlacement(time_ns, cluster, job, host, is_listed=True) for host in hosts]
        if origin.rank is None or (origin.node, origin.rank, origin.job) != (event.node, event.rank, job):
            return of_tasks
        return [*of_tasks, RankPlacement(time_ns, cluster, job, origin.node, rank=origin.rank)]

    def _finished(
        self, scanned: ScanResult, heartbeats: Heartbeats, batch: Batch, invalid: Mapping[int, Fault]
    ) -> ScanResult:
        scanned.heartbeats, scanned.rank_placements = (
            heartbeats.sorted(),
            sorted(set(scanned.rank_placements), key=RankPlacement.order),
        )
        for number, fault in sorted(invalid.items()):
            dead_letter, redactions = redacted_dead_letter(self._redactor, *fault, batch.record(number))
            scanned.dead_letters.append(dead_letter)
            scanned.redactions += redactions
        scanned.dead = len(scanned.dead_letters)
        self._redact(scanned)
        return scanned

    def _redact(self, scanned: ScanResult) -> None:
        """In place; long lines of blocks are cut afterwards, so that no half of a secret stays."""
        matches = [*scanned.matches, *scanned.observed]
        if self._redactor and matches:
            matches, redactions = without_secrets(self._redactor, matches)
            scanned.redactions += redactions
        matches = list(map(with_short_lines, matches))
        scanned.matches, scanned.observed = matches[: len(scanned.matches)], matches[len(scanned.matches) :]

    def _record_cut_lines(self, times: LineTimes, invalid: Mapping[int, Fault], heartbeats: Heartbeats) -> None:
        """Record envelopes that end in the middle: their writer was stopped."""
        for number, fault in sorted(invalid.items()):
            record = times.batch.record(number)
            if fault.kind is DeadLetterKind.NOT_JSON and not record.value.rstrip().endswith(b"}"):
                heartbeats.add_cut(times.with_time(parse(record, self._cluster), number).event)


def _last_own_time(records: Sequence[RecordHits]) -> int:
    """The time that the last of them states; 0 if none does."""
    own = (record.parsed.event.event_time_ns for record in reversed(records) if record.parsed.event.has_own_time)
    return next(own, 0)


def _match(hit: LineHit, event: LogEvent, block: tuple[str, ...]) -> Match:
    rule_id = hit.rule.spec.id
    return Match(match_id(rule_id, event), rule_id, event, dict(hit.fields), block)


def _record_heartbeat(heartbeats: Heartbeats, event: LogEvent, hit: LineHit) -> None:
    spec, fields = hit.rule.spec, hit.fields
    if spec.role == "progress":
        if fields.get("step"):
            heartbeats.add_step(event, fields["step"], fields.get("rank", ""), _compute_ns(fields))
            if fields["step"] == fields.get("steps_total") and "epoch" not in fields:
                heartbeats.add_last(event, fields["step"])
        else:
            heartbeats.add_progress(event)
    elif spec.role == "placement":
        heartbeats.add_place(event, fields.get("rank", ""), fields.get("world_size", ""))
        heartbeats.add_node_count(event, fields.get("node_count", ""))
    if spec.phase == "cut":
        heartbeats.add_cut(event)
    elif spec.phase:
        heartbeats.add_phase(event, spec.phase)
    if saved_step := fields.get("step_saved"):
        heartbeats.add_saved(event, saved_step)


def _compute_ns(fields: Mapping[str, str]) -> int | None:
    for name in COMPUTE_FIELDS:
        if name in fields:
            return stated_wait_ns(fields[name], name.removeprefix("compute_"))
    if WAIT_FIELD not in fields or STEP_TIME_FIELD not in fields:
        return None
    return max(0, stated_wait_ns(fields[STEP_TIME_FIELD], "s") - stated_wait_ns(fields[WAIT_FIELD], "s"))


def _later(newest_ns: int | None, event: LogEvent, received_ns: int) -> int:
    """Event time as a clock: never ahead of receipt, so that one node's fast clock can't make others late."""
    return max(newest_ns or 0, min(event.event_time_ns, received_ns))
