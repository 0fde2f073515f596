"""`make chaos`: rounds of attacks; a broken one prints its seed, the attacks in their order, and the difference."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path

import click

from bench.chaos.arena import arena, feed_of


@click.command()
@click.option("--rounds", default=12, envvar="ROUNDS", show_default=True, help="How many; 100 is the full form.")
@click.option("--seed", default=1, envvar="SEED", show_default=True, help="Seed of the first round.")
@click.option("--attack", "kinds", multiple=True, help="Only these attacks, instead of those that the seed draws.")
@click.option(
    "--jobs", default=2, envvar="JOBS", show_default=True, help="Parallel rounds, each with separate servers."
)
def main(rounds: int, seed: int, kinds: tuple[str, ...], jobs: int) -> None:
    """Exit code 1 when an invariant was broken."""
    feeds = [list(seeds) for _, seeds in groupby(range(seed, seed + rounds), feed_of)]
    with tempfile.TemporaryDirectory(prefix="epicenter-chaos-") as folder, ProcessPoolExecutor(jobs) as pool:
        lanes = [pool.submit(_broken, Path(folder) / str(lane), feeds[lane::jobs], kinds) for lane in range(jobs)]
        broken = sorted(number for lane in lanes for number in lane.result())
    print(f"{rounds - len(broken)} of {rounds} rounds gave the same as the calm run; broken seeds: {broken or 'none'}")
    sys.exit(1 if broken else 0)


def _broken(folder: Path, feeds: Sequence[Sequence[int]], kinds: tuple[str, ...]) -> list[int]:
    """The seeds that broke something."""
    if not feeds:
        return []
    with arena(folder) as own:
        return [number for seeds in feeds for number in seeds if own.round(number, kinds or None)]


if __name__ == "__main__":
    main()
