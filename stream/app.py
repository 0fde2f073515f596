"""The Faust app: every hop from the raw topic to the store is wired here. Read this file first.

raw topic ── Matcher ──▶ matches ── Correlator (snapshots) ──▶ incidents, signals ── StoreWriter ──▶ ClickHouse
                └──────▶ dead letters                  matches, dead letters ──────────────┘
                                                                    incidents ── Notifier (journal) ──▶ targets

Faust starts, supervises and stops the services and serves the pages. Each service has its own Kafka clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import faust
from faust.web import Request, Response, View
from mode import Service

from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.log import get_logger
from epicenter.sinks.net.token_guard import IS_KNOWN, OPEN_PATHS, require_token
from epicenter.stream.kafka.preflight import watch
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.page_token import checked_token
from epicenter.stream.rule_tools.reload import Reloader
from epicenter.stream.services.correlator import Correlator
from epicenter.stream.services.matcher import Matcher
from epicenter.stream.services.metrics_exporter import MetricsExporter
from epicenter.stream.services.notifier import Notifier
from epicenter.stream.services.store_writer import StoreWriter
from epicenter.stream.settings import Settings

STALLED_AFTER_S: Final = 60.0
log: Final = get_logger(__name__)
SERVICES: Final[dict[str, Any]] = {"match": Matcher, "correlate": Correlator, "store": StoreWriter, "notify": Notifier}

HAVE_RULES: Final = (Matcher, Correlator, StoreWriter)


def build_app(settings: Settings, rules: RuleSet) -> faust.App:
    """Build the Faust app without starting it.

    Raises:
        ConfigError: the web server listens on an address that other hosts reach, and no token is set.
    """
    metrics, app = Metrics(), _faust_app(settings)
    running: list[Any] = []
    wanted = [name for name in settings.services if name != "notify" or settings.alerts or settings.webhook_url]
    for name in wanted:
        app.service(_bound(SERVICES[name], running, settings, rules, metrics))
    app.service(_bound(MetricsExporter, [], settings, rules, metrics))
    reloader = _add_reloader(app, settings, rules, metrics, running)
    _add_pages(app, metrics, running, reloader)
    _add_probes(app, running, len(wanted))
    app.task(lambda: watch(settings, lambda text: log.error("kafka_reachability_changed", detail=text)))
    return app


def _add_reloader(
    app: faust.App, settings: Settings, rules: RuleSet, metrics: Metrics, running: Sequence[Any]
) -> Reloader:
    async def reload(new: RuleSet) -> None:
        for service in running:
            if isinstance(service, HAVE_RULES):
                await service.reload(new)

    metrics.record_rules(rules)

    def report(text: str) -> None:
        log.warning("rules_reloaded", detail=text)

    reloader = Reloader(settings, rules, reload, metrics.record_reload, report)
    app.task(reloader.follow)
    return reloader


def _bound(service: type[Service], running: list[Any], *arguments: Any) -> type[Service]:
    """A subclass that Faust can construct with its own arguments only. Each instance is appended to `running`."""

    class Bound(service):
        def __init__(self, **kwargs: Any):
            super().__init__(*arguments, **kwargs)
            running.append(self)

    return Bound


def _faust_app(settings: Settings) -> faust.App:
    token = checked_token(settings, "web")
    app = faust.App(
        settings.prefix,
        datadir=settings.data_dir / "faust",
        web_host=settings.web_host,
        web_bind=settings.web_host,
        web_port=settings.web_port,
        web_tables_enabled=False,
        web_router_enabled=False,
        web_graph_enabled=False,
        web_stats_enabled=False,
        web_application_options={"middlewares": [require_token(token, *OPEN_PATHS)]},
        worker_redirect_stdouts=False,
    )
    app.boot_strategy.enable_kafka = False
    return app


def _add_probes(app: faust.App, running: Sequence[Any], wanted: int) -> None:
    @app.page("/livez")
    async def show_live(view: View, request: Request) -> Response:
        return view.json({"status": "ok"})

    @app.page("/readyz")
    async def show_ready(view: View, request: Request) -> Response:
        problems = unready(running, wanted, monotonic())
        shown: dict[str, object] = {"status": "not ready" if problems else "ok"}
        if request[IS_KNOWN] and problems:
            shown["problems"] = problems
        return view.json(shown, status=503 if problems else 200)


def unready(running: Sequence[Any], wanted: int, now_s: float) -> list[str]:
    """Why this worker can't do its work at the moment: nothing if it can, with partitions or as a spare one."""
    if len(running) < wanted:
        return ["it is starting"]
    problems = []
    for service in running:
        if not service.has_joined:
            problems.append(f"{service.group} has not been joined yet")
        elif now_s - service.last_fetch_s >= STALLED_AFTER_S:
            problems.append(f"{service.group}: no fetch for {now_s - service.last_fetch_s:.0f} s")
        problems += filter(None, [getattr(service, "store_problem", "")])
    return problems


def _add_pages(app: faust.App, metrics: Metrics, running: Sequence[Any], reloader: Reloader) -> None:
    @app.page("/metrics")
    async def show_metrics(view: View, request: Request) -> Response:
        return view.bytes(metrics.text(), content_type="text/plain")

    @app.page("/healthz")
    async def show_health(view: View, request: Request) -> Response:
        silent_s = max((monotonic() - service.last_fetch_s for service in running), default=0.0)
        is_healthy = silent_s < STALLED_AFTER_S
        health: dict[str, object] = {"status": "ok" if is_healthy else "stalled"}
        if request[IS_KNOWN]:
            over_budget = [report for service in running for report in getattr(service, "over_budget", ())]
            health["seconds_since_last_fetch"] = round(silent_s, 1)
            health["rules"] = reloader.health() | {"floods": over_budget}
        return view.json(health, status=200 if is_healthy else 503)
