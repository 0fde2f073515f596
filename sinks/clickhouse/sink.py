"""Writes rows to ClickHouse. Calls block, so callers on an event loop use a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from epicenter.rules.errors import TransientError
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter, Delivery, Gap, JobState, Joined, Sample
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.sinks.clickhouse import rows as shapes
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.rows import Rows, RuleFacts
from epicenter.sinks.log import get_logger

log: Final = get_logger(__name__)

SMALL_BATCH_ROWS: Final = 1_000
"""Smaller batches are inserted asynchronously, so that the server combines those of many workers."""


def _log_retry(details: RetryDetails) -> None:
    """In place of stamina's own, which prints to standard output and raises where that is full or closed."""
    log.warning("store_write_retried", error=str(details.caused_by))


set_on_retry_hooks([_log_retry])


class ClickHouseSink:
    """Idempotent writes: ids come from content, so a batch written twice reads (`FINAL`) like one written once.

    `writer` names the installation that writes.
    """

    def __init__(self, client: Client, retry_for_s: float = 60.0, writer: str = ""):
        self._client = client
        self._retry_for_s = retry_for_s
        self._writer = writer

    def write(
        self,
        incidents: Sequence[Incident] = (),
        matches: Sequence[tuple[Match, RuleFacts]] = (),
        observed: Sequence[tuple[Match, RuleFacts]] = (),
        heartbeats: Sequence[Heartbeat] = (),
        rank_placements: Sequence[RankPlacement] = (),
        signals: Sequence[Joined] = (),
        gaps: Sequence[Gap] = (),
        deliveries: Sequence[Delivery] = (),
        samples: Sequence[Sample] = (),
        dead_letters: Sequence[DeadLetter] = (),
        job_states: Sequence[JobState] = (),
    ) -> None:
        """Write everything; on return it is stored. After a failure, write everything again.

        `observed` are matches without a failure: only what their rules record is stored.

        Raises:
            TransientError: the store was unavailable for longer than `retry_for_s`.
            RejectedError: the store will never accept this batch.
            ConfigError: a table or a privilege is missing.
        """
        found = [*matches, *observed]
        batches = (
            shapes.match_rows(matches),
            shapes.capacity_rows(found),
            shapes.measurement_rows(found),
            shapes.gap_rows([*gaps, *shapes.gaps_in(found)]),
            shapes.liveness_rows(heartbeats),
            shapes.progress_rows(heartbeats),
            shapes.placement_rows(rank_placements),
            shapes.job_state_rows(job_states),
            shapes.signal_rows(signals),
            shapes.delivery_rows(deliveries),
            shapes.sample_rows(samples),
            shapes.dead_letter_rows(dead_letters),
            shapes.incident_revision_rows(incidents),
            shapes.incident_rows(incidents, self._writer),
        )
        for rows in batches:
            if len(rows):
                self._insert(rows)

    def _insert(self, rows: Rows) -> None:
        settings = {
            "insert_deduplication_token": rows.token(),
            "async_insert": int(len(rows) < SMALL_BATCH_ROWS and not self._client.is_embedded),
            "wait_for_async_insert": 1,
            "max_partitions_per_insert_block": 0,  # old logs may reach over many months
        }
        insert = partial(self._client.insert, rows.table, rows.columns, rows.names, rows.types, settings)
        try:
            insert()
        except TransientError:
            if not self._retry_for_s:
                raise
            self._retry(insert)

    def _retry(self, insert: Callable[[], None]) -> None:
        """Insert after a failure; each retry context leaves 28 objects in a cycle to the garbage collector."""
        for attempt in stamina.retry_context(
            on=TransientError, attempts=None, timeout=self._retry_for_s, wait_initial=0.2, wait_max=5.0
        ):
            with attempt:
                insert()
