"""What the benches work on in their short forms: the same input through the same functions, small enough for a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from time import time_ns
from typing import Final, NamedTuple

import msgspec
from aiokafka import TopicPartition

from bench import alerts, match, redaction_shapes, stages, storm
from bench.correlate import LATENESS_NS, Feed, heartbeats_until
from bench.correlate_day import BATCH_NS, Day
from bench.correlate_input import GPUS, START_NS, TIMEOUT_S, failing_jobs, jobs, rule_set
from bench.diagnosis import replayed, triaged
from bench.fuzz import batch_of
from bench.fuzz_checks import Cores, scan_in_pieces
from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.simulate import write_all
from epicenter.ingest.simulate.model import Scenario
from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.redact.load import load_redactor
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.rows import incident_rows, match_rows
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.page.listing import load_listing
from epicenter.sinks.page.node import load_node
from epicenter.sinks.page.search import ListQuery
from epicenter.sinks.page.story import load_story
from epicenter.stream.kafka.messages import encode_in_pieces
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner
from tests.support.page_store import many_incidents
from tests.support.planning import PlannerHarness, routing

NODES_A_JOB: Final = 4
A_TICK: Final = 500
HOURS: Final = 5
FAULT_NS: Final = START_NS + 600 * NS_PER_S

Figures = Mapping[str, int]


class Prepared(NamedTuple):
    """Input of `size` things, and the work on it, which returns further figures."""

    size: int
    run: Callable[[], Figures]


def match_of_lines(lines: int, folder: Path) -> Prepared:
    """`match` on a mixed log."""
    log = folder / "mixed.log"
    log.write_text("".join(f"{line}\n" for line in match.mixed_lines(lines)))
    os.utime(log, ns=(START_NS, START_NS))
    scanner = match.scanner_for(match.PATTERNS_FOR_RG)

    def run() -> Figures:
        _, matches = match.scanned(log, scanner)
        return {"matches": matches}

    return Prepared(lines, run)


def stream_of_records(records: int, folder: Path) -> Prepared:
    """A worker's path from fetched batches to messages for the correlator."""
    fetches = list(stages.fetched(stages.CODECS["lz4"], quiet=False, count=records))
    scanner = BlockBuffer(BatchScanner(rule_set(), "bench"))

    def run() -> Figures:
        found = [scanner.scan(stages.as_batch(chunk)) for chunk in stages.chunks_of(fetches)]
        parts = [ScannedRange(TopicPartition("raw", 0), 0, scanned).part(0, 1) for scanned in found]
        return {
            "matches": sum(len(scanned.matches) for scanned in found),
            "heartbeats": sum(len(scanned.heartbeats) for scanned in found),
            "bytes sent": sum(len(value) for part in parts for value in encode_in_pieces([part])),
        }

    return Prepared(records, run)


def rate_of_jobs(count: int, folder: Path) -> Prepared:
    """All jobs fail, one each three minutes."""
    running, feed = jobs(count, NODES_A_JOB), Feed()
    feed.process([], [heartbeat for job in running for heartbeat in job.alive(START_NS)], START_NS)
    matches = failing_jobs(running, count * 180 * NS_PER_S)

    def run() -> Figures:
        feed.process_all(matches, A_TICK)
        return {"incidents": len(feed.unmerged())}

    return Prepared(len(matches), run)


def timeouts_of_nodes(count: int, folder: Path) -> Prepared:
    """One rank loses its GPU, and every other rank times out."""
    feed, matches = timed_out(count)

    def run() -> Figures:
        feed.process_all(matches, A_TICK)
        return {"incidents": len(feed.unmerged())}

    return Prepared(len(matches), run)


def takeover_of_nodes(count: int, folder: Path) -> Prepared:
    """The state after the timeouts goes into a snapshot and out of it again."""
    feed, matches = timed_out(count)
    feed.process_all(matches, A_TICK)

    def run() -> Figures:
        snapshot = feed.engine.snapshot()
        Engine(rule_set(), snapshot)
        return {"bytes of the snapshot": len(snapshot)}

    return Prepared(len(matches), run)


def timed_out(nodes: int) -> tuple[Feed, list[Match]]:
    """An engine that has seen a job train, and the matches of its end."""
    (job,), feed = jobs(1, nodes), Feed()
    feed.process([], list(heartbeats_until(job, FAULT_NS)), FAULT_NS - LATENESS_NS)
    return feed, sorted(job.gpu_loss(job.nodes[nodes // 2], FAULT_NS), key=lambda match: match.event.event_time_ns)


def day_of_jobs(count: int, folder: Path) -> Prepared:
    """Jobs of eight ranks for three hours of their day."""
    day, feed = Day(HOURS, count * GPUS, count), Feed()
    batches = [day.batch(START_NS + number * BATCH_NS) for number in range(HOURS * 3600 * NS_PER_S // BATCH_NS)]

    def run() -> Figures:
        for number, (matches, heartbeats) in enumerate(batches, start=1):
            feed.process(matches, heartbeats, START_NS + number * BATCH_NS - LATENESS_NS)
        return {"incidents": len(feed.unmerged()), "bytes of the snapshot": len(feed.engine.snapshot())}

    return Prepared(sum(len(matches) + len(heartbeats) for matches, heartbeats in batches), run)


def storm_of_nodes(count: int, folder: Path) -> Prepared:
    """A job trains and times out: lines through scan and engine into rows of the store."""
    (job,) = jobs(1, count)
    node = job.nodes[count // 2]
    before = storm.before(job, START_NS, FAULT_NS)
    records = [*before, *storm.fault(job, node, FAULT_NS), *storm.time_outs(job, node, FAULT_NS)]
    pieces = [_batch(records[first : first + A_TICK], first) for first in range(0, len(records), A_TICK)]
    pipeline = Pipeline(rule_set(), "bench", LATENESS_NS)

    def run() -> Figures:
        matches = [match for piece in pieces for match in pipeline.process(piece).matches]
        incidents = pipeline.flush()
        rows = match_rows([(match, rule_set().spec_of(match)) for match in matches])
        return {
            "match rows": len(rows),
            "incident rows": len(incident_rows(incidents)),
            "bytes of incidents": sum(len(msgspec.json.encode(incident)) for incident in incidents),
        }

    return Prepared(len(records), run)


def _batch(records: Sequence[storm.Record], first: int) -> Batch:
    values = [record.value for record in records]
    keys = [record.node.encode() for record in records]
    return Batch(
        "raw/0", values, keys, [FAULT_NS + TIMEOUT_S * NS_PER_S] * len(values), range(first, first + len(values))
    )


def alerts_of_revisions(count: int, folder: Path) -> Prepared:
    """One incident that each rank makes larger."""
    harness = PlannerHarness(routing())

    def run() -> Figures:
        alerts.storm(harness, count)
        return {"messages": len(harness.sent)}

    return Prepared(count, run)


def alert_ticks_with_open(count: int, folder: Path) -> Prepared:
    """One tick of the clock with so many open incidents."""
    harness = alerts.with_open(count)

    def run() -> Figures:
        harness.planner.advance(harness.context())
        return {"bytes in the journal": sum(map(len, harness.records.values()))}

    return Prepared(count, run)


def redaction_of_shapes(count: int, folder: Path) -> Prepared:
    """Made-up credentials in log lines; the expressions are compiled before the count."""
    redactor = load_redactor()
    lines = [shape.line.encode() for seed in range(count) for shape in redaction_shapes.shapes(seed)]
    for line in lines:
        redactor.redact(line)

    def run() -> Figures:
        return {"lines with a secret": sum(bool(redactor.redact(line).kinds) for line in lines)}

    return Prepared(len(lines), run)


def page_of_incidents(count: int, folder: Path) -> Prepared:
    """Incidents into an embedded store, then each page once; the engine itself counts."""
    client = connect("chdb://memory/work")
    migrate(client)
    now_ns = time_ns()
    incidents = many_incidents(count, now_ns, NS_PER_S)

    def run() -> Figures:
        before = _engine_counts(client)
        ClickHouseSink(client).write(incidents=incidents)
        for query in (ListQuery(), ListQuery(group="node")):
            load_listing(client, query, now_ns)
        load_story(client, incidents[0].incident_id, now_ns)
        load_node(client, incidents[0].nodes[0], "", now_ns)
        after = _engine_counts(client)
        client.close()
        return {what: after[what] - before.get(what, 0) for what in after}

    return Prepared(count, run)


def _engine_counts(client: Client) -> dict[str, int]:
    rows = client.query(
        "SELECT transform(event, ['SelectQuery', 'InsertQuery', 'SelectedRows'], ['queries', 'inserts', 'rows read'])"
        ", value FROM system.events WHERE event IN ('SelectQuery', 'InsertQuery', 'SelectedRows')"
    )
    return {str(what): int(count) for what, count in rows}


def fuzz_of_batches(count: int, folder: Path) -> Prepared:
    """Broken records, cut anywhere."""
    scanner, batches = Cores().fresh(), [batch_of(1, number) for number in range(count)]

    def run() -> Figures:
        found = [scan_in_pieces(scanner, batch, Random(0)) for batch in batches]
        return {"matched": sum(scanned.matched for scanned in found), "dead": sum(scanned.dead for scanned in found)}

    return Prepared(sum(map(len, batches)), run)


def accuracy_of_nodes(count: int, folder: Path) -> Prepared:
    """A simulated failure, replayed."""
    lines = simulated(count, folder)
    return Prepared(lines, lambda: {"incidents": len(replayed(folder))})


def diagnosis_of_nodes(count: int, folder: Path) -> Prepared:
    """The same failure, read by triage."""
    lines = simulated(count, folder)
    return Prepared(lines, lambda: {"reports": len(triaged(folder))})


def simulated(nodes: int, folder: Path) -> int:
    """A job whose GPU falls off its bus; the number of its lines."""
    write_all(Scenario(nodes=nodes, minutes=10.0, faults=("gpu-off-bus",)), folder)
    return sum(file.read_bytes().count(b"\n") for file in folder.rglob("*") if file.is_file())


def start_of_commands(count: int, folder: Path) -> Prepared:
    """Two commands with the shipped rules, their caches filled."""
    log = folder / "quiet.log"
    log.write_text("step 1\n")

    def run() -> Figures:
        return {
            f"{figure} of {arguments[0]}": number
            for arguments in (["rules", "list"], ["match", str(log)])
            for figure, number in _started(arguments).items()
        }

    _started(["match", str(log)])
    return Prepared(count, run)


def _started(arguments: list[str]) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-m", "bench.work_start", *arguments], capture_output=True, check=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts
