"""Steps may come in bundles, made in any number of parts of the cluster's heartbeats: the engine does the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.ingest.simulate import Scenario, simulate
from epicenter.ingest.simulate.model import Disturbance
from epicenter.rules.engine import Engine, EngineState
from epicenter.rules.event_time.waiting_list import Waiting
from epicenter.rules.model.heartbeats import Alive, Heartbeat, LastStep, Step
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.step_bundle import bundled
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import a_scanner, at, batch, the_rules

RANKS: Final = 4
STEP_S: Final = 4.0
FAULTS: Final = ("hang", "node-dies", "rank-dies", "straggler", "gpu-off-bus", "shipper-silent", "job-finished")
DISTURBANCES: Final = ((), ("restart",), ("skew",), ("mute",))
PARTS: Final = (1, 2, 8)
Arrived = tuple[int, Match | Heartbeat | RankPlacement]


@dataclass(frozen=True)
class Ranks:
    """Every rank of a node reports each step: one is later each time, one stops, some report again."""

    slow_s: float
    dead_from: int
    again: int
    jitter_ns: int

    def steps(self, step: Step) -> list[Step]:
        """The reports of all ranks of the node, where the log has that of one."""
        place = sum(step.node.encode())
        reports = []
        for local in range(RANKS):
            rank = 100 * place + local
            is_first = place % 4 == 0 and local == 1
            if is_first and step.step >= self.dead_from:
                continue
            late_ns = round(self.slow_s * NS_PER_S * (step.step % 7)) if is_first else 0
            jitter_ns = self.jitter_ns * stable_number(step.step, rank)
            reports.append(
                msgspec.structs.replace(step, rank=rank, event_time_ns=step.event_time_ns + jitter_ns + late_ns)
            )
        return reports + reports[:1] * (step.step % self.again == 0)


def stable_number(step: int, rank: int) -> int:
    """One of 16, so that some ranks report at the same time."""
    return int(stable_id(step, rank)[:4], 16) % 16


@cache
def found_in(fault: str, disturbances: tuple[Disturbance, ...], seed: int) -> tuple[tuple[Any, ...], ...]:
    """Matches, heartbeats and rank placements of a simulated cluster."""
    lines = defaultdict(list)
    cluster = Scenario(
        nodes=6,
        jobs=2,
        minutes=15,
        seed=seed,
        faults=(fault,),
        step_time_s=STEP_S,
        is_tidy=True,
        disturbances=disturbances,
    )
    for line in simulate(cluster):
        lines[line.path].append(line.text.encode())
    scans = [a_scanner().scan(batch(values, source=path)) for path, values in sorted(lines.items())]
    return (
        tuple(match for scan in scans for match in (*scan.matches, *scan.observed)),
        tuple(heartbeat for scan in scans for heartbeat in scan.heartbeats),
        tuple(rank_placement for scan in scans for rank_placement in scan.rank_placements),
    )


def arrivals(found: tuple[tuple[Any, ...], ...], ranks: Ranks) -> list[Arrived]:
    """Everything with its event time."""
    matches, heartbeats, rank_placements = found
    reports = [
        report
        for heartbeat in heartbeats
        for report in (ranks.steps(heartbeat) if type(heartbeat) is Step else [heartbeat])
    ]
    arrived = [(match.event.event_time_ns, match) for match in matches]
    arrived += [(report.event_time_ns, report) for report in reports]
    arrived += [(rank_placement.time_ns, rank_placement) for rank_placement in rank_placements]
    return sorted(arrived, key=lambda timed: timed[0])


class OneByOne(Engine):
    """Processes every heartbeat in its turn."""

    def _is_quiet(self, due: Waiting) -> bool:
        return False


class Core:
    """An engine of this kind that is fed between stops; what it gives is kept."""

    def __init__(self, kind: type[Engine]) -> None:
        self._kind = kind
        self.engine = kind(the_rules(), lists_joined=True)
        self.given: list[Any] = []

    def advance(self, watermark_ns: int | None) -> None:
        """Process until then, or to the end."""
        engine = self.engine
        self.given.append(engine.flush() if watermark_ns is None else engine.advance(watermark_ns))
        self.given += [engine.joined(), engine.windowed(), engine.gaps(), engine.job_states(), engine.verdicts()]
        self.given.append(self._state())

    def restart(self) -> None:
        """Another worker takes over."""
        self.engine = self._kind(the_rules(), self.engine.snapshot(), lists_joined=True)

    def _state(self) -> EngineState:
        """The state, without what waits and how inputs are numbered."""
        state = msgspec.msgpack.decode(self.engine.snapshot(), type=EngineState)
        return msgspec.structs.replace(state, waiting=[], added=0)


def part_of(heartbeat: Heartbeat, parts: int) -> int:
    """The part of a cluster's heartbeats that a job's belong to."""
    return int(stable_id(heartbeat.cluster, heartbeat.job), 16) % parts


def add_in_parts(core: Core, arrived: list[Arrived], parts: int, chance: Random) -> None:
    """Each part makes bundles of each of its batches, cut anywhere; all meet in any order."""
    batches: list[list[Heartbeat]] = []
    for part in range(parts):
        of_part = [
            arrival
            for _, arrival in arrived
            if not isinstance(arrival, Match | RankPlacement) and part_of(arrival, parts) == part
        ]
        chance.shuffle(of_part)
        length = chance.choice((3, 40, 1000))
        batches += [of_part[first : first + length] for first in range(0, len(of_part), length)]
    chance.shuffle(batches)
    for heartbeats in batches:
        step_bundles, others = bundled(heartbeats)
        core.engine.add((), others, step_bundles=step_bundles)


def add_singly(core: Core, arrived: list[Arrived]) -> None:
    """In order, one by one, as before there were bundles."""
    core.engine.add((), [item for _, item in arrived if not isinstance(item, Match | RankPlacement)])


def add_others(core: Core, arrived: list[Arrived]) -> None:
    """Matches and rank placements."""
    matches = [arrival for _, arrival in arrived if isinstance(arrival, Match)]
    core.engine.add(matches, (), [arrival for _, arrival in arrived if isinstance(arrival, RankPlacement)])


some_ranks = st.builds(
    Ranks,
    slow_s=st.sampled_from([0.0, 0.02, 1.0]),
    dead_from=st.sampled_from([60, 100, 10_000]),
    again=st.integers(5, 40),
    jitter_ns=st.sampled_from([4_000_000, 150_000_000]),
)


@settings(max_examples=40)
@given(
    st.sampled_from(FAULTS),
    st.sampled_from(DISTURBANCES),
    st.integers(1, 4),
    some_ranks,
    st.sampled_from(PARTS),
    st.lists(st.integers(1, 2000), max_size=60),
    st.integers(0, 1000),
)
def test_bundles_of_any_number_of_parts_give_the_same_as_single_steps(
    fault: str,
    disturbances: tuple[Disturbance, ...],
    seed: int,
    ranks: Ranks,
    parts: int,
    stops_s: list[int],
    order: int,
) -> None:
    remaining = arrivals(found_in(fault, disturbances, seed), ranks)
    begin_ns, chance = remaining[0][0], Random(order)
    single, in_parts = Core(OneByOne), Core(Engine)
    for stop_ns in [*(begin_ns + stop_s * NS_PER_S for stop_s in sorted(stops_s)), None]:
        arrived = [
            timed for timed in remaining if stop_ns is None or timed[0] <= stop_ns + chance.choice((0, NS_PER_S))
        ]
        remaining = remaining[len(arrived) :] if stop_ns is not None else []
        add_singly(single, arrived)
        add_in_parts(in_parts, arrived, parts, chance)
        for core in (single, in_parts):
            add_others(core, arrived)
            core.advance(stop_ns)
        if chance.random() < 0.2:
            in_parts.restart()
            single.restart()
    assert in_parts.given == single.given


def test_a_check_between_the_steps_of_a_bundle_sees_those_before_it_only() -> None:
    """The job is checked every minute from its first step on, at second 57 and so on: the last rank is behind then."""
    single, in_parts = Core(OneByOne), Core(Engine)
    steps = [Step(at(second), "default", "A", "n1", second + 3, 0) for second in (-3, *range(0, 600, 10))]
    steps += [Step(at(s + 4 * rank), "default", "A", "n2", s + 3, rank) for s in range(0, 600, 10) for rank in (1, 2)]
    last = [LastStep(at(second), "default", "A", "n1", 10_000) for second in range(59, 600, 60)]
    step_bundles, others = bundled(steps)
    in_parts.engine.add((), [*others, *last], step_bundles=step_bundles)
    single.engine.add((), [*steps, *last])
    for core in (single, in_parts):
        for second in (59, 180, 300):
            core.advance(at(second))
        core.advance(None)
    assert in_parts.given == single.given


def test_a_step_that_arrives_again_alone_leaves_the_later_ones_of_its_bundle_for_later() -> None:
    single, in_parts = Core(OneByOne), Core(Engine)
    steps = [Step(at(second), "default", "A", "n1", second, 0) for second in range(0, 300, 10)]
    steps += [Step(at(s + rank), "default", "A", "n2", s, rank) for s in range(0, 300, 10) for rank in (1, 2)]
    again = [step for step in steps if step.rank == 1]
    step_bundles, others = bundled(steps)
    in_parts.engine.add((), others, step_bundles=step_bundles)
    single.engine.add((), steps)
    for core in (single, in_parts):
        core.engine.add((), again)
        core.advance(at(281))
    assert in_parts.given == single.given


def test_hours_of_steps_on_a_node_that_another_job_left_give_the_same() -> None:
    single, in_parts = Core(OneByOne), Core(Engine)
    for hour in range(3):
        times_ns = range(at(3600 * hour), at(3600 * (hour + 1)), 10 * NS_PER_S)
        steps = [Step(time_ns, "default", "A", "n1", time_ns // NS_PER_S, 0) for time_ns in times_ns]
        later = [
            Step(time_ns + rank, "default", "A", "n2", time_ns // NS_PER_S, rank)
            for time_ns in times_ns
            for rank in range(1, RANKS)
        ]
        alive = [Alive(time_ns - 1, "default", "A", "n2") for time_ns in times_ns]
        left = [Alive(at(600), "default", "B", "n2")] * (hour == 0)
        step_bundles, others = bundled([*steps, *later, *alive, *left])
        in_parts.engine.add((), others, step_bundles=step_bundles)
        single.engine.add((), [*steps, *later, *alive, *left])
        for core in (single, in_parts):
            core.advance(at(3600 * (hour + 1)) - 5 * NS_PER_S)
    assert in_parts.given == single.given
