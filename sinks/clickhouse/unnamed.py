"""Messages that look like failures and that no rule names, from the store."""

from __future__ import annotations

from typing import Any, Final

from epicenter.rules.model.times import iso_from_ns
from epicenter.sinks.clickhouse.client import Client

_COUNTS: Final = ("lines", "nodes", "jobs", "ranks", "healthy_hours", "evidence_lines")
_NAMES: Final = ("cluster", "template", *_COUNTS, "node", "job", "rank", "text")


def list_unnamed(client: Client, since_ns: int, limit: int) -> list[dict[str, Any]]:
    """Messages first seen since then, with the template and the first line: the most unusual first, then the newest.

    That is those with lines in incidents, then those of a single node, then those with the fewest `healthy_hours`, in
    which no incident of a job began. `evidence_lines` belong to incidents. `node`, `job` and `rank` are those of the
    first line. `rank` is None if it is not known.
    """
    found = client.query(
        f"SELECT cluster, template, {', '.join(_COUNTS)}, first_node, first_job, first_rank, text,"
        " toUnixTimestamp64Nano(first_seen), toUnixTimestamp64Nano(last_seen) FROM unnamed_messages"
        " WHERE first_seen >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
        " ORDER BY evidence_lines = 0, nodes > 1, healthy_hours, first_seen DESC, cluster, template"
        " LIMIT {limit:UInt32}",
        {"since": since_ns, "limit": limit},
    )
    return [
        dict(zip(_NAMES, row, strict=True)) | {"first_seen": iso_from_ns(first_ns), "last_seen": iso_from_ns(last_ns)}
        for *row, first_ns, last_ns in found
    ]
