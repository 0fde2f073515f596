"""Broken records through envelope, prefix, scan and blocks: no crash, no hang, flat memory, every record counted once.

`make fuzz`; each batch depends on the seed and its number only. A failing batch is reduced and written to a file.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

import click
import msgspec

from bench.fuzz_checks import BrokenError, Cores, check_borders, check_other_cut, check_reference, scan_in_pieces
from bench.fuzz_records import record
from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.process.memory import limit_allocator
from tests.support.logs import LATER_NS

PROCESSES: Final = 2
MAX_RECORDS_A_BATCH: Final = 2_000
MAX_SLOWEST: Final = 5
HANGS_AFTER_S: Final = 120
BUDGET_S: Final = 0.5
BUDGET_A_RECORD_S: Final = 5e-3
BUDGET_A_BYTE_S: Final = 3e-6
MAX_FAILURES: Final = 20
MAX_GROWTH_MB: Final = 64
EXTREME_TIMES_NS: Final = (-1_000_000, 0, (2**63 - 1) * 1_000_000, 4_102_444_800 * NS_PER_S)
CHECKED: Final = {check_other_cut: 10, check_borders: 50, check_reference: 400}
"""Each of these checks runs on one batch in so many of each process."""


class Report(msgspec.Struct):
    """The results of a share of the batches. `slowest` has (CPU seconds, size, beginning) of single records."""

    records: int = 0
    matched: int = 0
    dead: int = 0
    cpu_s: float = 0.0
    scan_cpu_s: float = 0.0
    rss_mb: tuple[float, ...] = ()
    slowest: list[tuple[float, int, str]] = []
    failures: list[str] = []


class Hang(BaseException):
    """A batch took longer than any batch may; `except Exception` must not catch it."""


def batch_of(seed: int, number: int) -> Batch:
    """The records of one batch, as from a partition or a finished file."""
    draw = Random(f"{seed}/{number}")
    count = int(2 ** draw.uniform(0, MAX_RECORDS_A_BATCH.bit_length()))
    values = [record(draw) for _ in range(count)]
    received_ns = LATER_NS if draw.random() < 0.95 else draw.choice(EXTREME_TIMES_NS)
    keys = [draw.choice((None, b"", b"n1", b"n2", b"\xff\x00")) for _ in range(count)]
    is_recorded = draw.random() < 0.3
    return Batch(f"fuzz/{number % 4}", values, keys, [received_ns] * count, range(1, count + 1), is_recorded)


def run_share(seed: int, records: int, first: int, step: int, folder: str) -> Report:
    """Every `step`-th batch from `first` on, until `records` records are scanned, in memory limited as a worker's."""
    limit_allocator()
    report, cores, timings = Report(), Cores(), Timings()
    marks = [records * tenth // 10 for tenth in range(1, 11)]
    scan_in_pieces(cores.of_this_process, batch_of(seed, first), Random(0))
    begun_s, number = time.process_time(), first
    while report.records < records and len(report.failures) < MAX_FAILURES:
        batch = batch_of(seed, number)
        if reason := check_batch(cores, batch, number, report, timings):
            fails = _again(cores, number)
            report.failures.append(f"batch {number}: {reason}: {_saved(Path(folder), seed, number, batch, fails)}")
            print(report.failures[-1], file=sys.stderr, flush=True)
        while marks and report.records >= marks[0]:
            report.rss_mb += (_rss_mb(),)
            print(f"share {first}: {report.records} records, {report.rss_mb[-1]:.0f} MB", file=sys.stderr, flush=True)
            marks.pop(0)
        number += step
    report.cpu_s = time.process_time() - begun_s
    report.slowest = timings.of_records(cores, seed)
    return report


def check_batch(cores: Cores, batch: Batch, number: int, report: Report, timings: Timings) -> str:
    """What is wrong with the scan of the batch; empty when nothing is."""
    draw = Random(number)
    report.records += len(batch)
    try:
        with _time_limit(HANGS_AFTER_S):
            begun_s = time.process_time()
            scanned = scan_in_pieces(cores.of_this_process, batch, draw)
            cpu_s = time.process_time() - begun_s
            report.scan_cpu_s += cpu_s
            report.matched += scanned.matched
            report.dead += scanned.dead
            timings.note(cpu_s, batch, number)
            for check, interval in CHECKED.items():
                if number // PROCESSES % interval == 0:
                    check(cores, batch, draw)
    except BrokenError as broken:
        return str(broken)
    except (Exception, Hang) as error:
        return f"{type(error).__name__}: {error}"[:300]
    return f"took {cpu_s:.1f} s" if cpu_s > _budget_s(batch) else ""


class Timings:
    """The numbers of the slowest batches for their size."""

    def __init__(self) -> None:
        self._worst: list[tuple[float, int]] = []

    def note(self, cpu_s: float, batch: Batch, number: int) -> None:
        """Remember the batch if it is one of the slowest."""
        self._worst = sorted([*self._worst, (cpu_s / _budget_s(batch), number)], reverse=True)[:MAX_SLOWEST]

    def of_records(self, cores: Cores, seed: int) -> list[tuple[float, int, str]]:
        """The slowest single records of those batches."""
        timed, scanner = [], cores.fresh()
        for value in (value for _, number in self._worst for value in batch_of(seed, number).values):
            begun_s = time.process_time()
            scan_in_pieces(scanner, Batch("fuzz/0", [value], [None], [LATER_NS], [1]), Random(0))
            timed.append((time.process_time() - begun_s, len(value), ascii(value[:80])))
        return sorted(timed, reverse=True)[:MAX_SLOWEST]


def _budget_s(batch: Batch) -> float:
    return BUDGET_S + len(batch) * BUDGET_A_RECORD_S + sum(map(len, batch.values)) * BUDGET_A_BYTE_S


def _again(cores: Cores, number: int) -> Callable[[Batch], bool]:
    """Whether a part of the batch fails too."""
    return lambda batch: bool(check_batch(cores, batch, number, Report(), Timings()))


def _saved(folder: Path, seed: int, number: int, batch: Batch, fails: Callable[[Batch], bool]) -> str:
    """Write the failing records, one a line in hex, as few as are found quickly; gives the file."""
    small = _shrunk(batch, fails)
    lines = [value.hex() for value in small.values]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"fuzz-{seed}-{number}.hex"
    file.write_text("\n".join(lines) + "\n")
    return f"{file}: {len(small)} records, the first {lines[0][:300]}"


def _shrunk(batch: Batch, fails: Callable[[Batch], bool]) -> Batch:
    for size in (1, len(batch) // 8, len(batch) // 2):
        for start in range(0, len(batch), max(1, size)):
            part = _part(batch, start, start + max(1, size))
            if len(part) < len(batch) and fails(part):
                return _shrunk(part, fails)
    return batch


def _part(batch: Batch, start: int, end: int) -> Batch:
    rest = batch.tail(start)
    size = min(end - start, len(rest))
    columns = (rest.values[:size], rest.keys[:size], rest.received_ns[:size], range(1, size + 1))
    return Batch(batch.source, *columns, is_recorded=batch.is_recorded)


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise Hang(f"not done after {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@click.command()
@click.option("--records", default=10_000_000, envvar="RECORDS", show_default=True)
@click.option("--seed", default=1, envvar="SEED", show_default=True)
@click.option("--first", default=0, help="The first batch, to repeat one.")
@click.option("--failures", default="fuzz-failures", show_default=True, help="Folder for failing records.")
def main(records: int, seed: int, first: int, failures: str) -> None:
    """Run on two processes and print one JSON object; exit code 1 when something failed."""
    begun_s = time.monotonic()
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        share = -(-records // PROCESSES)
        jobs = [pool.submit(run_share, seed, share, first + at, PROCESSES, failures) for at in range(PROCESSES)]
        reports = [job.result() for job in jobs]
    problems = [failure for report in reports for failure in report.failures]
    problems += [f"memory grew: {report.rss_mb} MB" for report in reports if _has_grown(report)]
    elapsed_s, count = time.monotonic() - begun_s, sum(report.records for report in reports)
    result = {
        "seed": seed,
        "records": count,
        "matched": sum(report.matched for report in reports),
        "dead": sum(report.dead for report in reports),
        "records_per_s": round(count / elapsed_s),
        "scan_cpu_us_per_record": round(1e6 * sum(report.scan_cpu_s for report in reports) / count, 1),
        "rss_mb_by_tenth": [[round(size_mb) for size_mb in report.rss_mb] for report in reports],
        "slowest_records": sorted((timing for report in reports for timing in report.slowest), reverse=True)[
            :MAX_SLOWEST
        ],
        "failures": problems,
    }
    print(json.dumps(result, indent=1))
    sys.exit(1 if problems else 0)


def _has_grown(report: Report) -> bool:
    return report.rss_mb[-1] - report.rss_mb[0] > MAX_GROWTH_MB


if __name__ == "__main__":
    main()
