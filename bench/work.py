"""The work of each bench's short form, counted without a clock and compared with bench/work.yaml: `make bench-work`.

Exit code 1 when a count grew by more than a tenth, or twice the input took more than 2.2 times the calls. `--write`
records the counts: after a change that is worth more work, or to hold on to one that saves some.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import click
import yaml

from bench.correlate_input import rule_set
from bench.work_benches import SHORT_BENCHES, ShortBench
from bench.work_count import Calls

RECORD: Final = Path(__file__).with_suffix(".yaml")
PROCESSES: Final = 2
MAX_GROWTH: Final = 1.1
TOO_LOW: Final = 0.5
"""Below this share of the record, the record would no longer notice that the work doubles."""

CALLS: Final = "function calls"
WRITE: Final = "python -m bench.work --write"
Counts = Mapping[str, int]


class Row(NamedTuple):
    """A count as recorded, None if it is not, and now."""

    bench: str
    counted: str
    recorded: int | None
    now: int | None

    @property
    def ratio(self) -> float:
        """How often the record goes into what is counted now."""
        return (self.now or 0) / (self.recorded or 1)

    @property
    def mistake(self) -> str:
        """What is wrong, and what to do; empty if nothing is."""
        if self.recorded is None or self.now is None:
            return f"{self}: only one of the two is there: {WRITE}"
        if self.ratio > MAX_GROWTH:
            return f"{self}: more work than recorded. Find out why; if it is worth it: {WRITE}"
        return f"{self}: much less work than recorded. Hold on to it: {WRITE}" if self.ratio < TOO_LOW else ""

    def __str__(self) -> str:
        recorded, now = (f"{count or 0:,}" for count in (self.recorded, self.now))
        return f"{self.bench:20} {self.counted:30} {recorded:>12} {now:>12} {self.ratio:7.2f}"


class Growth(NamedTuple):
    """The calls of epicenter's functions with an input, and with twice as much of it."""

    bench: str
    sizes: tuple[int, int]
    calls: tuple[int, int]

    @property
    def ratio(self) -> float:
        """The calls for each thing of the larger input; those of the smaller one are 1."""
        (small, large), (few, many) = self.sizes, self.calls
        return (many / large) / (few / small)

    @property
    def mistake(self) -> str:
        """What is wrong; empty if nothing is."""
        too_much = self.ratio > MAX_GROWTH
        return f"{self}: the work for each grows with their number: somewhere each looks at all" if too_much else ""

    def __str__(self) -> str:
        (small, large), (few, many) = self.sizes, self.calls
        return f"{self.bench:20} {f'calls for {small:,} and {large:,}':30} {few:>12,} {many:>12,} {self.ratio:7.2f}"


class Counted(NamedTuple):
    """The size of a bench's input and its counts, for the input and, if it grows evenly, for twice as much."""

    bench: str
    sizes: tuple[int, ...]
    counts: tuple[Counts, ...]

    @property
    def growth(self) -> Growth | None:
        """The growth, if it was counted."""
        if len(self.sizes) < 2:
            return None
        first, second = self.sizes
        return Growth(self.bench, (first, second), (self.counts[0][CALLS], self.counts[1][CALLS]))


def count_all(benches: Sequence[ShortBench] = SHORT_BENCHES) -> list[Counted]:
    """The counts of the benches. Each has a separate process: the caches of one would save work in others."""
    rule_set()
    runs = [(bench.name, times) for bench in benches for times in ((1, 2) if bench.grows_evenly else (1,))]
    with get_context("fork").Pool(PROCESSES, maxtasksperchild=1) as pool:
        counted = dict(zip(runs, pool.starmap(_counted, runs, chunksize=1), strict=True))
    return [
        Counted(bench.name, *map(tuple, zip(*(counted[run] for run in runs if run[0] == bench.name), strict=True)))
        for bench in benches
    ]


def _counted(name: str, times: int) -> tuple[int, Counts]:
    """Size and counts of a bench with so many times its input."""
    bench = next(bench for bench in SHORT_BENCHES if bench.name == name)
    figures: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        prepared = bench.prepare(bench.size * times, Path(folder))
        calls = Calls(lambda: figures.update(prepared.run()))
    counts = {bench.unit: prepared.size, CALLS: calls.ours}
    counts |= {what: calls.of(*called) for what, called in bench.calls.items()}
    return prepared.size, {what: count for what, count in (counts | figures).items() if count}


def rows(counted: Sequence[Counted]) -> Iterator[Row]:
    """Each count next to its record."""
    record: Mapping[str, Counts] = yaml.safe_load(RECORD.read_text()) if RECORD.exists() else {}
    now = {found.bench: found.counts[0] for found in counted}
    for bench in now:
        for what in {**now[bench], **record.get(bench, {})}:
            yield Row(bench, what, record.get(bench, {}).get(what), now[bench].get(what))


def write(counted: Sequence[Counted]) -> None:
    """Record the counts of all benches."""
    record = {found.bench: dict(found.counts[0]) for found in counted}
    RECORD.write_text("# The work of each bench's short form. Written by python -m bench.work --write\n"
                      + yaml.safe_dump(record, sort_keys=False))  # fmt: skip


@click.command()
@click.option("--write", "is_written", is_flag=True, help="Record the counts in bench/work.yaml.")
@click.option("--json", "as_json", is_flag=True, help="Print what is wrong by bench, as JSON.")
def main(is_written: bool, as_json: bool) -> None:
    """Print a row for each count, and the growth of each bench."""
    counted = count_all()
    if is_written:
        write(counted)
    found: list[Row | Growth] = [*rows(counted), *filter(None, (each.growth for each in counted))]
    mistakes = {
        each.bench: [row.mistake for row in found if row.bench == each.bench and row.mistake] for each in counted
    }
    if as_json:
        print(json.dumps(mistakes))
        return
    print(f"{'bench':20} {'counted':30} {'recorded':>12} {'now':>12} {'ratio':>7}")
    print(*found, sep="\n")
    wrong = [mistake for of_bench in mistakes.values() for mistake in of_bench]
    print(*(f"\n{mistake}" for mistake in wrong), sep="")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
