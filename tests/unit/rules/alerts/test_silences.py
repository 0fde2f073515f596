"""Which incidents a silence fits."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.alerts.silences import Silence, silenced_by
from tests.support.incidents import opened_and_resolved

OPENED = opened_and_resolved()[0]


def a_silence(name: str = "s1", ends_ns: int = 200, **matchers: str) -> Silence:
    return Silence(name, {key.rstrip("_"): value for key, value in matchers.items()}, 100, ends_ns, "ada", "why")


@pytest.mark.parametrize(
    ("matchers", "fits"),
    [
        ({"class_": "xid-79"}, True),
        ({"node": "n1"}, True),
        ({"class_": "xid-79", "node": "n1", "cluster": "default"}, True),
        ({"class_": "xid-79", "node": "n2"}, False),
        ({"class_": "xid"}, False),
        ({"job": "7801"}, False),
        ({"severity": "critical"}, True),
        ({"severity": "error"}, False),
        ({"class_": "xid-*", "family": "nvidia", "node": "!n2"}, True),
        ({"node": "!n1"}, False),
        ({"job": "*"}, False),
        ({}, False),
    ],
)
def test_a_silence_matches_when_all_its_matchers_fit(matchers: dict[str, str], fits: bool) -> None:
    assert a_silence(**matchers).fits(OPENED) is fits


@pytest.mark.parametrize(
    ("root_node", "nodes", "fits"),
    [
        ("n1", ["n1", "n2"], True),
        ("n2", ["n1", "n2"], False),
        ("", ["n1"], True),
        ("", ["n1", "n2"], False),
        ("", [], False),
    ],
)
def test_a_silence_on_a_node_matches_where_the_incident_began_or_all_it_reaches(
    root_node: str, nodes: list[str], fits: bool
) -> None:
    root = msgspec.structs.replace(OPENED.root_cause, node=root_node)
    incident = msgspec.structs.replace(OPENED, root_cause=root, nodes=tuple(nodes))
    assert a_silence(node="n1").fits(incident) is fits


@pytest.mark.parametrize(("now_ns", "holds"), [(99, False), (100, True), (199, True), (200, False)])
def test_a_silence_is_active_from_its_beginning_to_its_end(now_ns: int, holds: bool) -> None:
    assert (silenced_by([a_silence(node="n1")], OPENED, now_ns) is not None) is holds


def test_the_longest_of_several_silences_wins() -> None:
    found = silenced_by([a_silence("a", 200, node="n1"), a_silence("b", 300, node="n1")], OPENED, 150)
    assert found and found.silence_id == "b"
