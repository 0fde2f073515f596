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
from pathlib import Path
from time import perf_counter

from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import Examples, RuleSpec
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner

SIZE_BYTES = int(os.environ.get("BENCH_BYTES", 1 << 30))
PATTERNS_FOR_RG = 300
PATTERN_COUNTS = (50, 500, 5000)
FAILURE = "kernel: [{n}.123456] NVRM: Xid (PCI:0000:61:00): 79, pid=8129, name=python3, GPU has fallen off the bus."
PROGRESS = "completed step: {n}, seconds: 4.981, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871"
RULES_OF_THE_HITS = ("nvidia.xid", "progress.maxtext")
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
    if len(sys.argv) == 3:
        print(json.dumps(scan_file(Path(sys.argv[1]), int(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        log = Path(folder, "mixed.log")
        write_log(log)
        print(f"{log.stat().st_size / 1e6:.0f} MB of mixed log, one hit in a thousand lines")
        compare_with_rg(log, Path(folder))
        rows = [scanned_in_own_process(log, count) for count in PATTERN_COUNTS]
        for count, row in zip(PATTERN_COUNTS, rows, strict=True):
            share = row["lines_per_s"] / rows[0]["lines_per_s"]
            print(f"{count:5d} patterns: {row['lines_per_s']:,.0f} lines/s, {share:.2f} of the first")


def compare_with_rg(log: Path, folder: Path) -> None:
    """The same patterns by `match` and by ripgrep, one after the other."""
    ours = scanned_in_own_process(log, PATTERNS_FOR_RG)
    print(
        f"epicenter, {PATTERNS_FOR_RG} patterns: {ours['seconds']:.2f} s, {ours['lines_per_s']:,.0f} lines/s, "
        f"{ours['matches']} hits, {ours['memory_mb']:.0f} MB of memory"
    )
    if not (rg := shutil.which("rg")):
        print("rg is not here (Debian package ripgrep): no ratio")
        return
    file = folder / "patterns"
    file.write_text("\n".join(expressions(PATTERNS_FOR_RG)) + "\n")
    start_s = perf_counter()
    command = [rg, *RG_LIMITS, "-c", "-f", str(file), str(log)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed_s = perf_counter() - start_s
    if found.returncode > 1:
        sys.exit(f"rg: {found.stderr[-300:]}")
    ratio = elapsed_s / ours["seconds"]
    print(f"rg -c -f: {elapsed_s:.2f} s, {found.stdout.strip()} lines with a hit; epicenter is {ratio:.1f}x as fast")


def scanned_in_own_process(log: Path, patterns: int) -> dict[str, float]:
    """One run in a separate process, so that its memory is measured alone."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.match", str(log), str(patterns)], capture_output=True, text=True, check=True
    )
    row: dict[str, float] = json.loads(done.stdout)
    return row


def scan_file(log: Path, patterns: int) -> dict[str, float]:
    """Seconds, lines a second, hits and peak memory of one pass; patterns are compiled before the clock starts."""
    scanner = BlockBuffer(
        BatchScanner(RuleSet(tuple(some_rules(patterns)), ()), "bench", keep_all=True, finds_liveness=False)
    )
    start_s = perf_counter()
    lines = matches = 0
    for scanned in scanner.scan_all(read_to_the_end(Sources([str(log)], "bench", follow=False))):
        lines += scanned.records
        matches += len(scanned.matches)
    elapsed_s = perf_counter() - start_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": elapsed_s, "lines_per_s": lines / elapsed_s, "matches": matches, "memory_mb": memory_mb}


def expressions(count: int) -> list[str]:
    """`count` patterns without the names of their groups: ripgrep accepts each name once only."""
    patterns = [pattern for rule in some_rules(count) for pattern in rule.spec.patterns][:count]
    return [re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern in patterns]


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
    """A log of `SIZE_BYTES`, the same in every run: one large piece again and again."""
    piece = "".join(line + "\n" for line in mixed_lines(150_000)).encode()
    with log.open("wb") as file:
        while file.tell() < SIZE_BYTES:
            file.write(piece)


def mixed_lines(count: int) -> Iterator[str]:
    """Lines as a cluster writes them, nearly all of them quiet."""
    chance = random.Random(1)
    shares, shapes = zip(*KINDS, strict=True)
    for n in range(count):
        (shape,) = chance.choices(shapes, shares)
        yield shape.format(n=n, m=n % 60, s=n % 59, us=chance.randrange(10**6), node=n % 64, rank=n % 256)


if __name__ == "__main__":
    main()
