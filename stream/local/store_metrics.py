"""The metrics of a page whose store other processes write."""

from __future__ import annotations

from collections import Counter
from typing import Final

from epicenter.rules.errors import PipelineError
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.clickhouse.overview import open_by_kind
from epicenter.stream.metrics import Metrics
from epicenter.stream.store.thread import Store

NAMES: Final = ("epicenter_incidents_open", "epicenter_store_up", "epicenter_build_info")


class StoreMetrics:
    """Whether a store answers, and its open incidents, of all clusters in it; none while it is unreachable."""

    def __init__(self, store: Store):
        self._store = store
        self._metrics = Metrics(NAMES)

    async def text(self) -> bytes:
        """The metrics as of now, in Prometheus' text format."""
        counts = Counter[tuple[str, str]]()
        try:
            for severity, name, number in await self._store.query(open_by_kind):
                counts[severity, vocabulary().bounded(name)] += number
        except PipelineError:
            self._metrics.forget_open()
            self._metrics.record_store_up(self._store.address, is_up=False)
        else:
            self._metrics.record_open(counts)
            self._metrics.record_store_up(self._store.address, is_up=True)
        return self._metrics.text()
