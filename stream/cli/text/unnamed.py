"""`epicenter unnamed` as text or JSON; log text is sanitized first."""

from __future__ import annotations

from typing import Any

import click

from epicenter.ingest.parse.prefix import peel
from epicenter.rules.model.job_names import job_in_words
from epicenter.sinks.text.humanize import count, date_and_clock
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.text.layout import Line, print_hanging
from epicenter.stream.cli.text.terminal import console, safe
from epicenter.stream.process.logs import print_message
from epicenter.stream.settings import Settings
from epicenter.stream.store.evidence import query


def print_unnamed(settings: Settings, since_ns: int, limit: int, as_json: bool) -> None:
    """Print the messages first seen since then, the most unusual first."""
    messages = query(settings, "unnamed", since_ns=since_ns, limit=limit)
    for message in messages:
        if as_json:
            click.echo(sanitized_json(message))
        else:
            print_hanging(console(), [_line(message)])
    if not messages:
        print_message("no new messages of failures without a rule")


def _line(message: dict[str, Any]) -> Line:
    rank = "" if message["rank"] is None else f"rank {message['rank']}"
    first = " ".join(filter(None, (job_in_words(message["job"]), message["node"], rank)))
    ranks = message["ranks"] > 1 and count(message["ranks"], "rank")
    healthy = f"in {count(message['healthy_hours'], 'hour')} without an incident"
    evidence = message["evidence_lines"] and f"{message['evidence_lines']} in incidents"
    counts = [count(message["lines"], "line"), count(message["nodes"], "node"), ranks]
    facts = [*counts, first and f"first {first}", healthy, evidence]
    text = safe(f"{peel(message['text']).body} ({', '.join(filter(None, facts))})")
    return Line(f"{date_and_clock(message['first_seen'])} UTC  ", text)
