"""`epicenter check`: settings, rules and every connection, looked at before anything is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click

from rules.errors import PipelineError
from sinks.clickhouse.client import connect
from sinks.clickhouse.migrate import plan
from stream.alerts_file import alerts_of, in_short
from stream.glance import MARKS
from stream.redacting import redactor_of
from stream.settings import Settings
from stream.topics import missing_topics
from stream.trial import proven


def check_all(settings: Settings) -> bool:
    """Print a line for each thing looked at; true when something is wrong."""
    checks: dict[str, Callable[[Settings], str]] = {
        "rules": _rules,
        "redaction": _redaction,
        "alerts": _alerts,
        "kafka": _kafka,
        "store": _store,
    }
    has_problems = False
    for name, look in checks.items():
        try:
            click.echo(f"{name}: ok: {look(settings)}")
        except PipelineError as error:
            has_problems = True
            click.echo(f"{name}: PROBLEM: {error}")
    return has_problems


def _rules(settings: Settings) -> str:
    rules = proven(settings.rule_packs, settings.topology, MARKS)
    return f"{len(rules.rules)} rules, {len(rules.edges)} causal edges"


def _alerts(settings: Settings) -> str:
    alerts = alerts_of(settings)
    return in_short(alerts) if alerts else "nobody is told: set `alerts`, see docs/alerts.md"


def _redaction(settings: Settings) -> str:
    redactor = redactor_of(settings)
    return f"{len(redactor.kinds)} kinds of secrets" if redactor else "off"


def _kafka(settings: Settings) -> str:
    missing = asyncio.run(missing_topics(settings))
    return f"{settings.kafka}, " + (f"`epicenter topics` will make {', '.join(missing)}" if missing else "all topics")


def _store(settings: Settings) -> str:
    client = connect(settings.store_dsn)
    try:
        waiting = len(plan(client))
    finally:
        client.close()
    return f"{client.address}, " + (
        f"`epicenter migrate` will make {waiting} steps" if waiting else "tables up to date"
    )
