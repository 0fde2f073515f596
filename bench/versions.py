"""Two versions on one machine: whether this checkout is slower than another one.

python -m bench.versions OTHER_CHECKOUT

Each runs its own benches in its own environment (`.venv`), small and on one core, in turn: other programs disturb both.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from bench.match import mixed_lines

HERE: Final = Path(__file__).parents[1]
LINES: Final = 100_000
ALLOWED: Final = 0.03
RATE: Final = {"BENCH_SIGNALS": "60000"}
DAY: Final = {"BENCH_HOURS": "2", "BENCH_RANKS": "8000"}


class Bench(NamedTuple):
    """A command of a checkout. `figure` finds the measured value in its output; without it CPU seconds count.

    `is_rate`: the value is a rate, so more is better.
    """

    name: str
    command: Sequence[str]
    figure: str = ""
    is_rate: bool = False
    env: Mapping[str, str] = {}


def benches(log: Path) -> Iterator[Bench]:
    """Benches of the engine, the hot path and whole commands."""
    python, epicenter = ".venv/bin/python", ".venv/bin/epicenter"
    correlate = (python, "-m", "bench.correlate")
    yield Bench("engine: matches", (*correlate, "rate"), r'"engine_per_s": ([\d.]+)', is_rate=True, env=RATE)
    yield Bench("engine: a day, mostly heartbeats", (*correlate, "day"), r'"records_per_s": ([\d.]+)', True, DAY)
    yield Bench("engine: 16,384 ranks time out", (*correlate, "watchdogs"), r'"seconds_for_all": ([\d.]+)')
    yield Bench("hot path, ns a line", (python, "-m", "bench.stages"), r"all of it +(\d+) ns")
    yield Bench(f"epicenter match, {LINES:,} lines", (epicenter, "match", str(log)))
    yield Bench("epicenter --help", (epicenter, "--help"))


@click.command()
@click.argument("other", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=5, show_default=True, help="Runs in each checkout; the first fills caches.")
@click.option("--only", default="", help="Only benches whose name contains this.")
@click.option("--core", default=0, show_default=True, help="The core on which all of them run.")
def main(other: Path, rounds: int, only: str, core: int) -> None:
    """Compare the best runs of this checkout and of OTHER; exit with 1 when this one is more than 3 % slower."""
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        log = Path(folder, "mixed.log")
        log.write_text("".join(f"{line}\n" for line in mixed_lines(LINES)))
        click.echo(f"{'':36}{'other':>12}{'this':>12}{'speed of this':>16}")
        ratios = [compared(bench, other, rounds) for bench in benches(log) if only in bench.name]
    raise SystemExit(1 if min(ratios, default=1.0) < 1 - ALLOWED else 0)


def compared(bench: Bench, other: Path, rounds: int) -> float:
    """The speed of this checkout; that of the other one is 1."""
    before, after = [], []
    for _ in range(rounds):
        before.append(measured(bench, other))
        after.append(measured(bench, HERE))
    best = max if bench.is_rate else min
    old, new = best(before), best(after)
    ratio = new / old if bench.is_rate else old / new
    click.echo(f"{bench.name:36}{old:12,.4g}{new:12,.4g}{ratio:16.3f}")
    return ratio


def measured(bench: Bench, checkout: Path) -> float:
    """The figure of one run, or its CPU seconds."""
    before_s = cpu_s()
    done = subprocess.run(bench.command, cwd=checkout, env=os.environ | bench.env, capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"{checkout}: {' '.join(bench.command)}: {done.stderr[-500:]}")
    if not bench.figure:
        return cpu_s() - before_s
    found = re.search(bench.figure, done.stdout)
    if found is None:
        raise click.ClickException(f"{checkout}: {' '.join(bench.command)}: no {bench.figure} in its output")
    return float(found[1])


def cpu_s() -> float:
    """Seconds of CPU of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
