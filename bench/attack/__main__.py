"""`make attack`: every attack of every story; a table of what held, and how to repeat what broke."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import click

from bench.attack import clocks, disks, floods, injection, kills, leaks, receivers, sources, tokens
from bench.attack.arena import MAX_ATTACK_S, MAX_ROUND_S, Arena, Attack, BrokeError, bounded

STORIES: Final[Mapping[str, Mapping[str, Attack]]] = {
    "receivers": receivers.ATTACKS,
    "sources": sources.ATTACKS,
    "kills": kills.ATTACKS,
    "clocks": clocks.ATTACKS,
    "disks": disks.ATTACKS,
    "tokens": tokens.ATTACKS,
    "floods": floods.ATTACKS,
    "leaks": leaks.ATTACKS,
    "injection": injection.ATTACKS,
}


class Result(NamedTuple):
    """How one attack ended; `broke` is empty when epicenter held."""

    story: str
    attack: str
    broke: str
    seconds: float


def attack(story: str, name: str, seed: int, folder: Path, rounds: int = 10) -> Result:
    """Run it in this empty folder."""
    begun_s, broke = time.monotonic(), ""
    arena = Arena(folder, Random(f"{seed} {story} {name}"), rounds)
    try:
        with bounded(MAX_ATTACK_S + MAX_ROUND_S * rounds):
            STORIES[story][name](arena)
    except BrokeError as error:
        broke = str(error)
    except Exception as error:
        broke = f"{type(error).__name__}: {error}"
    return Result(story, name, broke, time.monotonic() - begun_s)


@click.command()
@click.option("--seed", default=1, envvar="SEED", show_default=True, help="Seed of everything random.")
@click.option("--rounds", default=10, envvar="ROUNDS", show_default=True, help="Kills, and other repeats; 100: long.")
@click.option("--only", "stories", multiple=True, type=click.Choice(list(STORIES)), help="Only this story.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the files of what broke in this folder.")
@click.option("--attack", "names", multiple=True, help="Only this attack.")
def main(seed: int, rounds: int, stories: tuple[str, ...], names: tuple[str, ...], keep: Path | None) -> None:
    """Exit code 1 when anything broke."""
    results = list(_run(stories or tuple(STORIES), names, seed, rounds, keep))
    print(f"\n{'story':12} {'attacks':>7} {'held':>5} {'broke':>5}")
    for story in dict.fromkeys(result.story for result in results):
        broke = [result for result in results if result.story == story and result.broke]
        count = sum(result.story == story for result in results)
        print(f"{story:12} {count:7} {count - len(broke):5} {len(broke):5}")
        for result in broke:
            print(f"  repeat: python -m bench.attack --seed {seed} --rounds {rounds} --only {story}"
                  f" --attack '{result.attack}'")  # fmt: skip
    sys.exit(any(result.broke for result in results))


def _run(
    stories: tuple[str, ...], names: tuple[str, ...], seed: int, rounds: int, keep: Path | None
) -> Iterator[Result]:
    for story in stories:
        for name in STORIES[story]:
            if not names or name in names:
                with tempfile.TemporaryDirectory(prefix="epicenter-attack-", ignore_cleanup_errors=True) as folder:
                    result = attack(story, name, seed, Path(folder), rounds)
                    if keep and result.broke:
                        shutil.copytree(folder, keep / f"{story} {name}", symlinks=True, ignore_dangling_symlinks=True)
                print(
                    f"{story}: {name}: {'BROKE' if result.broke else 'held'} after {result.seconds:.0f} s", flush=True
                )
                if result.broke:
                    print(f"  {result.broke}", flush=True)
                yield result


if __name__ == "__main__":
    main()
