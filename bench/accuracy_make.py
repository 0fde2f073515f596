"""Which folders `make accuracy` simulates: failures of every kind on 2 to 512 nodes, and healthy hours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from epicenter.ingest.simulate import KINDS, Scenario, mixed, write_all

MAX_NODES: Final = 512
MAX_HEALTHY_NODES: Final = 64
MAX_JOBS: Final = 4
TWO_FAULTS_SHARE: Final = 0.1


class SimulatedCase(msgspec.Struct, frozen=True):
    """A folder to simulate."""

    name: str
    scenario: Scenario

    def write(self, folder: Path) -> None:
        """Write its logs and its truth."""
        write_all(self.scenario, folder)


def made_cases(seed: int, faults: int, hours: int) -> Iterator[SimulatedCase]:
    """Folders with `faults` faults in all, then `hours` healthy hours, one a folder; the same for the same seed."""
    chance = Random(f"{seed}/accuracy")
    kinds = list(kinds_of(seed, faults))
    while kinds:
        nodes = nodes_up_to(MAX_NODES, chance)
        jobs = jobs_on(nodes, chance)
        count = 2 if jobs > 1 and len(kinds) > 1 and chance.random() < TWO_FAULTS_SHARE else 1
        chosen, kinds = tuple(kinds[:count]), kinds[count:]
        case_seed = chance.randrange(1 << 31)
        name = f"{'+'.join(chosen)} on {nodes} nodes, {jobs} jobs, seed {case_seed}"
        yield SimulatedCase(name, Scenario(nodes=nodes, jobs=jobs, seed=case_seed, faults=chosen))
    for _ in range(hours):
        nodes = nodes_up_to(MAX_HEALTHY_NODES, chance)
        jobs, case_seed = jobs_on(nodes, chance), chance.randrange(1 << 31)
        name = f"healthy, {nodes} nodes, {jobs} jobs, seed {case_seed}"
        yield SimulatedCase(name, Scenario(nodes=nodes, jobs=jobs, minutes=60.0, seed=case_seed))


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
