"""The Faust app: every hop from the raw topic to the store is wired here; read this file first.

raw topic ── Matcher ──▶ matches ── correlate (agent, table) ──▶ incidents, signals ── StoreWriter ──▶ ClickHouse
                └──────▶ dead letters                 matches, dead letters ───────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import faust
import msgspec
from faust.web import Request, Response, View
from mode import CrashingSupervisor

from rules.errors import RecordError
from rules.load import load
from rules.model import DeadLetter, Incident, Match, Position
from rules.ruleset import RuleSet
from stream.clients import HEARTBEAT_MS, SESSION_TIMEOUT_MS
from stream.correlator import Correlator
from stream.matcher import Matcher
from stream.messages import Part, decode, encode_in_pieces
from stream.metrics import Metrics
from stream.settings import Settings
from stream.storing import StoreWriter
from stream.topics import LARGEST_RAW_BYTES, TopicNames

STALLED_AFTER_S: Final = 60.0


def build_app(settings: Settings) -> faust.App:
    """The app, not started. Rules are loaded here, so that a broken pack stops the start."""
    rules, metrics, app = load(settings.rule_packs, settings.topology), Metrics(), _faust_app(settings)
    _add_correlate(app, settings, rules, metrics)
    services: dict[str, Any] = {}

    @app.service
    class _Matcher(Matcher):
        def __init__(self, **kwargs: Any):
            super().__init__(settings, rules, metrics, **kwargs)
            services["matcher"] = self

    @app.service
    class _StoreWriter(StoreWriter):
        def __init__(self, **kwargs: Any):
            super().__init__(settings, rules, metrics, **kwargs)

    _add_pages(app, metrics, services)
    return app


def _faust_app(settings: Settings) -> faust.App:
    return faust.App(
        settings.prefix,
        broker=[f"kafka://{address.strip()}" for address in settings.kafka.split(",")],
        datadir=settings.data_dir / "faust",
        store="memory://",
        topic_partitions=settings.match_partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        reply_create_topic=False,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        producer_max_request_size=LARGEST_RAW_BYTES,
        broker_session_timeout=SESSION_TIMEOUT_MS / 1000,
        broker_heartbeat_interval=HEARTBEAT_MS / 1000,
        stream_wait_empty=False,
        web_host=settings.web_host,
        web_bind=settings.web_host,
        web_port=settings.web_port,
        web_tables_enabled=False,
        worker_redirect_stdouts=False,
    )


def _add_correlate(app: faust.App, settings: Settings, rules: RuleSet, metrics: Metrics) -> None:
    names = TopicNames(settings.prefix)
    table = app.Table("correlators", partitions=settings.match_partitions, key_type=bytes, value_type=bytes)
    correlators = Correlators(app, settings, rules, table, metrics)

    @app.on_partitions_revoked.connect(weak=False)
    async def forget(_app: Any, *_: Any, **__: Any) -> None:
        correlators.forget()

    @app.agent(_raw_topic(app, names.matches), concurrency=1, supervisor_strategy=CrashingSupervisor)
    async def correlate(stream: Any) -> None:
        """An error ends the worker without an acknowledgement, so that another one takes the message again."""
        async for event in stream.noack().events():
            await correlators.take(event.message.partition, event.message.offset, event.value)
            event.ack()


class Correlators:
    """One correlator for each partition of matches that this worker owns; their snapshots live in a Faust table."""

    def __init__(self, app: faust.App, settings: Settings, rules: RuleSet, snapshots: Any, metrics: Metrics):
        names = TopicNames(settings.prefix)
        self._matches = names.matches
        self._signals = _raw_topic(app, names.signals)
        self._incidents = _raw_topic(app, names.incidents)
        self._dead_letters = _raw_topic(app, names.dead_letters)
        self._lateness_ns = settings.lateness_ns
        self._rules = rules
        self._snapshots = snapshots
        self._metrics = metrics
        self._by_partition: dict[int, Correlator] = {}

    def forget(self) -> None:
        """Partitions change hands: begin again from the snapshots."""
        self._by_partition.clear()

    async def take(self, partition: int, offset: int, value: bytes) -> None:
        """Send what changed, then keep the snapshot. Ended in between, the same message leads to the same incidents."""
        try:
            message = decode(value)
        except RecordError as error:
            await self._send_dead(partition, offset, value, str(error))
            return
        correlator = self._of(partition)
        changed = correlator.take(offset, message)
        for incident in changed:
            await self._send(incident)
        if windowed := correlator.windowed():
            await self._send_signals(partition, windowed)
        if changed or message.has_content:
            self._snapshots[str(partition).encode()] = correlator.snapshot()
        self._metrics.note_engine(partition, correlator.engine.counts)
        if changed:
            self._metrics.note_skews(correlator.engine.skews_ns())

    def _of(self, partition: int) -> Correlator:
        if partition not in self._by_partition:
            kept = self._snapshots.get(str(partition).encode())
            self._by_partition[partition] = Correlator(self._rules, self._lateness_ns, kept)
        return self._by_partition[partition]

    async def _send(self, incident: Incident) -> None:
        sent = await self._incidents.send(key=incident.incident_id.encode(), value=msgspec.json.encode(incident))
        await sent

    async def _send_signals(self, partition: int, windowed: Sequence[Match]) -> None:
        for value in encode_in_pieces([Part(f"{self._matches}/{partition}", None, None, tuple(windowed), ())]):
            await (await self._signals.send(value=value, partition=partition))

    async def _send_dead(self, partition: int, offset: int, value: bytes, reason: str) -> None:
        letter = DeadLetter.of(reason, Position(f"{self._matches}/{partition}", offset), value)
        await (await self._dead_letters.send(value=msgspec.json.encode(letter)))


def _add_pages(app: faust.App, metrics: Metrics, services: dict[str, Any]) -> None:
    @app.page("/metrics")
    async def show_metrics(view: View, request: Request) -> Response:
        return view.bytes(metrics.text(), content_type="text/plain")

    @app.page("/healthz")
    async def show_health(view: View, request: Request) -> Response:
        silent_s = monotonic() - services["matcher"].last_fetch_s if "matcher" in services else 0.0
        is_well = silent_s < STALLED_AFTER_S
        health = {"status": "ok" if is_well else "stalled", "seconds_since_last_fetch": round(silent_s, 1)}
        return view.json(health, status=200 if is_well else 503)


def _raw_topic(app: faust.App, name: str) -> Any:
    return app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
