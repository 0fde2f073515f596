"""One name for each node."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.placement.host_names import MAX_KEPT_NAMES, HostNames
from tests.support.logs import the_rules
from tests.support.signals import a_timeout, alive, an_xid


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("gpu-a-12", "gpu-a-12.cluster"), "gpu-a-12", id="with-its-domain"),
        pytest.param(("gpu-a-12.cluster", "gpu-a-12"), "gpu-a-12.cluster", id="without-its-domain"),
        pytest.param(("n1.east", "n1.west"), "n1.west", id="another-domain"),
        pytest.param(("10.0.0.1", "10.0.0.2"), "10.0.0.2", id="addresses"),
        pytest.param(("gpu-a-1", "gpu-a-12"), "gpu-a-12", id="another-node"),
        pytest.param(("ip-10-0-3-17", "10.0.3.17"), "ip-10-0-3-17", id="address-of-a-known-aws-host"),
        pytest.param(("ip-10-0-3-17", "10.0.3.18"), "10.0.3.18", id="address-of-no-known-aws-host"),
    ],
)
def test_a_node_has_its_first_name(names: tuple[str, str], expected: str) -> None:
    known = HostNames()
    assert [known.name_of("c", name) for name in names][-1] == expected


def test_namesakes_of_another_cluster_are_other_nodes() -> None:
    known = HostNames()
    assert [known.name_of(cluster, name) for cluster, name in (("c", "n1.x"), ("d", "n1"))] == ["n1.x", "n1"]


def test_known_names_are_bounded() -> None:
    known = HostNames()
    for number in range(MAX_KEPT_NAMES + 5):
        known.name_of("c", f"n{number}")
    assert len(known.names) == MAX_KEPT_NAMES


def test_lines_with_and_without_the_domain_are_of_one_node_in_an_incident() -> None:
    engine = Engine(the_rules())
    engine.add(
        [an_xid(79, 10, "gpu-a-12"), a_timeout(610, "gpu-a-12.cluster", "A", 0)], [alive(5, "A", "gpu-a-12.cluster")]
    )
    (found,) = engine.flush()
    assert found.nodes == ("gpu-a-12.cluster",)
