"""`epicenter unnamed`: messages that look like failures and that no rule names."""

from __future__ import annotations

from typing import Any

import click

from epicenter.stream.cli.options import CONFIG, DATA_DIR, JSON, STORE, Since, settings_of


@click.command()
@JSON
@CONFIG
@click.option(
    "--since", "since_ns", type=Since(), default="7d", help="Only those first seen since then: 7d, or a time."
)
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Print at most this many.")
@DATA_DIR
@STORE
def unnamed(as_json: bool, since_ns: int, limit: int, **options: Any) -> None:
    """List new failure messages that no rule names. Those of the last week, the most unusual first.

    `epicenter rules draft` makes a rule of one.

    Example: epicenter unnamed --since 24h
    """
    from epicenter.stream.cli.text.unnamed import print_unnamed

    print_unnamed(settings_of(**options), since_ns, limit, as_json)
