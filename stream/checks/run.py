"""`epicenter check`: settings, rules and every connection, before anything is started and while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click

from epicenter.rules.errors import ConfigError
from epicenter.sinks.text.humanize import count
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.checks.collect import kafka_findings
from epicenter.stream.checks.finding import Finding, refused
from epicenter.stream.checks.machine import machine_findings, rules_of
from epicenter.stream.checks.store import store_findings
from epicenter.stream.checks.targets import target_findings
from epicenter.stream.process.logs import print_message
from epicenter.stream.settings import Settings

STATUS_LABELS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM"}
SETTINGS = "settings"


def check_all(settings: Settings, as_json: bool = False) -> bool:
    """Print each finding; true when one is a problem."""
    return show(find(settings), as_json)


def wrong_settings(error: ConfigError, as_json: bool) -> bool:
    """Print every problem of the settings; without valid settings nothing else can be checked."""
    return show((refused(SETTINGS, ConfigError([problem]), "fix this setting") for problem in error.problems), as_json)


def find(settings: Settings) -> Iterator[Finding]:
    """Every check, run when its finding is requested: Kafka and targets may take some seconds."""
    rules, finding = rules_of(settings)
    yield finding
    yield from machine_findings(settings)
    yield from asyncio.run(target_findings(settings))
    yield from asyncio.run(kafka_findings(settings, rules))
    yield from store_findings(settings.store_dsn)


def show(findings: Iterator[Finding], as_json: bool) -> bool:
    """Print each finding at once, then the number of problems and warnings; or all as one JSON document."""
    found = []
    for finding in findings:
        found.append(finding)
        if not as_json:
            click.echo(f"{finding.name}: {STATUS_LABELS[finding.status]}: {finding.found}")
            if finding.fix:
                click.echo(f"  do: {finding.fix}")
    worst = next(
        (status for status in ("problem", "warning") if any(finding.status == status for finding in found)), "ok"
    )
    if as_json:
        click.echo(sanitized_json({"status": worst, "findings": found}))
    else:
        by_status = [sum(finding.status == status for finding in found) for status in ("problem", "warning")]
        print_message(f"{count(by_status[0], 'problem')}, {count(by_status[1], 'warning')}")
    return worst == "problem"
