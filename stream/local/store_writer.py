"""Writes the matches, incidents and metrics of `epicenter run` to the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from time import monotonic, perf_counter, time_ns
from typing import Any, Final, NamedTuple

from epicenter.rules.errors import PipelineError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter, Delivery
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.report.open_incidents import OpenIncidents
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.local.queued_writes import QueuedWrites
from epicenter.stream.local.shown_states import ShownStates
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.sampling import Sampler
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.scan.scan import ScanResult
from epicenter.stream.store.thread import Store

LOCAL: Final = "local"
"""One metrics label for all sources of this machine: there may be ten thousand files."""


class Written(NamedTuple):
    """What a write changes on the page: incidents or their deliveries; the state of a job or its ranks."""

    is_list_changed: bool
    is_job_changed: bool


MatchesWithRule = list[tuple[Match, RuleSpec]]


class LocalStoreWriter:
    """Writes for one run, and counts what it wrote. `warn` gets failures that stop nothing.

    While the store fails, rows wait in memory. A run that `is_patient` waits for the store instead, up to a minute.
    """

    def __init__(self, store: Store, rules: RuleSet, warn: Callable[[str], None]):
        self._store = store
        self._warn = warn
        self._deliveries: list[Delivery] = []
        self._dead_letters: list[DeadLetter] = []
        self._open_incidents = OpenIncidents()
        self._shown_states = ShownStates()
        self.is_patient = False
        self.has_lost = False
        self.metrics = Metrics()
        self._writes = QueuedWrites(store, self.metrics)
        self.rule_budget = RuleBudget(clock_s=perf_counter)
        self._sampler = Sampler(self.metrics)
        self.metrics.record_rules(rules)

    @property
    def is_behind(self) -> bool:
        """Whether rows wait for the store, so that what was read is not all stored."""
        return self._writes.is_behind

    @property
    def problem(self) -> str:
        """Why rows wait, and how many; empty while all is stored."""
        return self._writes.problem

    @property
    def is_disk_full(self) -> bool:
        """Whether they wait because the disk of the store is full."""
        return self._writes.is_disk_full

    @property
    def is_losing(self) -> bool:
        """Whether rows were given up because too many wait."""
        return bool(self._writes.given_up)

    def queue_delivery(self, delivery: Delivery) -> None:
        """Queue the outcome of a notification for the next write."""
        self._deliveries.append(delivery)

    def queue_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Queue the dead letter of a refused notification for the next write."""
        self._dead_letters.append(dead_letter)

    async def write_scanned(self, found: Collection[ScanResult], rules: RuleSet) -> None:
        """Write scan results, with the rules that found them."""
        for scanned in found:
            self._record_scan(scanned)
        failures, quiet = _with_rules(
            [match for scanned in found for match in (*scanned.matches, *scanned.observed)], rules
        )
        await self._write(
            matches=failures,
            observed=quiet,
            heartbeats=[heartbeat for scanned in found for heartbeat in scanned.heartbeats],
            rank_placements=[rank_placement for scanned in found for rank_placement in scanned.rank_placements],
            dead_letters=[dead_letter for scanned in found for dead_letter in scanned.dead_letters],
        )

    async def write_outcome(self, pipeline: Pipeline, incidents: list[Incident], rules: RuleSet) -> Written:
        """Write the results of an advance and the deliveries since; return what that changes on the page."""
        self.metrics.record_opened(self._open_incidents.update(incidents))
        self.metrics.record_open(self._open_incidents.counts())
        failures, quiet = _with_rules(pipeline.windowed(), rules)
        delivered, job_states = self._pop_deliveries(), pipeline.job_states()
        await self._write(
            incidents=incidents,
            matches=failures,
            observed=quiet,
            signals=pipeline.joined(),
            gaps=pipeline.gaps(),
            job_states=job_states,
            **delivered,
        )
        is_list_changed = self._writes.take_caught_up() or bool(incidents or delivered["deliveries"])
        return Written(is_list_changed, self._shown_states.update(job_states))

    async def write_metrics(self) -> None:
        """Write metrics when they are due. A failure is only reported."""
        if used := self.rule_budget.rotate(monotonic()):
            self.metrics.record_uses(used)
        if samples := self._sampler.due():
            await self._try_to_write(samples=samples)

    async def metrics_text(self) -> bytes:
        """The metrics of this run, in Prometheus' text format."""
        return self.metrics.text()

    async def write_last(self) -> None:
        """Write the last deliveries and metrics, and what still waits; `has_lost` if that fails."""
        self.metrics.record_uses(self.rule_budget.rotate(math.inf) or {})
        await self._try_to_write(**self._pop_deliveries(), samples=self._sampler.samples())
        try:
            await self._writes.finish()
        except PipelineError as error:
            self.has_lost = True
            self._warn(str(error))

    def _record_scan(self, scanned: ScanResult) -> None:
        self.metrics.record_scan(LOCAL, scanned)
        if scanned.newest_ns is not None:
            self.metrics.record_newest_age(LOCAL, (time_ns() - scanned.newest_ns) / NS_PER_S)

    def _pop_deliveries(self) -> dict[str, list[Any]]:
        popped: dict[str, list[Any]] = {"deliveries": self._deliveries, "dead_letters": self._dead_letters}
        self._deliveries, self._dead_letters = [], []
        return popped

    async def _try_to_write(self, **contents: list[Any]) -> None:
        try:
            await (self._store.write_once(**contents) if self.is_patient else self._writes.write(**contents))
        except PipelineError as error:
            self._warn(f"metrics of this run were not stored: {error}")

    async def _write(self, **contents: list[Any]) -> None:
        if not any(contents.values()):
            return
        if self.is_patient:
            await self._store.write(**contents)
            self.metrics.record_stored({table: len(rows) for table, rows in contents.items() if rows})
        else:
            await self._writes.write(**contents)


def _with_rules(matches: Iterable[Match], rules: RuleSet) -> tuple[MatchesWithRule, MatchesWithRule]:
    """Matches of failures, and quiet ones, each with its rule."""
    pairs = [(match, rules.spec_of(match)) for match in matches]
    quiet = [pair for pair in pairs if pair[1].role in QUIET_ROLES]
    return [pair for pair in pairs if pair[1].role not in QUIET_ROLES], quiet
