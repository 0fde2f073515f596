"""Matches and heartbeats straight through the engine, on one core: `make bench-correlate`.

Each part runs in a separate process, so that its memory is measured alone. Seconds are CPU seconds: other programs on
the machine don't change them. `python -m bench.correlate profile PART` shows where the time goes.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from pathlib import Path
from statistics import linear_regression
from time import process_time
from typing import Any

from bench.correlate_day import BATCH_NS, Day
from bench.correlate_input import START_NS, Job, as_received, failing_jobs, jobs, rule_set
from bench.correlate_steps import steps
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S

HOURS = int(os.environ.get("BENCH_HOURS", 24))
SIGNALS = int(os.environ.get("BENCH_SIGNALS", 1 << 30))
PIECE = 2000
A_TICK = 25_000
"""Matches between two ticks of half a second at the goal's rate."""

LATENESS_NS = 5 * NS_PER_S
Row = dict[str, Any]


class Feed:
    """An engine, the newest incidents by id, and the CPU seconds used so far."""

    def __init__(self) -> None:
        self.engine = Engine(rule_set())
        self.incidents: dict[str, Incident] = {}
        self.seconds = 0.0

    def process(self, matches: list[Match], heartbeats: list[Heartbeat], watermark_ns: int) -> None:
        """One piece of input, and an advance of the watermark."""
        start_s = process_time()
        self.engine.add(matches, heartbeats)
        self._note(self.engine.advance(watermark_ns))
        self.engine.job_states()
        self.seconds += process_time() - start_s

    def flush(self) -> None:
        """The input has ended."""
        start_s = process_time()
        self._note(self.engine.flush())
        self.seconds += process_time() - start_s

    def process_all(self, matches: list[Match], piece_length: int) -> None:
        """Matches in pieces, in time order, to the end."""
        for first in range(0, len(matches), piece_length):
            piece = as_received(matches[first : first + piece_length])
            self.process(piece, [], piece[-1].event.event_time_ns - LATENESS_NS)
        self.flush()

    def unmerged(self) -> list[Incident]:
        """The incidents that are not merged into others."""
        return [incident for incident in self.incidents.values() if not incident.merged_into]

    def _note(self, changed: list[Incident]) -> None:
        self.incidents |= {incident.incident_id: incident for incident in changed}


def rate() -> Row:
    """Signals of 200 jobs on 4,000 nodes, all of which fail within two hours; also parts of the work alone."""
    running = jobs(200, 20)
    feed = Feed()
    feed.process([], [heartbeat for job in running for heartbeat in job.alive(START_NS)], START_NS)
    feed.seconds = 0.0
    matches = failing_jobs(running, 7200 * NS_PER_S)[:SIGNALS]
    feed.process_all(matches, A_TICK)
    return {
        "signals": len(matches),
        "incidents": len(feed.unmerged()),
        "engine_per_s": len(matches) / feed.seconds,
        "signal_of_per_s": per_s(matches, lambda match: signal_of(rule_set(), match)),
        "heap_per_s": per_s(matches, _through_a_heap()),
    }


def per_s(matches: list[Match], work: Callable[[Match], object]) -> float:
    """How many matches a second a part of the work processes alone."""
    start_s = process_time()
    for match in matches:
        work(match)
    return len(matches) / (process_time() - start_s)


def _through_a_heap() -> Callable[[Match], object]:
    heap: list[tuple[int, str, Match]] = []

    def pushed_and_popped(match: Match) -> object:
        heappush(heap, (match.event.event_time_ns, match.match_id, match))
        return heappop(heap) if len(heap) > PIECE else None

    return pushed_and_popped


def watchdogs() -> Row:
    """16,384 ranks of one job; a GPU dies, and ten minutes later every other rank reports it within 5 s."""
    (job,) = jobs(1, 2048)
    fault_ns, node = START_NS + 1800 * NS_PER_S, job.nodes[1234]
    feed = Feed()
    feed.process([], list(heartbeats_until(job, fault_ns)), fault_ns - LATENESS_NS)
    feed.seconds = 0.0
    matches = sorted(job.gpu_loss(node, fault_ns), key=lambda match: match.event.event_time_ns)
    feed.process_all(matches, PIECE)
    found = feed.unmerged()
    return {
        "ranks": len(job.ranks),
        "signals": len(matches),
        "incidents": len(found),
        "roots": [f"{incident.root_cause.failure_class} on {incident.root_cause.node}" for incident in found],
        "wanted": f"xid-79 on {node}",
        "seconds_for_all": feed.seconds,
        "memory_mb": peak_mb(),
    }


def heartbeats_until(job: Job, end_ns: int) -> Iterable[Heartbeat]:
    """A step every 10 s, and every node each five minutes."""
    for step, at_ns in enumerate(range(START_NS, end_ns, 10 * NS_PER_S)):
        yield job.step(step, at_ns)
        if step % 30 == 0:
            yield from job.alive(at_ns)


def day() -> Row:
    """100,000 ranks in 100 jobs over 24 simulated hours, with restarts and some incidents; memory hour by hour."""
    simulated, feed = Day(HOURS), Feed()
    memory_mb, snapshot_kb, records, known = [], [], 0, set[str]()
    for number in range(HOURS * 3600 * NS_PER_S // BATCH_NS):
        begin_ns = START_NS + number * BATCH_NS
        matches, heartbeats = simulated.batch(begin_ns)
        records += len(matches) + len(heartbeats)
        feed.process(matches, heartbeats, begin_ns + BATCH_NS - LATENESS_NS)
        if (begin_ns + BATCH_NS - START_NS) % (3600 * NS_PER_S) == 0:
            known |= {incident.incident_id for incident in feed.unmerged()}
            feed.incidents = {key: incident for key, incident in feed.incidents.items() if incident.status == "open"}
            memory_mb.append(resident_mb())
            snapshot_kb.append(len(feed.engine.snapshot()) / 1000)
            print(f"hour {len(memory_mb):2d}: {memory_mb[-1]:6.0f} MB, snapshot {snapshot_kb[-1]:8.0f} kB",
                  file=sys.stderr, flush=True)  # fmt: skip
    return {
        "ranks": simulated.ranks,
        "hours": HOURS,
        "failures": simulated.failures,
        "incidents": len(known),
        "records": records,
        "records_per_s": records / feed.seconds,
        "memory_mb": memory_mb,
        "memory_mb_per_hour": slope(memory_mb),
        "snapshot_kb": snapshot_kb,
        "snapshot_kb_per_hour": slope(snapshot_kb),
    }


def slope(hourly: list[float]) -> float:
    """Growth an hour in the second half; during the first, everything bounded fills up."""
    settled = hourly[len(hourly) // 2 :]
    return linear_regression(range(len(settled)), settled).slope if len(settled) > 1 else 0.0


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


PARTS: dict[str, Callable[[], Row]] = {"rate": rate, "watchdogs": watchdogs, "day": day, "steps": steps}


def main() -> None:
    """Run or profile one part, or run each in a separate process and compare the results with the goals."""
    match sys.argv[1:]:
        case []:
            report({part: in_own_process(part) for part in PARTS})
        case ["profile", part]:
            profiler = cProfile.Profile()
            profiler.runcall(PARTS[part])
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        case [part]:
            print(json.dumps(PARTS[part]()))


def in_own_process(part: str) -> Row:
    """A part in a separate process."""
    done = subprocess.run([sys.executable, "-m", "bench.correlate", part], stdout=subprocess.PIPE, check=True)
    row: Row = json.loads(done.stdout)
    return row


def report(rows: dict[str, Row]) -> None:
    """The results with their goals for people on standard error; JSON on standard output."""
    fast, storm, long, every = rows["rate"], rows["watchdogs"], rows["day"], rows["steps"]
    print(
        f"{fast['signals']:,} signals, {fast['incidents']} incidents: {fast['engine_per_s']:,.0f} signals/s on one core"
        f" (goal: 60,000)\n"
        f"  for comparison: {fast['signal_of_per_s']:,.0f}/s through signal_of,"
        f" {fast['heap_per_s']:,.0f}/s through a heap\n"
        f"{storm['ranks']:,} ranks, {storm['signals']:,} signals: {storm['incidents']} incident(s) (goal: 1)\n"
        f"  root {', '.join(storm['roots'])}; wanted {storm['wanted']}\n"
        f"  {storm['seconds_for_all']:.2f} s for all (goal: 1.5), peak {storm['memory_mb']:.0f} MB (goal: 500)\n"
        f"{long['ranks']:,} ranks, {long['hours']} hours, {long['failures']} failures, {long['incidents']} incidents:"
        f" {long['records']:,} matches and heartbeats, {long['records_per_s']:,.0f}/s\n"
        f"  second half: memory {long['memory_mb_per_hour']:+.2f} MB an hour, snapshot"
        f" {long['snapshot_kb_per_hour']:+.1f} kB an hour (goal: 0)\n"
        f"{every['ranks']:,} ranks that all report each step, from message to engine: {every['single_per_s']:,.0f}"
        f" heartbeats/s singly, {every['bundled_per_s']:,.0f}/s in bundles\n"
        f"  sent by the workers that match: {every['single_sent_per_s']:,.0f}/s singly,"
        f" {every['bundled_sent_per_s']:,.0f}/s in bundles;"
        f" {every['single_bytes']:.0f} and {every['bundled_bytes']:.0f} bytes each",
        file=sys.stderr,
    )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
