"""`epicenter dead-letters list` and `show`; the content of records is sanitized first."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape

from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter as DeadLetterFilter
from epicenter.sinks.clickhouse.dead_letters import StoredDeadLetters, dead_letter_of
from epicenter.sinks.text.sanitize import sanitize, sanitized_json
from epicenter.stream.cli.text.terminal import console, safe
from epicenter.stream.settings import Settings
from epicenter.stream.store.dead_letters import find
from epicenter.stream.store.lookup import from_page, from_store

HEAD = f"{'id':<16}  {'received':<20}  {'position':<24}  {'bytes':>8}  {'replays':>7}  reason"


def list_dead_letters(settings: Settings, wanted: DeadLetterFilter, limit: int, as_json: bool) -> None:
    """Print the newest dead letters, one a line."""
    query = urlencode({**msgspec.structs.asdict(wanted), "limit": limit})
    documents = from_page(settings, f"api/dead-letters?{query}")
    if documents is None:
        documents = from_store(settings, lambda client: StoredDeadLetters(client).newest(wanted, limit))
    if documents and not as_json and sys.stdout.isatty():
        console().print(f"[bold]{HEAD}[/]")
    for document in documents:
        _print(document, as_json, dead_letter_line(document))
    if not documents:
        click.echo("no dead letters", err=True)


def show_dead_letter(settings: Settings, dead_letter_id: str, as_json: bool) -> None:
    """Print one dead letter with its stored bytes."""
    document = find(settings, dead_letter_id)
    _print(document, as_json, dead_letter_report(document))


def write_bytes(settings: Settings, dead_letter_id: str) -> None:
    """Write the stored original bytes to standard output."""
    sys.stdout.buffer.write(dead_letter_of(find(settings, dead_letter_id)).value)


def dead_letter_line(document: dict[str, Any]) -> str:
    """A dead letter on one line."""
    place = f"{document['source']}:{document['offset']}"
    return (
        f"{document['dead_letter_id']}  {document['received'][:19]}Z  {safe(place):<24}  {document['size_bytes']:>8}"
        f"  {document['replays']:>7}  {safe(document['reason'])}"
    )


def dead_letter_report(document: dict[str, Any]) -> str:
    """A dead letter in full, with its bytes."""
    dead_letter = dead_letter_of(document)
    is_cut = dead_letter.size_bytes > len(dead_letter.value)
    lines = [
        f"dead letter  {dead_letter.dead_letter_id}",
        f"  reason     {safe(dead_letter.reason, longest=4_000)}",
        f"  position   {safe(dead_letter.position.source)}, offset {dead_letter.position.offset}",
        f"  received   {document['received']}",
        f"  key        {'-' if dead_letter.key is None else safe(dead_letter.key.decode('utf-8', 'backslashreplace'))}",
        f"  replays    {document['replays']}",
        f"  bytes      {dead_letter.size_bytes}"
        + (f", only the first {len(dead_letter.value)} are stored" if is_cut else ""),
        _shown(dead_letter.value),
    ]
    return "\n".join(lines)


def _shown(value: bytes) -> str:
    return escape(sanitize(value.decode("utf-8", "backslashreplace"), multiline=True))


def _print(document: dict[str, Any], as_json: bool, shown: str) -> None:
    if as_json:
        click.echo(sanitized_json(document))
    else:
        console().print(shown)
