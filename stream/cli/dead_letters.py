"""`epicenter dead-letters …`: the commands and their options."""

from __future__ import annotations

import sys
from typing import Any

import click

from epicenter.stream.cli.groups import SuggestingGroup
from epicenter.stream.cli.options import CONFIG, DATA_DIR, EXIT_NO_INPUT, JSON, STORE, Since, settings_of


@click.group(cls=SuggestingGroup)
def dead_letters() -> None:
    """List, show and replay records that could not be processed.

    Example: epicenter dead-letters list
    """


@dead_letters.command("list")
@JSON
@CONFIG
@click.option("--reason", default="", help="Only those whose reason contains this text.")
@click.option("--source", default="", help="Only those whose topic/partition or file begins with this.")
@click.option(
    "--since", "since_ns", type=Since(), default="1970-01-01", help="Only those received since then: 2h, or a time."
)
@click.option(
    "--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="Print at most this many."
)
@DATA_DIR
@STORE
def list_command(as_json: bool, reason: str, source: str, since_ns: int, limit: int, **options: Any) -> None:
    """List the newest dead letters.

    Example: epicenter dead-letters list --reason "not JSON" --since 2h
    """
    from epicenter.stream.cli.text.dead_letters import DeadLetterFilter, list_dead_letters

    list_dead_letters(settings_of(**options), DeadLetterFilter(reason, source, since_ns), limit, as_json)


@dead_letters.command("show")
@click.argument("dead_letter_id", metavar="ID")
@JSON
@CONFIG
@click.option("--raw", is_flag=True, help="Print only the original bytes.")
@DATA_DIR
@STORE
def show_command(dead_letter_id: str, as_json: bool, raw: bool, **options: Any) -> None:
    """Show a dead letter by its id or the start of it. Prints reason, position and bytes.

    Example: epicenter dead-letters show 3f2a --raw
    """
    from epicenter.stream.cli.text.dead_letters import show_dead_letter, write_bytes

    if raw and as_json:
        raise click.UsageError("--raw and --json exclude each other")
    if raw:
        write_bytes(settings_of(**options), dead_letter_id)
    else:
        show_dead_letter(settings_of(**options), dead_letter_id, as_json)


@dead_letters.command("replay")
@click.argument("dead_letter_ids", nargs=-1, metavar="[ID...]")
@JSON
@CONFIG
@click.option("--all", "is_all", is_flag=True, help="Replay all that were never replayed.")
@click.option("--reason", default="", help="Of these, replay those whose reason contains this text.")
@click.option("--kafka", help="Kafka brokers, as host:port, separated by commas.")
@DATA_DIR
@STORE
def replay_command(dead_letter_ids: tuple[str, ...], as_json: bool, is_all: bool, reason: str, **options: Any) -> None:
    """Send records to the topic they came from. They are processed again.

    Example: epicenter dead-letters replay --reason "wrong shape"
    """
    from epicenter.stream.store.dead_letter_replay import replay_dead_letters

    if bool(dead_letter_ids) + is_all + bool(reason) != 1:
        raise click.UsageError("give exactly one of: ids, --reason TEXT, --all")
    if replay_dead_letters(settings_of(**options), dead_letter_ids, reason, as_json):
        sys.exit(EXIT_NO_INPUT)
