"""Rounds on one broker and one store: the calm run of a feed, and the differences after attacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.chaos.attacks import Attacks
from bench.chaos.feed import Feed
from bench.chaos.judge import Outcome, accounting_faults, differences
from bench.chaos.pipeline import BrokenError, Pipeline
from deploy.dev.broker import OwnBroker, own_broker
from deploy.dev.clickhouse import DevClickHouse, dev_clickhouse
from epicenter.rules.errors import PipelineError
from tests.support.small_disk import SmallDisk, small_disk

ROUNDS_A_FEED: Final = 10
WORKERS: Final = 2
STORE_DISK_BYTES: Final = 512 << 20


class Arena:
    """A broker and a store for many rounds, each of which has its own topics and tables."""

    def __init__(self, broker: OwnBroker, store: DevClickHouse, disk: SmallDisk, folder: Path):
        self._broker, self._store, self._disk, self._folder = broker, store, disk, folder
        self._calm: dict[int, Outcome] = {}

    def calm(self, seed: int) -> Outcome:
        """The outcome of the undisturbed pipeline for the feed of a round."""
        feed_seed = feed_of(seed)
        if feed_seed not in self._calm:
            outcome, problems = self._run(Attacks(0, Feed(feed_seed), kinds=("undisturbed",)))
            if problems:
                raise BrokenError(f"the calm run of feed {feed_seed}: {problems}")
            self._calm = {feed_seed: outcome}
        return self._calm[feed_seed]

    def round(self, seed: int, kinds: tuple[str, ...] | None = None) -> list[str]:
        """The problems after the attacks of a seed."""
        calm = self.calm(seed)
        attacks = Attacks(seed, Feed(feed_of(seed)), kinds)
        print(f"seed {seed}: {attacks.summary()}", flush=True)
        begun_s = time.monotonic()
        try:
            outcome, problems = self._run(attacks)
        except (BrokenError, AssertionError, PipelineError) as error:
            outcome, problems = None, [str(error)]
        else:
            problems += differences(calm, outcome)
        result = "BROKEN" if problems else "same"
        print(f"seed {seed}: {result} after {time.monotonic() - begun_s:.0f} s: {outcome}", *problems, sep="\n  ")
        return problems

    def _run(self, attacks: Attacks) -> tuple[Outcome, list[str]]:
        pipeline = Pipeline(self._broker, self._store, self._disk, self._folder)
        try:
            pipeline.start(WORKERS)

            async def drive() -> None:
                await pipeline.feed(attacks.groups, lambda at: asyncio.to_thread(attacks.run, pipeline, at))
                await pipeline.settle()

            asyncio.run(drive())
            return Outcome.of(pipeline), accounting_faults(pipeline)
        finally:
            pipeline.stop()
            self._disk.free()
            self._broker.start()
            self._store.start()


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """Separate servers in this folder, which is made; the store has a separate disk where one can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        own_broker(folder / "kafka") as broker,
        small_disk(folder / "store", STORE_DISK_BYTES) as disk,
        dev_clickhouse(disk.folder) as store,
    ):
        yield Arena(broker, store, disk, folder)


def feed_of(seed: int) -> int:
    """The seed of the records of a round."""
    return seed // ROUNDS_A_FEED
