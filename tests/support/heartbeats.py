"""The heartbeats of job A, and what the engine says of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Alive, Heartbeat, PhaseBegan, Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import START_NS, at

PACE_S: Final = 5.0


def earlier_attempt(pace_s: float = PACE_S) -> list[Step]:
    """Steps for more than an hour, and the line with which another attempt starts."""
    count = int(max(600, 4000 / pace_s))
    return [*steps(90_000 + count, 90_000, -300 - count * pace_s, pace_s), phase("startup", -299)]


def steps(
    upto: int, first: int = 0, start_s: float = 0, pace_s: float = PACE_S, node: str = "n1", rank: int | None = None
) -> list[Step]:
    """Steps `first` to `upto`, the last one included."""
    numbers = range(first, upto + 1)
    return [Step(at(start_s + pace_s * (n - first)), "default", "A", node, n, rank) for n in numbers]


def of_all(upto: int, nodes: int = 4, gpus: int = 1, first: int = 0, start_s: float = 0) -> list[Step]:
    """The steps of all ranks."""
    ranks = [(f"n{rank // gpus}", rank) for rank in range(nodes * gpus)]
    return [heartbeat for node, rank in ranks for heartbeat in steps(upto, first, start_s, node=node, rank=rank)]


def alive_every(
    source: str, node: str, first_s: float, last_s: float, every_s: float = 10, job: str = "A"
) -> list[Alive]:
    """One of a node's streams with a line now and then."""
    count = int((last_s - first_s) // every_s) + 1
    seconds = [first_s + every_s * number for number in range(count)]
    return [Alive(at(second), "default", "" if source == "kernel" else job, node, source=source) for second in seconds]


def phase(name: str, second: float) -> PhaseBegan:
    return PhaseBegan(at(second), "default", "A", "n1", name)


def verdicts(engine: Engine) -> list[tuple[str, str, int | None, float]]:
    """The verdicts as (verdict, node, rank, second)."""
    return [
        (verdict.verdict, verdict.node, verdict.rank, (verdict.time_ns - START_NS) / NS_PER_S)
        for verdict in engine.verdicts()
    ]


def run(engine: Engine, heartbeats: Iterable[Heartbeat], until_s: float) -> list[Incident]:
    engine.add([], heartbeats)
    newest = {incident.incident_id: incident for incident in engine.advance(at(until_s))}
    return list(newest.values())
