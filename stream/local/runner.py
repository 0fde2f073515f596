"""`epicenter run`: one machine, live, with the embedded store and a local page; no server needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic_ns, time_ns
from typing import Final, TypeVar

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import Source, Sources
from epicenter.rules.errors import TransientError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.page import Feed, page
from epicenter.sinks.page.dead_letters import dead_letter_routes
from epicenter.stream.alerts.file import alerts_of
from epicenter.stream.local.ghost_check import GhostCheck, writer_of
from epicenter.stream.local.notifier import LocalNotifier
from epicenter.stream.local.own_incident import DiskFullIncident
from epicenter.stream.local.page import metrics_route, served
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.local.saved_state import StateFile
from epicenter.stream.local.source_report import SourceReport
from epicenter.stream.local.store_writer import LocalStoreWriter
from epicenter.stream.process.page_token import checked_token
from epicenter.stream.process.systemd import Systemd
from epicenter.stream.rule_tools.reload import Reloader, running
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.scan.scan import ScanResult
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

PAUSE_S: Final = 0.1
Show = Callable[[Incident], None]
Result = TypeVar("Result")


class LocalRunner:
    """Follows sources, or reads them once, and keeps store and page up to date.

    `on_page` gets the address of the page once it is served. `on_batch` gets each batch that is read. With `state`, a
    run that follows continues where the last one was.
    """

    def __init__(
        self,
        settings: Settings,
        rules: RuleSet,
        sources: Sources,
        show: Show,
        report: Callable[[str], None],
        on_page: Callable[[str], None] | None = None,
        state: StateFile | None = None,
    ):
        self._settings = settings
        self._rules = rules
        self._sources = sources
        self._show = show
        self._report = report
        self._on_page = on_page
        self.on_batch: Callable[[Batch], None] = lambda batch: None
        self._state = state
        self._has_changes = False
        self._store = Store(settings.store_dsn, writer=writer_of(settings))
        self._systemd = Systemd()
        self._writer = LocalStoreWriter(self._store, rules, report)
        self._pipeline = Pipeline(
            rules,
            settings.cluster,
            settings.allowed_lateness_ns,
            self._writer.rule_budget,
            lists_joined=True,
            redactor=redactor_of(settings),
            state=state.pipeline if state else None,
        )
        self._ghosts = GhostCheck(settings, self._store, self._pipeline)
        self._disk_full = DiskFullIncident(settings.cluster, settings.data_dir)
        self._alerts = alerts_of(settings)
        self._notifier: LocalNotifier | None = None
        self._is_read = False
        self._new_rules: RuleSet | None = None
        self._reloader = Reloader(settings, rules, self._receive_rules, self._writer.metrics.record_reload, report)
        self._feed: Feed | None = None
        self._newest_read_ns = monotonic_ns()
        self._source_report = SourceReport(sources, settings.cluster, self._writer.metrics, report)
        self.records = 0
        self.dead = 0

    async def once(self) -> None:
        """Read every source to its end, then stop."""
        self._writer.is_patient = True
        await self._open()
        try:
            while lagging := [source for source in self._sources.all() if not source.has_ended]:
                if not await self._round(lagging):
                    await asyncio.sleep(PAUSE_S)
                still = [source.name for source in lagging if not source.has_ended]
                await self._publish(self._pipeline.advance(still) if still else [])
            await self._finish()
            self._is_read = True
        finally:
            await self._close()

    async def follow(
        self, until: asyncio.Event, afterwards: Callable[[], Awaitable[None]] | None = None, to_the_end: bool = False
    ) -> None:
        """Run until `until` is set, serving the local page; it stays up while `afterwards` runs.

        `to_the_end`: the writers have ended once `until` is set, so all the rest is read, however much it is.

        Raises:
            TransientError: rows that waited for the store are not stored.
        """
        await self._open()
        try:
            await self._save()
            async with self._page(), running(self._reloader.follow()):
                while not until.is_set():
                    self._systemd.alive()
                    self._apply_new_rules()
                    lagging = await self._round(self._sources.due(monotonic_ns()))
                    self._sources.look_for_new_files()
                    self._source_report.update(self._pipeline)
                    now_ns = monotonic_ns()
                    elapsed_ns = now_ns - self._newest_read_ns
                    await self._write(self._pipeline.overdue(now_ns))
                    await self._writer.write_metrics()
                    await self._publish(self._pipeline.advance(lagging, elapsed_ns))
                    await self._end_ghosts(lagging)
                    await self._save_when_due(bool(lagging))
                    if not lagging:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(until.wait(), PAUSE_S)
                self._sources.open_new_files()
                while await self._round(self._sources.all()) and to_the_end:
                    pass
                await (self._finish() if to_the_end else self._interrupt())
                if afterwards:
                    await afterwards()
        finally:
            await self._close()
        if self._writer.has_lost:
            raise TransientError("stopped before the store had taken all rows")

    async def _receive_rules(self, rules: RuleSet) -> None:
        self._new_rules = rules

    def _apply_new_rules(self) -> None:
        """Switch rules between two rounds, so that matches are stored with the rules that found them."""
        if self._new_rules:
            self._rules, self._new_rules = self._new_rules, None
            self._pipeline.reload(self._rules)

    async def _round(self, sources: list[Source]) -> list[str]:
        """Read each source once; return the names of those with new lines."""
        lagging = []
        found: list[ScanResult] = []
        for source in sources:
            if batch := self._sources.read(source, time_ns()):
                lagging.append(source.name)
                self._newest_read_ns = monotonic_ns()
                self.on_batch(batch)
                found.append(self._pipeline.process(batch, self._newest_read_ns))
                self._systemd.alive()
                await asyncio.sleep(0)
        await self._write(found)
        return lagging

    async def _write(self, found: list[ScanResult]) -> None:
        if not found:
            return
        self.records += sum(scanned.records for scanned in found)
        self.dead += sum(scanned.dead for scanned in found)
        await self._writer.write_scanned(found, self._rules)

    async def _finish(self) -> None:
        await self._write(self._pipeline.rest())
        await self._publish(self._pipeline.flush())

    async def _interrupt(self) -> None:
        """The next run continues here; what waits for late lines is published now as far as it is known."""
        await self._save()
        await self._write(self._pipeline.rest())
        await self._publish(self._pipeline.settle())

    async def _save_when_due(self, has_lines: bool) -> None:
        self._has_changes |= has_lines
        if self._state and self._state.is_due(self._has_changes):
            await self._save()

    async def _save(self) -> None:
        """Save the state if everything that led to it was stored, and the notifications of it too."""
        if not self._state or self._problem():
            return
        positions = self._sources.positions(self._pipeline.first_buffered)
        if positions is not None:
            await asyncio.to_thread(self._state.save, self._pipeline.snapshot(), positions)
            self._has_changes = False

    async def _end_ghosts(self, lagging: list[str]) -> None:
        if self._problem():
            return
        notified = self._notifier.open_incidents() if self._notifier else []
        ended = await self._ghosts.ended(lagging, notified, self._pipeline.open_ids | self._disk_full.open_ids)
        if ended:
            await self._publish(ended)

    async def _publish(self, incidents: list[Incident]) -> None:
        incidents = [*incidents, *self._own_incidents()]
        written = await self._writer.write_outcome(self._pipeline, incidents, self._rules)
        if self._notifier:
            await self._notifier.process(incidents)
        if self._feed and written.is_list_changed:
            self._feed.notify()
        elif self._feed and written.is_job_changed:
            self._feed.notify_jobs()
        for incident in incidents:
            self._show(incident)

    def _own_incidents(self) -> list[Incident]:
        problem = self._writer.problem if self._writer.is_disk_full else ""
        return self._disk_full.update(problem, self._writer.is_losing, time_ns())

    @asynccontextmanager
    async def _page(self) -> AsyncIterator[None]:
        self._feed = Feed()
        application = page(self._store.query, self._health, self._feed, checked_token(self._settings, "page"))
        application.add_routes(dead_letter_routes(self._store.list_dead_letters, self._store.get_dead_letter))
        application.add_routes([metrics_route(self._writer.metrics_text)])
        async with served(application, self._settings, self._settings.data_dir) as url:
            self._report(f"incidents: {url}")
            if self._on_page:
                self._on_page(url)
            yield

    def _health(self) -> dict[str, object]:
        silent_s = (monotonic_ns() - self._newest_read_ns) // NS_PER_S
        return {
            "status": self._problem() or "ok",
            "records": self.records,
            "dead_letters": self.dead,
            "seconds_since_last_line": silent_s,
            **self._source_report.health(),
            "rules": self._reloader.health(),
        }

    def _problem(self) -> str:
        journal = self._notifier.problem if self._notifier else ""
        return "; ".join(filter(None, (self._writer.problem, journal)))

    async def _open(self) -> None:
        await self._store.open()
        if self._alerts:
            self._notifier = LocalNotifier(
                self._settings, self._alerts, self._rules, self._store, self._writer, self._report
            )
            await self._notifier.open()

    async def _close(self) -> None:
        self._systemd.stopping()
        self._sources.close()
        if self._notifier:
            await self._notifier.close(self._is_read)
        await self._writer.write_last()
        await self._store.close()
