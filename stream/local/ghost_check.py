"""Finds incidents that store or journal record as open, and that the logs no longer confirm, once a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from socket import gethostname
from time import time_ns

from epicenter.rules.correlate.unconfirmed import WHY, unconfirmed
from epicenter.rules.errors import PipelineError
from epicenter.rules.model.incident import Incident
from epicenter.sinks.clickhouse.reading import open_incidents
from epicenter.sinks.log import get_logger
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

log = get_logger(__name__)


def writer_of(settings: Settings) -> str:
    """The name of this installation in the store. An embedded store has no other writer; several may share a server."""
    return f"run on {gethostname()}: {settings.data_dir.absolute()}" if settings.store.get_secret_value() else "run"


class GhostCheck:
    """Waits until all logs were read to their end, and event time has passed their newest line."""

    def __init__(self, settings: Settings, store: Store, pipeline: Pipeline):
        self._writer = writer_of(settings)
        self._store = store
        self._pipeline = pipeline
        self._unread: set[str] | None = None
        self._confirms_at_ns: int | None = None
        self._is_over = False

    async def ended(
        self, lagging: Collection[str], notified: Sequence[Incident], known: Collection[str]
    ) -> list[Incident]:
        """The ends of such incidents; none until the time has come, and none after it.

        `lagging` are the sources with more to read in this round, `notified` the open incidents of the journal, `known`
        the ids of those that are open.
        """
        if self._is_over or not self._is_time(lagging):
            return []
        try:
            stored = await self._store.query(partial(open_incidents, writer=self._writer))
        except PipelineError as error:
            log.warning("open_incidents_unread", error=str(error), detail="trying again")
            return []
        self._is_over = True
        ended = unconfirmed([*notified, *stored], known, time_ns())
        if ended:
            names = [incident.incident_id for incident in ended]
            log.warning("unconfirmed_incidents_ended", incidents=names, detail=WHY)
        return ended

    def _is_time(self, lagging: Collection[str]) -> bool:
        self._unread = set(lagging) if self._unread is None else self._unread.intersection(lagging)
        if not self._unread and self._confirms_at_ns is None:
            self._confirms_at_ns = self._pipeline.newest_ns
        return self._confirms_at_ns is not None and self._pipeline.settled_ns >= self._confirms_at_ns
