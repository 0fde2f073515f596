"""`make chaos`: rounds of attacks; a broken one prints its seed, the attacks in their order, and the difference."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from bench.chaos.arena import Arena
from stream.dev_broker import own_broker
from stream.dev_clickhouse import dev_clickhouse


@click.command()
@click.option("--rounds", default=12, envvar="ROUNDS", show_default=True, help="100 is the full form.")
@click.option("--seed", default=1, envvar="SEED", show_default=True, help="Of the first round.")
@click.option("--attack", "kinds", multiple=True, help="Only these, instead of what the seed draws.")
def main(rounds: int, seed: int, kinds: tuple[str, ...]) -> None:
    """Exit code 1 when an invariant was broken."""
    broken = 0
    with (
        tempfile.TemporaryDirectory(prefix="epicenter-chaos-") as folder,
        own_broker(Path(folder) / "kafka") as broker,
        dev_clickhouse(Path(folder) / "store") as store,
    ):
        arena = Arena(broker, store, Path(folder))
        for number in range(seed, seed + rounds):
            begun_s = time.monotonic()
            problems = arena.round(number, kinds or None)
            for problem in problems:
                print(f"  {problem}")
            print(f"  {'BROKEN' if problems else 'same'} after {time.monotonic() - begun_s:.0f} s", flush=True)
            broken += bool(problems)
    print(f"{rounds - broken} of {rounds} rounds gave what the calm run gives")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
