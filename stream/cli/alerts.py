"""`epicenter alerts …`: check the alerts file, and try its routes without a notification."""

from __future__ import annotations

import sys
from pathlib import Path
from time import time_ns
from typing import Any

import click

from epicenter.rules.errors import ConfigError, InputError
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.groups import SuggestingGroup
from epicenter.stream.cli.options import (
    CONFIG,
    DATA_DIR,
    EXIT_PROBLEMS,
    JSON,
    ONE_JSON,
    PATH,
    RULES,
    STORE,
    settings_of,
)


@click.group(cls=SuggestingGroup)
def alerts() -> None:
    """Check the alerts file and try its routes.

    Example: epicenter alerts check alerts.yaml
    """


@alerts.command("check")
@click.argument("file", type=PATH)
@ONE_JSON
def check_command(file: Path, as_json: bool) -> None:
    """Check an alerts file. Exit 1 and list every problem with file and line.

    Example: epicenter alerts check alerts.yaml
    """

    from epicenter.stream.alerts.file import in_short, numbers, read_alerts

    if not file.is_file():
        raise InputError(f"{file}: {'a folder: name a file' if file.is_dir() else 'no such file'}")
    try:
        alerts = read_alerts(file)
    except ConfigError as error:
        click.echo(sanitized_json({"file": str(file), "problems": error.problems}) if as_json else error)
        sys.exit(EXIT_PROBLEMS)
    document = {"file": str(file), **numbers(alerts), "problems": []}
    click.echo(sanitized_json(document) if as_json else f"{file}: ok: {in_short(alerts)}")


@alerts.command("route")
@click.argument("source", metavar="INCIDENT|FILE")
@click.option("--alerts", "file", type=PATH, help="Use this alerts file, not the one in the settings.")
@click.option("--at", help="Time for silences and maintenance (ISO 8601). Default: now.")
@JSON
@RULES
@CONFIG
@DATA_DIR
@STORE
def route_command(
    source: str,
    file: Path | None,
    at: str | None,
    as_json: bool,
    rules: tuple[Path, ...],
    config: Path | None,
    **options: Any,
) -> None:
    """Show which targets would be notified of an incident. Says why others would not.

    Give a stored incident's id, or a file of incidents (JSON, - for standard input). No notification is sent.

    Example: epicenter alerts route incidents.jsonl --alerts alerts.yaml
    """
    from epicenter.ingest.parse.times import time_from_field
    from epicenter.rules.packs.load import load
    from epicenter.stream.alerts.file import alerts_of
    from epicenter.stream.alerts.opening import is_liveness
    from epicenter.stream.alerts.route import Situation, routed
    from epicenter.stream.cli.one_machine import print_document
    from epicenter.stream.cli.text.alerts import print_routed

    settings = settings_of(config, rules, **options)
    found = alerts_of(settings, file)
    if found is None:
        raise click.UsageError("no alerts file: give --alerts, or set `alerts` in the settings")
    now_ns = time_from_field(at) if at else time_ns()
    if now_ns is None:
        raise click.UsageError(f"--at {at}: not a time: write it like 2026-03-02T09:00:00Z")
    situation = Situation.of(source, settings, now_ns)
    is_pending = is_liveness(load(settings.rule_packs))
    for incident in situation.incidents:
        print_document(routed(found.routing, incident, situation, is_pending), as_json, print_routed)
