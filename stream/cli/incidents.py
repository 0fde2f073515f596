"""`epicenter incidents …` and `epicenter export`: stored incidents as text, JSON or a post-mortem draft."""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import click
import msgspec

from epicenter.stream.cli.groups import SuggestingGroup
from epicenter.stream.cli.options import CONFIG, DATA_DIR, FULL, JSON, OUTPUT_PATH, STORE, settings_of, writing

if TYPE_CHECKING:
    from epicenter.stream.settings import Settings

if TYPE_CHECKING:
    from epicenter.rules.model.incident import Incident


@click.group(cls=SuggestingGroup)
def incidents() -> None:
    """List and show stored incidents.

    Example: epicenter incidents list
    """


@incidents.command("list")
@JSON
@CONFIG
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Print at most this many.")
@click.option("--status", type=click.Choice(["open", "resolved"]), help="Only incidents with this status.")
@click.option(
    "--search", "q", default="", help="Filter by words, and by node:NAME, job:ID, class:NAME or cluster:NAME."
)
@DATA_DIR
@STORE
def list_command(as_json: bool, limit: int, status: str | None, q: str, config: Path | None, **options: Any) -> None:
    """List stored incidents, open ones first, then the newest.

    Example: epicenter incidents list --search "node:node0003 bus"
    """
    from epicenter.sinks.clickhouse import reading
    from epicenter.sinks.page.search import ListQuery
    from epicenter.sinks.text.incident_document import incident_of
    from epicenter.stream.cli.one_machine import print_document
    from epicenter.stream.process.logs import print_message
    from epicenter.stream.store.lookup import from_page, from_store

    settings = settings_of(config, **options)
    query = ListQuery(q=q, status=status or "")
    found = from_page(settings, f"api/incidents?{urlencode({'q': q, 'status': status or '', 'limit': limit})}")
    if found is None:
        found = from_store(settings, lambda client: reading.find_incidents(client, query.store_filter(), limit))
    listed = [incident_of(document, "page") for document in found]
    if as_json:
        for incident in listed:
            print_document(incident, as_json, print)
    elif listed:
        _print_list(settings, listed)
    if not found:
        print_message("no incident fits --search or --status" if q or status else "no incidents")


def _print_list(settings: Settings, listed: list[Incident]) -> None:
    """Rows with a header on a terminal; in a pipe a line each."""
    from epicenter.stream.cli.text.incident_list import incident_rows, piped_line
    from epicenter.stream.cli.text.layout import print_hanging
    from epicenter.stream.cli.text.terminal import console

    shown, now_ns = console(), time_ns()
    actions = _actions(settings, listed, now_ns)
    if shown.is_terminal:
        print_hanging(shown, incident_rows(listed, actions, now_ns))
        return
    for incident in listed:
        shown.print(piped_line(incident, actions.get(incident.incident_id, "")))


def _actions(settings: Settings, listed: list[Incident], now_ns: int) -> dict[str, str]:
    """Who acknowledged or silenced each incident, in words, by incident id."""
    from epicenter.rules.alerts.silences import Silence, silenced_by
    from epicenter.rules.model.notification import Acknowledgement
    from epicenter.rules.model.times import iso_from_ns
    from epicenter.sinks.clickhouse import operator_actions
    from epicenter.stream.store.lookup import from_page, from_store

    answers = [from_page(settings, f"api/{name}") for name in ("acknowledgements", "silences")]
    if None in answers:
        answers = [
            from_store(settings, operator_actions.list_acknowledgements),
            from_store(settings, lambda client: operator_actions.list_silences(client, now_ns)),
        ]
    given = msgspec.convert(answers[0] or [], list[Acknowledgement])
    silences = msgspec.convert(answers[1] or [], list[Silence])
    active = operator_actions.active_acknowledgements(given)
    words: dict[str, list[str]] = {}
    for incident in listed:
        parts = words[incident.incident_id] = []
        if acknowledgement := active.get(incident.incident_id):
            parts.append(f"acknowledged by {acknowledgement.who}")
        if silence := silenced_by(silences, incident, now_ns):
            parts.append(f"silenced by {silence.who} until {iso_from_ns(silence.ends_ns)[:16]}Z")
    return {incident_id: ", ".join(parts) for incident_id, parts in words.items() if parts}


@incidents.command("show")
@click.argument("incident_id", metavar="INCIDENT")
@JSON
@FULL
@CONFIG
@DATA_DIR
@STORE
def show_command(incident_id: str, as_json: bool, is_full: bool, config: Path | None, **options: Any) -> None:
    """Show an incident. Give its id, the start of it, or `newest`.

    Example: epicenter incidents show 3f2a
    """
    from epicenter.stream.cli.one_machine import print_incident

    print_incident(stored(settings_of(config, **options), incident_id), as_json, is_full)


@click.command()
@click.argument("incident_id", metavar="INCIDENT")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    default="markdown",
    show_default=True,
    help="Format of the output.",
)
@click.option("--output", type=OUTPUT_PATH, help="Write to this file, not to standard output.")
@CONFIG
@DATA_DIR
@STORE
def export(
    incident_id: str, form: Literal["html", "markdown"], output: Path | None, config: Path | None, **options: Any
) -> None:
    """Draft a post-mortem of an incident, as Markdown or HTML.

    Example: epicenter export 3f2a --format html --output post-mortem.html
    """
    from epicenter.sinks.page import postmortem

    incident = stored(settings_of(config, **options), incident_id)
    draft = postmortem.html(incident) if form == "html" else postmortem.markdown(incident)
    if output is None:
        click.echo(draft, nl=False)
        return
    with writing(output):
        output.write_text(draft, encoding="utf-8")


def stored(settings: Settings, incident_id: str) -> Incident:
    """A stored incident, by its id, the start of it, or `newest`.

    Raises:
        InputError: none matches, or more than one.
    """
    from epicenter.sinks.clickhouse.named import named_incident
    from epicenter.sinks.text.incident_document import incident_of
    from epicenter.stream.store.lookup import checked_id, from_page, from_store

    document = from_page(settings, f"api/incidents/{checked_id(incident_id)}")
    if document is None:
        document = from_store(settings, lambda client: named_incident(client, incident_id))
    return incident_of(document, incident_id)
