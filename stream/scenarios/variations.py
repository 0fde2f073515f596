"""Checks scenarios: whether the core finds what is expected, and whether another way of arriving changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

from epicenter.rules.engine import Engine
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scenarios.delivery import Chapter, Variation, as_written, cut_up, lagging, reordered, repeated
from epicenter.stream.scenarios.judge import first_change, shortfalls
from epicenter.stream.scenarios.lines import written_out
from epicenter.stream.scenarios.play import CLUSTER, Documents, MakeCore, play
from epicenter.stream.scenarios.reading import Scenario
from epicenter.stream.scenarios.spec import ScenarioSpec

TRIES: Final = 2
"""How often to try a random variation."""

VARIATIONS: Final[dict[str, Variation]] = {
    "files that lag, the last one most": lagging,
    "files that lag, the first one most": partial(lagging, first_most=True),
    **{f"other order within the lateness (try {number + 1})": reordered for number in range(TRIES)},
    **{f"lines that come twice (try {number + 1})": repeated for number in range(TRIES)},
    **{f"other cuts (try {number + 1})": cut_up for number in range(TRIES)},
}
"""Ways of arriving that must change nothing."""

MAX_RESTARTS: Final = 100
"""One run restarts at every point between two deliveries, or at this many if there are more."""

LONE_RESTARTS: Final = 4
"""How many of these points are also tried one at a time."""


@dataclass
class Outcome:
    """The result of a scenario; it passed if `failures` is empty."""

    failures: list[str] = field(default_factory=list)
    expectations: int = 0
    runs: int = 0
    points: int = 0
    restarts: int = 0

    def add(self, other: Outcome) -> None:
        """Add the result of another scenario."""
        self.failures += other.failures
        self.expectations += other.expectations
        self.runs += other.runs
        self.points += other.points
        self.restarts += other.restarts


def check_all(scenarios: Iterable[Scenario], rules: RuleSet) -> Outcome:
    """The result of all scenarios, with the real core."""
    whole = Outcome()
    for scenario in scenarios:
        whole.add(_checker(scenario, rules).outcome())
    return whole


def _checker(scenario: Scenario, rules: RuleSet) -> Checker:
    own = rules if scenario.topology is None else replace(rules, topology=scenario.topology)
    searcher = HyperscanScanner(own.expressions)
    return Checker(
        scenario,
        make_core=lambda snapshot: Engine(own, snapshot),
        make_scanner=lambda: BatchScanner(own, CLUSTER, searcher),
    )


class Checker:
    """Plays one scenario as written and in every variation."""

    def __init__(self, scenario: Scenario, make_core: MakeCore, make_scanner: Callable[[], BatchScanner]):
        self._scenario = scenario
        self._make_core = make_core
        self._make_scanner = make_scanner
        self._chapters = chapters_of(scenario.spec)

    def outcome(self) -> Outcome:
        """Differences from the expected incidents, and variations that change the incidents."""
        found = self._play(self._chapters)
        steps = self._scenario.spec.all_steps
        outcome = Outcome(list(self._unmet(found)), sum(step.expect is not None for step in steps), 1)
        for name, chapters, restarts in self._variations():
            outcome.runs += 1
            if change := first_change(found, self._play(chapters, restarts)):
                outcome.failures.append(f"{self._scenario.expect_places[-1]}: {name} changed the incidents: {change}")
        outcome.points = self._points
        outcome.restarts = len(self._some_points(MAX_RESTARTS))
        return outcome

    def documents(self) -> list[Documents]:
        """The incidents at the end of each step of the scenario as written."""
        return self._play(self._chapters)

    @property
    def _points(self) -> int:
        return sum(len(chapter.deliveries) for chapter in self._chapters)

    def _play(self, chapters: Sequence[Chapter], restarts: Sequence[int] = ()) -> list[Documents]:
        return play(
            chapters, self._make_core, self._make_scanner, self._scenario.spec.allowed_lateness, frozenset(restarts)
        )

    def _unmet(self, found: Sequence[Documents]) -> Iterator[str]:
        steps = zip(self._scenario.spec.all_steps, self._scenario.expect_places, found, strict=True)
        for step, place, documents in steps:
            if step.expect is not None and (lines := shortfalls(step.expect, documents)):
                yield "\n".join([f"{place}: {self._scenario.spec.title}", *(f"  {line}" for line in lines)])

    def _variations(self) -> Iterator[tuple[str, Sequence[Chapter], Sequence[int]]]:
        lateness_ns = self._scenario.spec.allowed_lateness
        for name, vary in VARIATIONS.items():
            chance = Random(f"{self._scenario.name}/{name}")
            varied = [
                Chapter(tuple(vary(chapter.deliveries, lateness_ns, chance)), chapter.end_ns)
                for chapter in self._chapters
            ]
            yield name, varied, ()
        restarts = self._some_points(MAX_RESTARTS)
        yield f"restarts at {len(restarts)} of {self._points} points", self._chapters, restarts
        for point in self._some_points(LONE_RESTARTS):
            yield f"a restart before {self._delivery_at(point)}", self._chapters, [point]

    def _some_points(self, most: int) -> list[int]:
        chance = Random(f"{self._scenario.name}/restarts")
        return sorted(chance.sample(range(self._points), min(most, self._points)))

    def _delivery_at(self, point: int) -> str:
        line = [delivery for chapter in self._chapters for delivery in chapter.deliveries][point].lines[0]
        return f"{line.file}:{line.number}"


def chapters_of(spec: ScenarioSpec) -> list[Chapter]:
    """The scenario as written: a step ends after its lines, its `advance` and the allowed lateness."""
    now_ns, chapters = spec.starts, []
    for step, lines in zip(spec.all_steps, written_out(spec), strict=True):
        deliveries = as_written(lines, now_ns)
        now_ns = max([now_ns, *(line.time_ns for line in lines)]) + step.advance
        chapters.append(Chapter(deliveries, now_ns + spec.allowed_lateness))
    return chapters
