"""Inputs of any size, of the shapes that logs and failures have: the work on them must grow with their size only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from bench.correlate import LATENESS_NS, Feed
from bench.correlate_input import KERNEL, LINES, START_NS, Job, happening, jobs, rule_set
from bench.diagnosis import replayed, triaged
from epicenter.ingest.batch.batch import Batch
from epicenter.rules.alerts.mute_stages import OperatorActions
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scan.scan import BatchScanner
from tests.support.planning import PlannerHarness, incident, routing

A_TICK: Final = 500
XID: Final = "NVRM: Xid (PCI:0000:61:00): 79, pid=8129, name=python3, GPU has fallen off the bus."
OOM: Final = LINES["out_of_memory"][0]
STEP: Final = "completed step: {n}, seconds: 1.0, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871"
TRACEBACK: Final = (
    "Traceback (most recent call last):",
    *('  File "/app/train.py", line 3, in step',) * 10,
    "ValueError: bad value",
)
FOREVER_NS: Final = 1 << 62

Work = Callable[[], object]
Lines = Callable[[int], Iterable[str]]


class Shape(NamedTuple):
    """Makes the work on an input of a size; `size` is the smallest that shows how it grows."""

    size: int
    work: Callable[[int, Path], Work]


def scanned(values: Callable[[int], Iterable[bytes]]) -> Callable[[int, Path], Work]:
    """A batch through the scanner."""

    def work(size: int, folder: Path) -> Work:
        batch_values, scanner = list(values(size)), BatchScanner(rule_set(), "bench")
        count = len(batch_values)
        batch = Batch("raw/0", batch_values, [None] * count, [START_NS] * count, range(count))
        return lambda: scanner.scan(batch)

    return work


def envelope(text: str, node: str, at_s: float, job: str = "A") -> bytes:
    """A line with its place, as shippers send it."""
    return orjson.dumps({"timestamp": START_NS / NS_PER_S + at_s, "host": node, "message": text, "job_id": job})


def in_turns(size: int) -> Iterable[bytes]:
    """Hosts and jobs take turns, line by line."""
    return (envelope(text, f"n{n}", second, f"j{n}") for second, text in enumerate(TRACEBACK) for n in range(size))


SCANS: Final = {
    "quiet lines of many writers": (400, lambda n: (envelope("quiet", f"n{i}", 0, f"j{i}") for i in range(n))),
    "quiet lines a minute apart": (400, lambda n: (envelope("quiet", "n1", 60 * i) for i in range(n))),
    "times that jump back and forth": (400, lambda n: (envelope("quiet", "n1", 3600 * (i % 2)) for i in range(n))),
    "plain kernel lines, times jump": (400, lambda n: (kernel_line(i, "audit: type=1400").encode() for i in range(n))),
    "steps": (200, lambda n: (envelope(STEP.format(n=i), f"n{i % 10}", i) for i in range(n))),
    "failures of one host": (100, lambda n: (envelope(XID, "n1", i / 10) for i in range(n))),
    "failures of many hosts": (100, lambda n: (envelope(XID, f"n{i}", i / 10) for i in range(n))),
    "escaped lines": (100, lambda n: (envelope(f'"x"\n{XID}', "n1", i) for i in range(n))),
    "tracebacks one after the other": (
        8,
        lambda n: (envelope(text, f"n{i}", i) for i in range(n) for text in TRACEBACK),
    ),
    "tracebacks of hosts and jobs that take turns": (5, in_turns),
    "a long traceback": (
        100,
        lambda n: (envelope(text, "n1", 0) for text in (TRACEBACK[0], *TRACEBACK[1:2] * n, TRACEBACK[-1])),
    ),
}


def correlated(
    matches: Callable[[list[Job]], Iterable[Match]],
    of_one_job: bool = False,
    has_jobs: bool = True,
    a_tick: int = A_TICK,
) -> Callable[[int, Path], Work]:
    """Matches through the engine, of so many jobs as the size says, or of one job of so many nodes."""

    def work(size: int, folder: Path) -> Work:
        running, feed = jobs(1, size) if of_one_job else jobs(size, 1), Feed()
        feed.process([], [alive for job in running for alive in job.alive(START_NS) if has_jobs], START_NS)
        ordered = sorted(matches(running), key=lambda match: match.event.event_time_ns)
        return lambda: feed.process_all(ordered, a_tick)

    return work


def each(kind: str, apart_s: float) -> Callable[[list[Job]], Iterable[Match]]:
    """The same happens on the first node of each job."""
    return lambda running: (
        match
        for number, job in enumerate(running)
        for match in happening(
            kind, START_NS + round(number * apart_s * NS_PER_S), job.nodes[0], "" if kind in KERNEL else job.name, 0
        )
    )


def each_rank(kind: str, job: Job) -> Iterable[Match]:
    """The same happens on each rank."""
    return (
        match
        for rank in job.ranks
        for match in happening(kind, START_NS + rank * NS_PER_S // 100, job.node_of(rank), job.name, rank)
    )


def happened(matches: Callable[[int], Iterable[Match]], a_tick: int = 50) -> Callable[[int, Path], Work]:
    """So many happenings through the engine, of hosts and jobs of which no heartbeat came before."""

    def work(size: int, folder: Path) -> Work:
        feed, found = Feed(), list(matches(size))
        return lambda: feed.process_all(found, a_tick)

    return work


def hosts_and_jobs_in_turn(count: int, apart_s: float) -> Iterator[Match]:
    """A host of no job loses a GPU, a rank of a job times out, and another job there runs out of memory."""
    for number in range(count):
        at_ns = START_NS + round(number * apart_s * NS_PER_S)
        yield from happening("lost_gpu", at_ns, f"idle{number}")
        yield from happening("timed_out_rank", at_ns + NS_PER_S, f"node{number}", f"job{number}", 0)
        yield from happening("out_of_memory", at_ns, f"node{number}", f"other{number}", 0)


def later_ones_first(count: int) -> Iterator[Match]:
    """A rank of each job times out, each before the one that came before it, and later than the allowed lateness."""
    for number in range(count):
        at_ns = START_NS + (count - number) * NS_PER_S // 10
        yield from happening("timed_out_rank", at_ns, f"node{number}", f"job{number}", 0)


def jobs_of_one_node(count: int) -> Iterator[Match]:
    """A program of each job runs out of memory, all on one node."""
    for number in range(count):
        yield from happening("out_of_memory", START_NS + number * NS_PER_S // 10, "node", f"job{number}", 0)


def attempts(size: int, folder: Path) -> Work:
    """A job of two nodes runs out of memory and restarts, again and again."""
    (job,), feed = jobs(1, 2), Feed()
    pieces: list[tuple[list[Match], list[Heartbeat], int]] = []
    for begin_ns in range(START_NS, START_NS + size * 600 * NS_PER_S, 600 * NS_PER_S):
        steps = (job.step(step, begin_ns + step * 10 * NS_PER_S) for step in range(20))
        ends = happening("out_of_memory", begin_ns + 300 * NS_PER_S, job.nodes[0], job.name, 0)
        pieces.append(([*ends], [*job.banners(begin_ns), *steps], begin_ns + 590 * NS_PER_S))
    return lambda: [feed.process(*piece) for piece in pieces]


def steps_of_jobs(size: int, folder: Path) -> Work:
    """Jobs train for ten minutes."""
    running, feed = jobs(size, 2), Feed()
    rounds = [
        [heartbeat for job in running for heartbeat in (job.step(step, at_ns), *job.alive(at_ns))]
        for step, at_ns in enumerate(range(START_NS, START_NS + 600 * NS_PER_S, 10 * NS_PER_S))
    ]
    return lambda: [feed.process([], heartbeats, heartbeats[-1].event_time_ns - LATENESS_NS) for heartbeats in rounds]


ENGINE: Final = {
    "hosts that lose a GPU at once": Shape(100, correlated(each("lost_gpu", 0.1), has_jobs=False)),
    "hosts of jobs that lose a GPU at once": Shape(40, correlated(each("lost_gpu", 0.1))),
    "hosts that lose a GPU, an hour apart": Shape(10, correlated(each("lost_gpu", 3600.0), a_tick=3)),
    "jobs out of memory": Shape(40, correlated(each("out_of_memory", 0.1))),
    "jobs whose ranks all time out": Shape(
        6, correlated(lambda running: (match for job in running for match in each_rank("timed_out_rank", job)))
    ),
    "a job whose ranks all time out": Shape(
        6, correlated(lambda running: each_rank("timed_out_rank", running[0]), of_one_job=True)
    ),
    "a job whose ranks all run out of memory": Shape(
        20, correlated(lambda running: each_rank("out_of_memory", running[0]), of_one_job=True)
    ),
    "hosts and jobs in turn": Shape(25, happened(lambda size: hosts_and_jobs_in_turn(size, 10.0))),
    "hosts and jobs in turn, at once": Shape(100, happened(lambda size: hosts_and_jobs_in_turn(size, 0.1))),
    "times going backwards": Shape(40, happened(later_ones_first)),
    "jobs of one node": Shape(150, happened(jobs_of_one_node)),
    "attempts of a job": Shape(8, attempts),
    "steps of jobs": Shape(5, steps_of_jobs),
}


def kernel_line(number: int, text: str) -> str:
    """A line of syslog; the minute and the second jump."""
    return f"Mar  2 09:{number % 60:02d}:{number * 7 % 60:02d} node{number % 64:04d} kernel: [{number}.5] {text}"


def stamp(second: float) -> str:
    """The time of a line, as Python's logging prints it."""
    whole = int(second)
    return f"2026-03-02 {9 + whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d},000"


def written(lines: Lines, name: str = "train.log") -> Callable[[int, Path], Work]:
    """A log through triage."""

    def work(size: int, folder: Path) -> Work:
        log = folder / name
        log.write_text("".join(f"{line}\n" for line in lines(size)))
        return lambda: triaged(log)

    return work


def restarts(size: int) -> Iterable[str]:
    """A job that starts again after each failure."""
    for number in range(size):
        begin_s = 60 * number
        yield f"{stamp(begin_s)} [before the start of training step] datetime: 2026-03-02 09:00:00"
        yield f"{stamp(begin_s + 10)} {STEP.format(n=number)}"
        yield f"{stamp(begin_s + 20)} {OOM}"
        yield from LINES["ended_node"]


def as_json(text: str, number: int) -> str:
    """A line of JSON with its host and job."""
    return orjson.dumps(
        {"time": "2026-03-02T09:00:00Z", "host": f"n{number}", "job": f"j{number}", "message": text}
    ).decode()


TRIAGES: Final[dict[str, tuple[int, Lines]]] = {
    "ranks out of memory": (60, lambda n: (f"[rank{i}]: {stamp(i)} {OOM}" for i in range(n))),
    "tasks of srun out of memory": (60, lambda n: (f"{i}: {OOM}" for i in range(n))),
    "tasks that srun reports": (
        60,
        lambda n: (f"srun: error: node{i:05d}: task {i}: Exited with exit code 1" for i in range(n)),
    ),
    "ranks that time out": (
        20,
        lambda n: (line.replace("ank25", f"ank{i}").replace("ank 25", f"ank {i}")
                   for i in range(n) for line in LINES["timed_out_rank"]),
    ),
    "tracebacks of ranks": (6, lambda n: (f"[rank{i}]: {text}" for i in range(n) for text in TRACEBACK)),
    "tracebacks of one process": (10, lambda n: (text for _ in range(n) for text in TRACEBACK)),
    "tracebacks of hosts and jobs": (5, lambda n: (as_json(text, i) for i in range(n) for text in TRACEBACK)),
    "a traceback": (100, lambda n: (TRACEBACK[0], *TRACEBACK[1:2] * n, TRACEBACK[-1])),
    "restarts": (10, restarts),
    "steps": (60, lambda n: (f"{stamp(i)} {STEP.format(n=i)}" for i in range(n))),
    "unnamed errors": (60, lambda n: (f"{stamp(i)} ERROR no w{i:x}x of q{i * 31:x}z" for i in range(n))),
    "text that wraps at 80 columns": (
        60,
        lambda n: (text[at : at + 80] for text in ["".join(f"{i} {XID} " for i in range(n))]
                   for at in range(0, len(text), 80)),
    ),
    "hosts that lose a GPU at once": (
        100,
        lambda n: (f"Mar  2 09:00:{i % 60:02d} node{i:05d} kernel: [{i}.1] {XID}" for i in range(n)),
    ),
    "jobs out of memory": (40, lambda n: (as_json(OOM, i) for i in range(n))),
    "an export as CSV": (
        60,
        lambda n: ("time,host,message", *(f'2026-03-02T09:00:00Z,n{i},"{OOM}"' for i in range(n))),
    ),
    "a progress bar": (
        400,
        lambda n: ("".join(f"\rTraining: {i % 100}%|###   | {i}/{n} [00:10<00:20, 3.2it/s]" for i in range(n)),),
    ),
}  # fmt: skip


def a_folder(read: Callable[[Path], Sequence[Any]]) -> Callable[[int, Path], Work]:
    """A folder with the log of each rank."""

    def work(size: int, folder: Path) -> Work:
        for rank in range(size):
            lines = [*(f"{stamp(step)} {STEP.format(n=step)}" for step in range(10)), f"{stamp(20)} {OOM}"]
            (folder / f"rank{rank}.log").write_text("".join(f"{line}\n" for line in lines))
        return lambda: read(folder)

    return work


def routed(size: int, folder: Path) -> Work:
    """Twenty incidents past many routes."""
    routes = [{"match": {"node": f"n{number}"}, "targets": f"t{number}"} for number in range(size)]
    return notified(PlannerHarness(routing(route={"targets": "chat", "routes": routes})), 20)


def silenced(size: int, folder: Path) -> Work:
    """Twenty incidents past many silences."""
    harness = PlannerHarness(routing())
    silences = (Silence(f"s{number}", {"node": f"x{number}"}, 0, FOREVER_NS, "ada", "") for number in range(size))
    harness.actions = OperatorActions(silences=tuple(silences))
    return notified(harness, 20)


def notified(harness: PlannerHarness, count: int) -> Work:
    """Incidents that are observed, then one tick."""

    def work() -> None:
        for number in range(count):
            harness.observe(incident(f"i{number:05}"))
        harness.wait(1)

    return work


SHAPES: Final = {
    **{f"scan: {name}": Shape(size, scanned(values)) for name, (size, values) in SCANS.items()},
    **{f"engine: {name}": shape for name, shape in ENGINE.items()},
    **{f"triage: {name}": Shape(size, written(lines)) for name, (size, lines) in TRIAGES.items()},
    "folder: ranks, triage": Shape(8, a_folder(triaged)),
    "folder: ranks, replay": Shape(8, a_folder(replayed)),
    "alerts: routes": Shape(50, routed),
    "alerts: silences": Shape(50, silenced),
    "alerts: messages": Shape(50, lambda size, folder: notified(PlannerHarness(routing()), size)),
}
