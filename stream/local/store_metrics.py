"""The metrics of a page whose store other processes write."""

from __future__ import annotations

from collections import Counter
from typing import Final

from epicenter.rules.errors import PipelineError
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.clickhouse.overview import open_by_kind
from epicenter.stream.metrics import Metrics
from epicenter.stream.store.thread import Store

NAMES: Final = ("epicenter_incidents_open", "epicenter_build_info")


class StoreMetrics:
    """The open incidents of a store, of all clusters in it; none while the store is unreachable."""

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
        else:
            self._metrics.record_open(counts)
        return self._metrics.text()
