"""The incidents of one partition that the store or the journal of notifications has as open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaProducer

from epicenter.rules.alerts.state import AlertState
from epicenter.rules.errors import TransientError
from epicenter.rules.model.incident import Incident
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.reading import IncidentFilter, find_incidents
from epicenter.stream.alerts.topic_journal import SkipCorrupt, TopicJournal
from epicenter.stream.kafka.scan_messages import match_partition
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

MAX_OPEN: Final = 10_000


def open_in(client: Client, writer: str) -> list[Incident]:
    """The incidents of an installation that the store has open, at most `MAX_OPEN`."""
    return find_incidents(client, IncidentFilter(status="open", writer=writer), MAX_OPEN)


class RecordedIncidents:
    """Reads them anew at each call: it is needed only after data were lost."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, skip_corrupt: SkipCorrupt):
        self._settings = settings
        self._producer = producer
        self._skip_corrupt = skip_corrupt

    async def read(self, partition: int) -> Iterable[Incident]:
        """The newest known revision of each.

        Raises:
            PipelineError, KafkaError: the store or the journal can't be read now.
        """
        journal = TopicJournal(self._settings, self._producer, partition, self._skip_corrupt)
        state, _ = AlertState.restored(await journal.load())
        in_journal = [open_incident.incident for open_incident in state.incidents.values()]
        newest: dict[str, Incident] = {}
        for incident in [*in_journal, *await self._in_store(partition)]:
            known = newest.setdefault(incident.incident_id, incident)
            if incident.revision > known.revision:
                newest[incident.incident_id] = incident
        return newest.values()

    async def _in_store(self, partition: int) -> list[Incident]:
        """Those of the clusters in this partition.

        Raises:
            TransientError: the store is another worker's.
        """
        if self._settings.store_dsn.startswith("chdb:") and "store" not in self._settings.services:
            raise TransientError("another worker has the embedded store open: set `store`")
        store = Store(self._settings.store_dsn)
        try:
            found = await store.query(lambda client: open_in(client, self._settings.prefix))
        finally:
            await store.close()
        return [
            incident
            for incident in found
            if match_partition(incident.cluster, self._settings.match_partitions) == partition
        ]
