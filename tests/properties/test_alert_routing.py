"""What holds for routes, inhibitions and the guard with any file and any cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product
from random import Random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.alerts.guard import HOUR_NS, Acted, Guard, followed_by, nodes_per_hour
from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.labels import Labels
from epicenter.rules.alerts.match import fits_word
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.spec import GuardSpec, InhibitSpec, RouteSpec, RoutingSpec
from epicenter.rules.alerts.validation.samples import samples
from epicenter.rules.alerts.validation.unreachable import unreachable_routes
from epicenter.rules.alerts.validation.world import World
from epicenter.rules.documents.document import Path_
from epicenter.rules.model.notification import Action

NODES: Final = [("".join(chars),) for length in (1, 2) for chars in product("abc", repeat=length)]
JOBS: Final = [found for size in (1, 2, 3) for found in combinations("xyz", size)]
CLASSES: Final = {
    "xid-79": "nvidia",
    "xid-1": "nvidia",
    "gpu-thermal": "nvidia",
    "oom-gpu": "cuda",
    "hip-error": "cuda",
    "hang": "processes",
}
UNIVERSE: Final[Mapping[str, list[dict[str, tuple[str, ...]]]]] = {
    "node": [{}, *({"node": values} for values in NODES)],
    "job": [{}, *({"job": values} for values in JOBS)],
    "severity": [{"severity": (name,)} for name in ("info", "warning", "error", "critical")],
    "class": [
        *({"class": (name,), "family": (family,)} for name, family in CLASSES.items()),
        {"class": ("of-our-own",)},
    ],
    "team": [{}, {"team": ("ml",)}, {"team": ("ops",)}],
}
"""For each label, every value that the words below distinguish."""

WORDS: Final = {
    "node": ["a", "b", "a*", "*b", "*", "", "!a", "!a*", "!*b", "!"],
    "job": ["x", "y", "*", "", "!x", "!"],
    "severity": ["info", "error", "*r*", "!critical", "!*r*"],
    "class": ["xid-79", "xid-*", "oom-gpu", "!xid-*", "!oom-gpu"],
    "family": ["nvidia", "cuda", "", "!nvidia", "*"],
    "team": ["ml", "", "!ops", "*"],
}


@given(st.text("ab[?.", max_size=6), st.text("ab*[?.", max_size=6))
def test_a_word_fits_the_same_values_as_its_regular_expression(value: str, word: str) -> None:
    expression = "".join(".*" if char == "*" else re.escape(char) for char in word)
    assert fits_word(value, word) is (bool(re.fullmatch(expression, value)) if value else not word)


@given(st.lists(st.text("ab*", min_size=1, max_size=4), max_size=4))
def test_for_every_set_of_words_that_a_value_fits_there_is_a_sample(words: list[str]) -> None:
    def profiles(values: Any) -> set[frozenset[str]]:
        return {frozenset(word for word in words if fits_word(value, word)) for value in values}

    found = samples(words)
    assert found is not None
    all_short = ("".join(chars) for length in range(1, 7) for chars in product("abc", repeat=length))
    assert profiles(all_short) <= profiles(found)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[str], RoutingSpec]:
    subjects = draw(st.lists(st.sampled_from(sorted(UNIVERSE)), min_size=1, max_size=2, unique=True))
    labels = [name for name in WORDS if ("class" if name == "family" else name) in subjects]
    matches = st.dictionaries(st.sampled_from(labels), st.none(), max_size=2).flatmap(
        lambda names: st.fixed_dictionaries({name: some_words(name) for name in names})
    )
    leaves = st.builds(lambda match, continues: {"match": match, "continue": continues}, matches, st.booleans())
    branches = st.builds(lambda leaf, inner: {**leaf, "routes": inner}, leaves, st.lists(leaves, max_size=3))
    route = {"targets": ["chat"], "routes": draw(st.lists(branches, min_size=1, max_size=4))}
    sets_team = [{"match": {"job": name}, "set": {"team": team}} for name, team in (("x", "ml"), ("y", "ops"))]
    return subjects, RoutingSpec.model_validate({"route": route, "labels": sets_team})


def some_words(name: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(WORDS[name]), min_size=1, max_size=2, unique=True)


def paths_of(route: RouteSpec, path: Path_ = ("route",)) -> Iterator[Path_]:
    yield path
    for number, inner in enumerate(route.routes):
        yield from paths_of(inner, (*path, "routes", number))


def entered(spec: RoutingSpec, subjects: list[str]) -> set[Path_]:
    """The routes that some incident of the universe reaches."""
    line_by_path = {path: number for number, path in enumerate(paths_of(spec.route), 1)}
    routing = Routing(spec, lines=line_by_path)
    found: set[str] = set()
    for parts in product(*(UNIVERSE[name] for name in subjects)):
        labels: dict[str, tuple[str, ...]] = {}
        for part in parts:
            labels |= part
        found.update(reason.split(":")[1] for reason in routing.route(labels).reasons if ": matches" in reason)
    return {path for path, line in line_by_path.items() if str(line) in found}


@given(trees())
def test_routes_reported_as_unreachable_are_those_that_no_incident_reaches(tree: tuple[list[str], RoutingSpec]) -> None:
    subjects, spec = tree
    unreachable = [found.path for found in unreachable_routes(spec, World(spec))]
    below = {path for path in paths_of(spec.route) if any(path[: len(root)] == root for root in unreachable)}
    assert set(paths_of(spec.route)) - below == entered(spec, subjects)


def labels_of(number: int, failure_class: str, jobs: frozenset[str]) -> tuple[str, Labels]:
    name = f"i{number}"
    return name, {"incident": (name,), "class": (failure_class,), **({"job": tuple(sorted(jobs))} if jobs else {})}


INHIBITS = st.lists(
    st.builds(
        lambda source, target, equal: InhibitSpec.model_validate(
            {"source": {"class": source}, "target": {"class": target}, "equal": equal}
        ),
        st.sampled_from(["a", "b", "c", "*"]),
        st.sampled_from(["a", "b", "c", "*"]),
        st.sampled_from([[], ["job"]]),
    ),
    max_size=3,
)
CLUSTERS = st.lists(
    st.tuples(st.sampled_from("abc"), st.frozensets(st.sampled_from("xyz"))), min_size=1, max_size=6
).map(lambda found: [labels_of(number, *drawn) for number, drawn in enumerate(found)])


@given(INHIBITS, CLUSTERS, st.randoms())
def test_inhibition_never_mutes_every_incident(
    rules: list[InhibitSpec], incidents: list[tuple[str, Labels]], chance: Random
) -> None:
    found = [OpenIncidents(rules, incidents).inhibiting(labels) for _, labels in incidents]
    assert not all(found)
    assert all(source is None or source.incident_id != name for source, (name, _) in zip(found, incidents, strict=True))
    shuffled = incidents.copy()
    chance.shuffle(shuffled)
    assert [OpenIncidents(rules, shuffled).inhibiting(labels) for _, labels in incidents] == found


@given(INHIBITS, CLUSTERS)
def test_a_muted_incident_leads_to_one_that_is_not_muted(
    rules: list[InhibitSpec], incidents: list[tuple[str, Labels]]
) -> None:
    muted_by = {
        name: source.incident_id if (source := OpenIncidents(rules, incidents).inhibiting(labels)) else ""
        for name, labels in incidents
    }
    for name in muted_by:
        seen = [name]
        while muted_by[seen[-1]]:
            seen.append(muted_by[seen[-1]])
            assert len(seen) <= len(incidents)


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3 * HOUR_NS),
        st.sampled_from(["i1", "i2", "i3"]),
        st.frozensets(st.sampled_from([f"n{number}" for number in range(8)]), max_size=3),
        st.frozensets(st.sampled_from(["7", "8", "9"]), max_size=2),
    ),
    max_size=25,
)
LIMITS = st.builds(
    GuardSpec,
    nodes_per_hour=st.integers(0, 5),
    jobs_per_hour=st.integers(0, 4),
    fleet_share=st.sampled_from([0.01, 0.02, 0.5]),
    fleet_nodes=st.sampled_from([None, 10, 150]),
)


@given(REQUESTS, LIMITS, st.randoms())
def test_the_guard_never_allows_more_within_an_hour_than_its_limits(
    requests: list[Any], limits: GuardSpec, chance: Random
) -> None:
    guard = Guard(RoutingSpec(route=RouteSpec(), guard=limits, actions="allowed"))
    allowed: list[Acted] = []
    counted: list[Acted] = []
    for time_ns, incident_id, nodes, jobs in requests:
        action = Action("drain-node", nodes=tuple(sorted(nodes)), jobs=tuple(sorted(jobs)), is_allowed=True)
        judged = guard.judge(action, allowed, time_ns, incident_id)
        shuffled = allowed.copy()
        chance.shuffle(shuffled)
        assert guard.judge(action, shuffled, time_ns, incident_id) == judged
        assert guard.judge(action, counted, time_ns, incident_id) == judged
        if judged.is_allowed:
            allowed.append(acted := Acted.of(judged, incident_id, time_ns))
            counted = followed_by(counted, acted)
            assert guard.judge(action, allowed, time_ns, incident_id) == judged
    for begins in allowed:
        hour = [acted for acted in allowed if begins.time_ns <= acted.time_ns < begins.time_ns + HOUR_NS]
        assert len(set(chain.from_iterable(acted.nodes for acted in hour))) <= nodes_per_hour(limits)
        assert len({(acted.incident_id, job) for acted in hour for job in acted.jobs}) <= limits.jobs_per_hour
