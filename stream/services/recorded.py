"""The incidents of one partition that the store or the journal of notifications has as open."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from aiokafka import AIOKafkaProducer

from epicenter.rules.alerts.state import AlertState
from epicenter.rules.errors import TransientError
from epicenter.rules.model.incident import Incident
from epicenter.sinks.clickhouse.reading import open_incidents
from epicenter.stream.alerts.topic_journal import SkipCorrupt, TopicJournal
from epicenter.stream.kafka.scan_messages import match_partition
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store


class RecordedIncidents:
    """Reads them anew at each call: it is needed only after data were lost."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, skip_corrupt: SkipCorrupt):
        self._settings = settings
        self._producer = producer
        self._skip_corrupt = skip_corrupt

    async def read(self, partition: int) -> Iterable[Incident]:
        """Revisions of each, some of them older.

        Raises:
            PipelineError, KafkaError: the store or the journal can't be read now.
        """
        journal = TopicJournal(self._settings, self._producer, partition, self._skip_corrupt)
        state, _ = AlertState.restored(await journal.load())
        in_journal = [open_incident.incident for open_incident in state.incidents.values()]
        return [*in_journal, *await self._in_store(partition)]

    async def _in_store(self, partition: int) -> list[Incident]:
        """Those of the clusters in this partition.

        Raises:
            TransientError: the store is another worker's.
        """
        if self._settings.store_dsn.startswith("chdb:") and "store" not in self._settings.services:
            raise TransientError("another worker has the embedded store open: set `store`")
        store = Store(self._settings.store_dsn)
        try:
            found = await store.query(partial(open_incidents, writer=self._settings.prefix))
        finally:
            await store.close()
        return [
            incident
            for incident in found
            if match_partition(incident.cluster, self._settings.match_partitions) == partition
        ]
