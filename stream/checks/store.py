"""The store: whether it is reachable and new enough, and has its tables, rights and disk space."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from time import time
from typing import Final

import msgspec

from epicenter.rules.errors import ConfigError, PipelineError
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import plan
from epicenter.stream.checks.finding import Finding, ok, or_ok, problem, refused, warning

NAME: Final = "store"
MIN_VERSION: Final = (26, 2)
"""The oldest tested version: it has everything that the tables use, without extra settings."""

WRITTEN: Final = (
    *("matches", "signals", "incidents", "incident_revisions", "deliveries", "dead_letters", "liveness", "progress"),
    *("placements", "measurements", "capacity_events", "evidence_gaps", "job_states"),
    *("pipeline_metrics", "match_rates"),
)
READ: Final = ("schema_migrations", "matches", "silences", "acknowledgements")
"""The tables that workers read. The role `epicenter_worker` has these rights and those of `WRITTEN`."""
WARNING_FREE_SHARE: Final = 0.15
PROBLEM_FREE_SHARE: Final = 0.05
WARNING_SKEW_S: Final = 2.0
PROBLEM_SKEW_S: Final = 30.0


class Server(msgspec.Struct, frozen=True):
    """The state of a store: `missing` rights, and (free, total) bytes of each disk."""

    address: str
    version: str
    ahead_s: float
    waiting: int
    missing: tuple[str, ...] = ()
    disks: Mapping[str, tuple[int, int]] = {}
    is_embedded: bool = False


def store_findings(dsn: str) -> list[Finding]:
    """All findings about the store."""
    try:
        client = connect(dsn)
    except PipelineError as error:
        return [refused(NAME, error, "start it, or set `store`; meanwhile workers wait and the rows stay in Kafka")]
    try:
        return list(server_findings(_described(client)))
    except ConfigError as error:
        return [refused(NAME, error)]
    except PipelineError as error:
        return [refused(NAME, error, "read the server's log")]
    finally:
        client.close()


def _described(client: Client) -> Server:
    before_s = time()
    ((version, now_s),) = client.query("SELECT version(), toFloat64(now64(6))")
    between_s = (before_s + time()) / 2
    waiting = len(plan(client))
    return Server(
        address=client.address,
        version=str(version),
        ahead_s=float(now_s) - between_s,
        waiting=waiting,
        missing=() if waiting or client.is_embedded else tuple(_missing(client)),
        disks=_disks(client),
        is_embedded=client.is_embedded,
    )


def _missing(client: Client) -> Iterator[str]:
    for right, tables in (("INSERT", WRITTEN), ("SELECT", READ)):
        for table in tables:
            if not client.query(f"CHECK GRANT {right} ON {table}")[0][0]:
                yield f"{right} ON {table}"


def _disks(client: Client) -> dict[str, tuple[int, int]]:
    try:
        rows = client.query("SELECT name, free_space, total_space FROM system.disks WHERE total_space > 0")
    except ConfigError:
        return {}  # this user has no right to read them
    return {str(name): (int(free), int(total)) for name, free, total in rows}


def server_findings(server: Server) -> Iterator[Finding]:
    """The findings about a server and its clock."""
    text = f"{server.address}, version {server.version}, tables up to date"
    yield from or_ok(NAME, text, _of(server))
    yield from _clock(server)


def _of(server: Server) -> Iterator[Finding]:
    if server.waiting:
        text = f"{server.address}: {server.waiting} migrations to do"
        yield warning(
            NAME, text, "run `epicenter migrate`; a worker whose user may CREATE and ALTER does it at its start"
        )
    if (found := _version(server.version)) and found < MIN_VERSION:
        text = f"version {server.version}, oldest tested is {'.'.join(map(str, MIN_VERSION))}"
        yield warning(NAME, text, "upgrade the server")
    if server.missing:
        text = f"this user lacks {', '.join(server.missing)}"
        yield problem(NAME, text, f"GRANT {', '.join(server.missing)} TO the user of `store`")
    for name, (free, total) in server.disks.items():
        share = free / total
        if share < WARNING_FREE_SHARE:
            text = f"disk {name}: {share:.0%} of {total / 1e9:.0f} GB free"
            make = problem if share < PROBLEM_FREE_SHARE else warning
            yield make(NAME, text, "enlarge the disk, or shorten the TTL of the largest tables (docs/tables.md)")


def _clock(server: Server) -> Iterator[Finding]:
    name, ahead_s = "clock of the store", server.ahead_s
    if abs(ahead_s) < WARNING_SKEW_S:
        yield ok(name, f"within {WARNING_SKEW_S:.0f} s of this machine's")
        return
    way = "ahead of" if ahead_s > 0 else "behind"
    make = problem if abs(ahead_s) >= PROBLEM_SKEW_S else warning
    text = f"{abs(ahead_s):.1f} s {way} this machine's: silences end and rows expire at the wrong time"
    yield make(name, text, "fix chrony or ntpd on the machine that is wrong")


def _version(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
