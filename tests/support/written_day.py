"""What one day writes to the store: a job that fails, its memory and temperatures, a queue, gaps, deliveries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from time import time
from typing import Any

from epicenter.rules.model.ledger import Delivery, Outcome, Sample
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import Client
from epicenter.stream.local.pipeline import Pipeline
from tests.support.logs import at, batch, iso, kernel, the_rules, vector

Contents = dict[str, list[Any]]
"""Arguments of `ClickHouseSink.write`."""

HOURS = 86_400 // 3600
QUEUE = (
    "[{}] _slurm_rpc_submit_batch_job: JobId=881 InitPrio=4294901740 usec=412",
    "srun: job 881 queued and waiting for resources",
    "               881       gpu train-7b    alice PD       0:00      8 (Resources)",
    "gpu*         up   infinite      4   idle gpu-a-[01-04]",
    "[{}] sched: Allocate JobId=881 NodeList=gpu-a-[01-08] #CPUs=1024 Partition=gpu",
    "slurmctld: preempted JobId=881 has been requeued to reclaim resources for JobId=9044",
    "** 412 printk messages dropped **",
    "imjournal: begin to drop messages due to rate-limiting",
)
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def _lines() -> list[tuple[float, bytes]]:
    lines: list[tuple[float, bytes]] = []
    for rank, node in enumerate(("n1", "n2")):
        text = (
            f"{node}:991:1203 [3] NCCL INFO ncclCommInitRank comm 0x55d0 rank {rank} nranks 2 cudaDev 3 - Init COMPLETE"
        )
        lines.append((1, vector(node, 1, text, "A")))
        for step in range(1, 40):
            second = 10 * step + rank
            text = f" {rank}: completed step: {step}, seconds: 5.000, TFLOP/s/device: 380.1"
            lines.append((second, vector(node, second, text, "A")))
            text = (
                f"[Rank {rank}] (after {step} iterations) memory (MB) | allocated: {40_000 + step} | reserved: 64512.0"
            )
            lines.append((second, vector(node, second + 0.5, text, "A")))
            lines.append((second, vector(node, second + 0.6, f"nvidia_smi,index=3 temperature_gpu={60 + step % 7}i")))
        lines.append(
            (405, vector(node, 405, "saving checkpoint at iteration     39 to /ckpt/run7 in torch_dist format", "A"))
        )
    lines.append((500, kernel("n2", 500, XID)))
    lines.append(
        (520, vector("n1", 520, "[rank0]: ncclRemoteError: A call failed possibly due to a network error", "A"))
    )
    for hour in range(HOURS):
        for number, text in enumerate(QUEUE):
            second = 3600 * hour + 60 * number
            lines.append((second, vector("login", second, text.format(iso(second)[:23]))))
    return sorted(lines)


@cache
def a_day() -> tuple[Contents, ...]:
    """The day's writes to the store, in pieces."""
    rules = the_rules()
    pipeline = Pipeline(rules, "default", 5 * NS_PER_S, lists_joined=True)
    lines, pieces, now_s = _lines(), list[Contents](), int(time())

    def with_rules(matches: Sequence[Match], is_quiet: bool) -> list[Any]:
        known = [(match, rules.spec_of(match)) for match in matches]
        return [(match, rule) for match, rule in known if (rule.role in QUIET_ROLES) == is_quiet]

    def write_outcome(incidents: list[Any]) -> None:
        windowed = pipeline.windowed()
        pieces.append(
            {
                "incidents": incidents,
                "matches": with_rules(windowed, False),
                "observed": with_rules(windowed, True),
                "signals": pipeline.joined(),
                "gaps": pipeline.gaps(),
                "deliveries": [_delivery(incident) for incident in incidents],
            }
        )

    for first in range(0, len(lines), 50):
        values = [value for _, value in lines[first : first + 50]]
        scanned = pipeline.process(batch(values, "day", first + 1))
        found = [*scanned.matches, *scanned.observed]
        pieces.append(
            {
                "matches": with_rules(found, False),
                "observed": with_rules(found, True),
                "heartbeats": scanned.heartbeats,
                "rank_placements": scanned.rank_placements,
                "dead_letters": scanned.dead_letters,
                "samples": [Sample(now_s - first, "h:1", "epicenter_records_total", {"source": "local"}, first + 50.0)],
            }
        )
        write_outcome(pipeline.advance([]))
    write_outcome(pipeline.flush())
    return tuple(pieces)


def _delivery(incident: Any) -> Delivery:
    return Delivery(
        f"{incident.incident_id}-opened",
        "webhook",
        Outcome.SENT,
        incident.incident_id,
        incident.revision,
        "opened",
        incident.first_seen,
        "",
        at(600 + incident.revision),
    )


def rows_of(client: Client, tables: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a query shows of these tables."""
    return {table: client.query(f"SELECT * FROM {table} FINAL ORDER BY ALL") for table in tables}


def shuffled(pieces: Sequence[Contents], order: Callable[[list[Any]], None]) -> list[Contents]:
    """The same contents row by row, in pieces of fifty rows in an order that `order` makes in place."""
    rows = [(table, row) for piece in pieces for table, contents in piece.items() for row in contents]
    order(rows)
    made: list[Contents] = []
    for first in range(0, len(rows), 50):
        made.append({})
        for table, row in rows[first : first + 50]:
            made[-1].setdefault(table, []).append(row)
    return made
