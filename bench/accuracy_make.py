"""Which folders `make accuracy` simulates: failures of every kind on 2 to 512 nodes, and healthy hours. Most are messy.

`python -m bench.accuracy_make FOLDER --seed N` writes them, so that other programs and other commits can be scored.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from epicenter.ingest.simulate import KINDS, Disturbance, Framework, Scenario, mixed, write_all, write_paced
from epicenter.ingest.simulate.write import write_truth

MAX_NODES: Final = 512
MAX_HEALTHY_NODES: Final = 64
MAX_JOBS: Final = 4
TWO_FAULTS_SHARE: Final = 0.1
MAX_DISTURBANCES: Final = 4
IN_HOUSE: Final[tuple[Framework, ...]] = ("megatron", "hf")
IN_HOUSE_SHARE: Final = 0.15
MUTE_NODES: Final = 4


class SimulatedCase(msgspec.Struct, frozen=True):
    """A folder to simulate."""

    name: str
    scenario: Scenario

    def write(self, folder: Path) -> None:
        """Write its logs and its truth."""
        write_all(self.scenario, folder)

    def write_truth(self, folder: Path) -> None:
        """Write the truth alone."""
        write_truth(self.scenario, folder)

    def write_paced(self, folder: Path, wait: Callable[[float], None]) -> None:
        """Write the same as time passes."""
        write_paced(self.scenario, folder, 1.0, wait)


def made_cases(seed: int, faults: int, hours: int) -> Iterator[SimulatedCase]:
    """Folders with `faults` faults in all, then `hours` healthy hours, one a folder; the same for the same seed."""
    chance = Random(f"{seed}/accuracy")
    kinds = list(kinds_of(seed, faults))
    while kinds:
        nodes = nodes_up_to(MAX_NODES, chance)
        jobs = jobs_on(nodes, chance)
        count = 2 if jobs > 1 and len(kinds) > 1 and chance.random() < TWO_FAULTS_SHARE else 1
        chosen, kinds = tuple(kinds[:count]), kinds[count:]
        yield case_of(Scenario(nodes=nodes, jobs=jobs, seed=chance.randrange(1 << 31), faults=chosen), chance)
    for _ in range(hours):
        nodes = nodes_up_to(MAX_HEALTHY_NODES, chance)
        jobs, case_seed = jobs_on(nodes, chance), chance.randrange(1 << 31)
        yield case_of(Scenario(nodes=nodes, jobs=jobs, minutes=60.0, seed=case_seed), chance)


def case_of(scenario: Scenario, chance: Random) -> SimulatedCase:
    """The scenario with up to four disturbances that fit it, now and then with in-house formats too."""
    fitting = [name for name in disturbances_of(scenario) if name != "in-house"]
    chosen = sorted(chance.sample(fitting, min(len(fitting), chance.randint(0, MAX_DISTURBANCES))))
    if "in-house" in disturbances_of(scenario) and chance.random() < IN_HOUSE_SHARE:
        chosen, scenario = [*chosen, "in-house"], replace(scenario, frameworks=IN_HOUSE)
    names = "+".join(scenario.faults) or "healthy"
    place = f"{scenario.nodes} nodes, {scenario.jobs} jobs, seed {scenario.seed}"
    name = f"{names} with {'+'.join(chosen) or 'nothing'} on {place}"
    return SimulatedCase(name, replace(scenario, disturbances=tuple(chosen)))


def disturbances_of(scenario: Scenario) -> Iterator[Disturbance]:
    """Those that can happen to the scenario."""
    kinds = [KINDS[name] for name in scenario.faults]
    yield from ("decoy", "foreign", "half", "healed", "skew", "topology")
    if all(set(IN_HOUSE) & set(kind.frameworks) for kind in kinds):
        yield "in-house"
    if scenario.nodes >= MUTE_NODES * scenario.jobs:
        yield "mute"
    if kinds:
        yield "no-kernel-log"
    if len(kinds) > 1 and not any(kind.begins == "before its job" for kind in kinds):
        yield "at-once"
    if len(kinds) == scenario.jobs == 1 and kinds[0].incident and kinds[0].reach in ("rank", "job"):
        yield "restart"


def kinds_of(seed: int, count: int) -> Iterator[str]:
    """Every second kind is drawn by its frequency; those between are all kinds in turn, rare ones too."""
    in_turn = sorted(KINDS)
    for number, drawn in enumerate(mixed(seed, count)):
        yield drawn if number % 2 else in_turn[number // 2 % len(in_turn)]


def nodes_up_to(most: int, chance: Random) -> int:
    """From 2 to `most`, each doubling as likely as the next."""
    return min(most, int(2 * (most / 2) ** chance.random() + 0.5))


def jobs_on(nodes: int, chance: Random) -> int:
    """A random number of jobs, with at least two nodes each."""
    return chance.randint(1, min(MAX_JOBS, nodes // 2))


def main() -> None:
    """Write the folders."""
    parser = argparse.ArgumentParser(prog="bench.accuracy_make", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--hours", type=int, default=120, help="healthy cluster-hours")
    options = parser.parse_args()
    for number, case in enumerate(made_cases(options.seed, options.faults, options.hours), start=1):
        case.write(options.folder / f"{number:04d}")
        print(f"{number:04d}: {case.name}")


if __name__ == "__main__":
    main()
