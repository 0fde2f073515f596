"""How often incidents are right on logs with a known truth, compared with simple baselines: `make accuracy`.

`python -m bench.accuracy FOLDER...` scores folders of any generator, each with a `truth.json`. Without folders it
simulates failures and healthy hours with fresh seeds. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Protocol, TypeVar

import msgspec

from bench.accuracy_report import as_json, as_text, goals_missed
from bench.accuracy_score import Found, Scores, Truth, found_of, seconds
from bench.baselines import BASELINES, error_lines
from bench.live_arrival import LiveArrival
from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import Sources
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.local.pipeline import Pipeline, replay
from epicenter.stream.scan.scan import ScanResult

PROCESSES = 2
LATENESS_NS = 5 * NS_PER_S
OURS = "epicenter"
TRUTH_FILE = "truth.json"
TOPOLOGY_FILE = "topology.yaml"
Ways = dict[str, list[Found]]
C = TypeVar("C")


class Made(Protocol):
    """A folder that is made just before it is scored."""

    name: str

    def write(self, folder: Path) -> None:
        """Write its logs and its truth."""

    def write_truth(self, folder: Path) -> None:
        """Write the truth alone."""

    def write_paced(self, folder: Path, wait: Callable[[float], None]) -> None:
        """Write the same as time passes; `wait` gets the seconds between two moments."""


class RecordingPipeline(Pipeline):
    """The pipeline of `replay`; it records its matches for the baselines."""

    matches: list[Match]

    def process(self, batch: Batch) -> ScanResult:
        """Scan a batch and pass the result to the engine."""
        scanned = super().process(batch)
        self.matches += scanned.matches
        return scanned

    def rest(self) -> list[ScanResult]:
        """Scan what was buffered."""
        rest = super().rest()
        self.matches += [match for scanned in rest for match in scanned.matches]
        return rest


def main() -> int:
    """Score the given or simulated folders; the exit code."""
    options = parsed()
    if options.folders:
        scores = scores_of(list(folders_with_truth(options.folders)), answered)
    else:
        from bench.accuracy_make import made_cases

        seed = int(time()) if options.seed is None else options.seed
        print(f"{options.faults} failures, {options.hours} healthy hours, --seed {seed}", file=sys.stderr)
        made = made_cases(seed, options.faults, options.hours)
        scores = scores_of(made, answered_live if options.live else answered)
    print(as_json(scores) if options.json else as_text(scores))
    return 1 if goals_missed(scores[OURS].figures()) else 0


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.accuracy", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="with a truth.json, in it or below")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--live", action="store_true", help="read the simulated folders while they are written")
    parser.add_argument("--seed", type=int, help="of the simulated folders; default: a fresh one")
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--hours", type=int, default=120, help="healthy cluster-hours")
    return parser.parse_args()


def folders_with_truth(paths: Iterable[Path]) -> Iterator[Path]:
    """The folders at and below these that have a truth."""
    for path in paths:
        found = sorted(file.parent for file in path.rglob(TRUTH_FILE))
        if not found:
            sys.exit(f"{path}: no {TRUTH_FILE} here or in a folder below")
        yield from found


def scores_of(cases: Iterable[C], answer: Callable[[C], tuple[str, Truth, Ways]]) -> dict[str, Scores]:
    """Every way's scores over all cases, ours first."""
    scores: dict[str, Scores] = {}
    with ProcessPoolExecutor(PROCESSES) as pool:
        for done, (place, truth, ways) in enumerate(pool.map(answer, cases), start=1):
            for way, found in ways.items():
                scores.setdefault(way, Scores()).add(place, truth, found)
            if done % 25 == 0:
                print(f"{done} folders done", file=sys.stderr, flush=True)
    return scores


def answered(case: Path | Made) -> tuple[str, Truth, Ways]:
    """A folder's name and truth, and the incidents of each way. A simulated folder is deleted afterwards."""
    if isinstance(case, Path):
        return str(case), truth_in(case), ways_of(case)
    with tempfile.TemporaryDirectory(prefix="epicenter-accuracy-") as made:
        folder = Path(made)
        case.write(folder)
        return case.name, truth_in(folder), ways_of(folder)


def answered_live(case: Made) -> tuple[str, Truth, Ways]:
    """The same for a simulated folder that is read while it is written."""
    with tempfile.TemporaryDirectory(prefix="epicenter-accuracy-") as made:
        folder = Path(made)
        case.write_truth(folder)
        truth = truth_in(folder)
        pipeline = Pipeline(rule_set(topology_in(folder)), "default", LATENESS_NS)
        arrival = LiveArrival(pipeline, folder, round(seconds(truth.start)) * NS_PER_S)
        case.write_paced(folder, arrival.wait)
        return case.name, truth, {OURS: [found_of(msgspec.to_builtins(incident)) for incident in arrival.finish()]}


def truth_in(folder: Path) -> Truth:
    """The truth of a folder."""
    file = folder / TRUTH_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Truth)
    except msgspec.DecodeError as error:
        sys.exit(f"{file}: no truth of a simulated cluster: {error}")


def ways_of(folder: Path) -> Ways:
    """The incidents of `epicenter replay` on a folder, and those of the baselines."""
    rules = rule_set(topology_in(folder))
    pipeline = RecordingPipeline(rules, "default", LATENESS_NS)
    pipeline.matches = []
    incidents = replay(pipeline, Sources([str(folder)], host="", follow=False))
    lines = error_lines(rules, pipeline.matches)
    ours = [found_of(msgspec.to_builtins(incident)) for incident in incidents]
    return {OURS: ours, **{name: way(lines) for name, way in BASELINES.items()}}


def topology_in(folder: Path) -> Path | None:
    """The topology of a folder, if it has one."""
    file = folder / TOPOLOGY_FILE
    return file if file.exists() else None


@lru_cache(maxsize=2)
def rule_set(topology: Path | None = None) -> RuleSet:
    """The bundled rules, with the topology of a folder that has one."""
    return load(topology=topology)


if __name__ == "__main__":
    sys.exit(main())
