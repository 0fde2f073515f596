"""Attacks on a pipeline while it is fed: drawn from the seed, timed by progress and never by the clock."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from bench.chaos.feed import Feed, Record, jumping, windows
from bench.chaos.pipeline import Pipeline
from deploy.dev.process import ChildServer
from tests.support.cluster import Worker
from tests.support.waiting import eventually

PARTITIONS_METRIC: Final = "epicenter_partitions"
FELT_WITHIN_S: Final = 60
FAILS_WITHIN_S: Final = 20
MAX_WORKERS: Final = 3
NO_BYTES: Final = (0, resource.RLIM_INFINITY)


class Step(NamedTuple):
    """Something to do after this group of records has been sent."""

    group: int
    what: str


class Attacks:
    """The groups of a round in their order, with what is sent twice, and the steps between them."""

    def __init__(self, seed: int, feed: Feed, kinds: tuple[str, ...] | None = None):
        self._draw = Random(f"attacks {seed}")
        self.steps: list[Step] = []
        self.kinds = kinds or tuple(self._draw.sample(sorted(KINDS.keys() - {"undisturbed"}), self._draw.randint(2, 4)))
        is_late = "delayed" in self.kinds
        self.groups = list(windows(feed.delayed(self._draw) if is_late else feed.records))
        for kind in self.kinds:
            KINDS[kind](self)
        self.steps.sort()

    def summary(self) -> str:
        """The attacks in their order."""
        return ", ".join(
            [*(kind for kind in self.kinds if kind in FEED_KINDS), *(f"{what}@{at}" for at, what in self.steps)]
        )

    def run(self, pipeline: Pipeline, group: int) -> None:
        """All steps after this group."""
        for step in self.steps:
            if step.group == group:
                pipeline.revive()
                ACTIONS[step.what](pipeline, self._draw)

    def add(self, *whats: str) -> None:
        """These steps one after the other, somewhere in the feed."""
        places = sorted(self._draw.sample(range(1, len(self.groups)), len(whats)))
        self.steps += [Step(place, what) for place, what in zip(places, whats, strict=True)]

    def pile_up(self) -> None:
        """No worker runs from a place in the first half of the feed until everything has been sent."""
        last = len(self.groups) - 1
        self.steps += [Step(self._draw.randint(1, last // 2), "stop all workers"), Step(last, "start two workers")]

    def jump(self) -> None:
        """The clocks that stamp records jump."""
        self.groups = jumping(self.groups, self._draw)

    def double(self) -> None:
        """Shippers send some earlier records again."""
        for _ in range(3):
            at = self._draw.randrange(1, len(self.groups))
            again = self.groups[self._draw.randint(max(0, at - 3), at - 1)]
            self.groups[at] = [*self.groups[at], *_of_same_stream(again, self._draw)]


def _of_same_stream(group: list[Record], draw: Random) -> list[Record]:
    stream = draw.choice(group).stream
    return [record for record in group if record.stream == stream]


def _change_no_steps(_: Attacks) -> None:
    """No steps: the feed has the changes, if any."""


KINDS: Final[dict[str, Callable[[Attacks], None]]] = {
    "undisturbed": _change_no_steps,
    "delayed": _change_no_steps,
    "backlog": Attacks.pile_up,
    "clock jumps": Attacks.jump,
    "doubled": Attacks.double,
    "worker killed": lambda attacks: attacks.add("kill a worker", "kill a worker"),
    "worker killed and alone": lambda attacks: attacks.add("kill all workers"),
    "worker frozen": lambda attacks: attacks.add("freeze a worker"),
    "broker killed": lambda attacks: attacks.add("kill the broker"),
    "store away": lambda attacks: attacks.add("kill the store", "start the store"),
    "webhook away": lambda attacks: attacks.add("break the webhook", "mend the webhook"),
    "worker's disk full": lambda attacks: attacks.add("fill the workers' disk", "kill a worker"),
    "broker's disk full": lambda attacks: attacks.add("fill the broker's disk"),
    "store's disk full": lambda attacks: attacks.add("fill the store's disk", "free the store's disk"),
    "rebalances": lambda attacks: attacks.add(*["join", "leave"] * 3),
    "rebalances that overlap": lambda attacks: attacks.add(*["join and leave at once"] * 6),
}
FEED_KINDS: Final = ("delayed", "doubled", "clock jumps")


def kill_worker(pipeline: Pipeline, draw: Random) -> None:
    """Mid-stream, as soon as it has scanned some more records; another one replaces it."""
    victim = _mid_stream(pipeline, draw)
    pipeline.start_worker()
    pipeline.remove(victim, kill=True)


def kill_all(pipeline: Pipeline, draw: Random) -> None:
    """Only a new worker is left."""
    _mid_stream(pipeline, draw)
    for worker in list(pipeline.workers):
        pipeline.remove(worker, kill=True)
    pipeline.start_worker()


def stop_all(pipeline: Pipeline, draw: Random) -> None:
    """With SIGTERM; later records wait in Kafka."""
    for worker in list(pipeline.workers):
        pipeline.remove(worker, kill=False)


def start_two(pipeline: Pipeline, _: Random) -> None:
    """They share the backlog, unless another attack has started workers before."""
    while len(pipeline.workers) < 2:
        pipeline.start_worker()


def freeze(pipeline: Pipeline, draw: Random) -> None:
    """Until others have its partitions; then it resumes without knowing."""
    victim = _mid_stream(pipeline, draw)
    others = [worker for worker in pipeline.workers if worker is not victim] or [pipeline.start_worker()]
    with victim.frozen():
        _eventually(
            lambda: sum(worker.metric(PARTITIONS_METRIC) for worker in others) >= 4, "other workers have its partitions"
        )


def kill_broker(pipeline: Pipeline, draw: Random) -> None:
    """With everything in flight."""
    _mid_stream(pipeline, draw)
    pipeline.broker.kill()
    pipeline.broker.start()


def fill_broker(pipeline: Pipeline, draw: Random) -> None:
    """None of its files can grow, so it ends by itself; it restarts with more room."""
    _mid_stream(pipeline, draw)
    if isinstance(pipeline.broker, ChildServer):
        resource.prlimit(pipeline.broker.pid, resource.RLIMIT_FSIZE, NO_BYTES)
        _eventually(lambda: pipeline.broker.has_ended, "the broker ends, as its disk is full")
    pipeline.broker.start()


def free_store(pipeline: Pipeline, _: Random) -> None:
    """After a write has failed, where its disk could be filled."""
    if pipeline.disk.is_own:
        _wait_for_failed_write(pipeline)
    pipeline.disk.free()


def start_store(pipeline: Pipeline, _: Random) -> None:
    """After a worker has failed to write to it."""
    _wait_for_failed_write(pipeline)
    pipeline.store.start()


def break_webhook(pipeline: Pipeline, _: Random) -> None:
    """It answers 503."""
    pipeline.receiver.status = 503


def mend_webhook(pipeline: Pipeline, _: Random) -> None:
    """Whether or not it received requests meanwhile."""
    pipeline.receiver.status = 200


def fill_workers(pipeline: Pipeline, _: Random) -> None:
    """No running worker can write a file any more, its log included; one that starts without room ends."""
    for worker in (worker for worker in pipeline.workers if worker.get("/metrics")):
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, NO_BYTES)


def join(pipeline: Pipeline, draw: Random) -> None:
    """One more worker; wait until it has partitions."""
    newest = pipeline.start_worker()
    _eventually(lambda: newest.metric(PARTITIONS_METRIC), "partitions of the new worker")


def leave(pipeline: Pipeline, draw: Random) -> None:
    """A worker is stopped or killed, unless it is the last one."""
    if len(pipeline.workers) > 1:
        pipeline.remove(draw.choice(pipeline.workers), kill=draw.random() < 0.3)


def join_and_leave(pipeline: Pipeline, draw: Random) -> None:
    """Without waiting for assignments or starts; one working worker is left."""
    _mid_stream(pipeline, draw)
    pipeline.start_worker()
    if len(pipeline.workers) > MAX_WORKERS:
        pipeline.remove(draw.choice(pipeline.workers[1:]), kill=draw.random() < 0.3)


ACTIONS: Final[dict[str, Callable[[Pipeline, Random], None]]] = {
    "kill a worker": kill_worker,
    "kill all workers": kill_all,
    "stop all workers": stop_all,
    "start two workers": start_two,
    "freeze a worker": freeze,
    "kill the broker": kill_broker,
    "kill the store": lambda pipeline, _: pipeline.store.kill(),
    "start the store": start_store,
    "break the webhook": break_webhook,
    "mend the webhook": mend_webhook,
    "fill the workers' disk": fill_workers,
    "fill the broker's disk": fill_broker,
    "fill the store's disk": lambda pipeline, _: pipeline.disk.fill(),
    "free the store's disk": free_store,
    "join": join,
    "leave": leave,
    "join and leave at once": join_and_leave,
}


def _mid_stream(pipeline: Pipeline, draw: Random) -> Worker:
    """A worker that has just scanned more records; any when none has more to scan, a new one when none runs."""
    if not pipeline.workers:
        pipeline.start_worker()
    before = {worker.log: worker.metric("epicenter_records_total") for worker in pipeline.workers}
    wanted, end_s = draw.randint(1, 60), time.monotonic() + 2.0
    while time.monotonic() < end_s:
        for worker in pipeline.workers:
            if worker.metric("epicenter_records_total") - before[worker.log] >= wanted:
                return worker
    return draw.choice(pipeline.workers)


def _wait_for_failed_write(pipeline: Pipeline) -> None:
    """Until a write to the store has failed; where nothing is left to write, none fails (seed 562)."""
    with suppress(AssertionError):
        eventually(lambda: _failures(pipeline), FAILS_WITHIN_S, "a write that fails")


def _failures(pipeline: Pipeline) -> float:
    return sum(worker.metric("epicenter_store_failures_total") for worker in pipeline.workers)


def _eventually(holds: Callable[[], object], what: str) -> None:
    eventually(holds, FELT_WITHIN_S, what)
