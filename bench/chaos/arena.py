"""Rounds on one broker and one store: the calm run of a feed, and what attacks on it break."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from bench.chaos.attacks import Attacks
from bench.chaos.feed import Feed
from bench.chaos.judge import Outcome, differences, misbooked
from bench.chaos.pipeline import BrokenError, Pipeline
from rules.errors import PipelineError
from stream.dev_broker import OwnBroker
from stream.dev_clickhouse import DevClickHouse

ROUNDS_A_FEED: Final = 5
WORKERS: Final = 2


class Arena:
    """A broker and a store for many rounds, each of which has its own topics and tables."""

    def __init__(self, broker: OwnBroker, store: DevClickHouse, folder: Path):
        self._broker, self._store, self._folder = broker, store, folder
        self._calm: dict[int, Outcome] = {}

    def calm(self, seed: int) -> Outcome:
        """What the undisturbed pipeline makes of the feed of a round."""
        feed_seed = seed // ROUNDS_A_FEED
        if feed_seed not in self._calm:
            outcome, problems = self._run(Attacks(0, Feed(feed_seed), kinds=("undisturbed",)))
            if problems:
                raise BrokenError(f"the calm run of feed {feed_seed}: {problems}")
            self._calm[feed_seed] = outcome
        return self._calm[feed_seed]

    def round(self, seed: int, kinds: tuple[str, ...] | None = None) -> list[str]:
        """What the attacks of a seed broke."""
        attacks = Attacks(seed, Feed(seed // ROUNDS_A_FEED), kinds)
        calm = self.calm(seed)
        print(f"seed {seed}: {attacks.told()}", flush=True)
        try:
            outcome, problems = self._run(attacks)
        except (BrokenError, AssertionError, PipelineError) as error:
            return [str(error)]
        print(f"  {outcome}")
        return problems + differences(calm, outcome)

    def _run(self, attacks: Attacks) -> tuple[Outcome, list[str]]:
        pipeline = Pipeline(self._broker, self._store, self._folder)
        try:
            for _ in range(WORKERS):
                pipeline.start_worker()

            async def drive() -> None:
                await pipeline.feed(attacks.groups, lambda at: asyncio.to_thread(attacks.run, pipeline, at))
                await pipeline.settle()

            asyncio.run(drive())
            return Outcome.of(pipeline), misbooked(pipeline)
        finally:
            pipeline.stop()
            self._broker.start()
            self._store.start()
