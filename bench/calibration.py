"""How often the first cause is right at each confidence, on simulated failures that lost some of their logs.

`python -m bench.calibration` simulates every kind of fault on small clusters. Each folder is whole, or lacks all kernel
logs, the worker log of the faulty node, or every other line.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from bench.accuracy import LATENESS_NS, PROCESSES, rule_set, truth_in
from bench.accuracy_score import Truth, found_of, judge
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import KINDS, Scenario, write_all
from epicenter.stream.local.pipeline import Pipeline, replay

LOSSES: Final = ("nothing", "nothing", "kernel logs", "worker log", "half")
KERNEL_FILES: Final = ("kern.log", "kmsg.jsonl", "journald.jsonl")
BANDS: Final = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.01)
Answer = tuple[float, bool]
"""A confidence, and whether the cause was right."""


def main() -> None:
    """Simulate, replay, and print the table."""
    parser = argparse.ArgumentParser(prog="bench.calibration", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6, help="folders of each kind of fault")
    options = parser.parse_args()
    cases = [(kind, f"{options.seed}/{number}/{kind}") for number in range(options.rounds) for kind in sorted(KINDS)]
    with ProcessPoolExecutor(PROCESSES) as pool:
        answers = [answer for found in pool.map(answered, cases) for answer in found]
    print("\n".join(table(answers)))


def answered(case: tuple[str, str]) -> list[Answer]:
    """The answers for the faults of one folder."""
    kind, seed = case
    chance = Random(seed)
    with tempfile.TemporaryDirectory(prefix="epicenter-calibration-") as made:
        folder = Path(made)
        scenario = Scenario(nodes=chance.choice((2, 4, 8)), seed=chance.randrange(1 << 31), faults=(kind,))
        write_all(scenario, folder)
        truth = truth_in(folder)
        lose(folder, truth, chance)
        incidents = replay(Pipeline(rule_set(), "default", LATENESS_NS), Sources([str(folder)], host="", follow=False))
    found = [found_of(msgspec.to_builtins(incident)) for incident in incidents]
    scores = judge(kind, truth, found)
    return [(score.found[0].confidence, bool(score.top1)) for score in scores if score.found and score.fault.incident]


def lose(folder: Path, truth: Truth, chance: Random) -> None:
    """Delete some of the folder's logs."""
    loss, faulty = chance.choice(LOSSES), {fault.node for fault in truth.faults}
    for file in sorted(folder.glob("*/*")):
        is_lost = (loss == "kernel logs" and file.name in KERNEL_FILES) or (
            loss == "worker log" and file.name == "worker.jsonl" and file.parent.name in faulty
        )
        if is_lost:
            file.unlink()
        elif loss == "half":
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(line for line in lines if chance.random() < 0.5))


def table(answers: Iterable[Answer]) -> Iterator[str]:
    """The share of right answers in each band of confidence."""
    by_band: dict[float, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_band[max(low for low in BANDS if low <= answer[0])].append(answer)
    yield f"{'confidence':<14}{'incidents':>10}{'mean':>8}{'right':>8}"
    for low, high in pairwise(BANDS):
        if found := by_band[low]:
            mean, right = (sum(values) / len(found) for values in zip(*found, strict=True))
            yield f"{low:.2f} to {min(high, 1):.2f}  {len(found):>10}{mean:>8.2f}{right:>8.2f}"


if __name__ == "__main__":
    main()
