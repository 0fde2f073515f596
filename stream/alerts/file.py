"""The alerts file of the settings, or the equivalent of the setting `webhook_url`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from epicenter.rules.alerts.spec import RouteSpec
from epicenter.sinks.notify.load import Alerts, load_alerts, webhook_alerts
from epicenter.sinks.text.humanize import count
from epicenter.stream.process.logs import print_message
from epicenter.stream.settings import Settings


def alerts_of(settings: Settings, file: Path | None = None) -> Alerts | None:
    """The routes and targets of this file, else of the settings; None if there are none.

    Raises:
        ConfigError: with every problem of the file.
    """
    if chosen := file or settings.alerts:
        return read_alerts(chosen)
    url = settings.webhook_url.get_secret_value()
    return webhook_alerts(url) if url else None


def read_alerts(file: Path) -> Alerts:
    """Read an alerts file, with a warning on standard error for each former name in it.

    Raises:
        ConfigError: with every problem of the file.
    """
    alerts = load_alerts(file)
    for text in alerts.warnings:
        print_message(f"epicenter: warning: {text}", logging.WARNING)
    return alerts


def in_short(alerts: Alerts) -> str:
    """The numbers of targets and routes, without secrets."""
    found = numbers(alerts)
    return f"{count(found['targets'], 'target')}, {count(found['routes'], 'route')}"


def numbers(alerts: Alerts) -> dict[str, int]:
    """How many targets and routes there are."""
    return {"targets": len(alerts.spec.targets), "routes": sum(1 for _ in _routes(alerts.spec.route))}


def _routes(route: RouteSpec) -> Iterator[RouteSpec]:
    yield route
    for inner in route.routes:
        yield from _routes(inner)
