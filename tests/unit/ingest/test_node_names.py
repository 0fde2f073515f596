"""Which names are those of nodes."""

from __future__ import annotations

import pytest

from epicenter.ingest.parse.node_names import is_node_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("node0007", True),
        ("gpu-a-12", True),
        ("gpu-a-12.cluster.example", True),
        ("ip-10-0-3-17.ec2.internal", True),
        ("h100-017", True),
        ("r12n04", True),
        ("R3-u17", True),
        ("r12-gpu04.rack.example", True),
        ("r12", False),
        ("r12x04", False),
        ("gpu3", False),
        ("worker-3", False),
        ("llama-7877", False),
        ("node", False),
        ("", False),
    ],
)
def test_a_node_is_recognized_by_its_name_with_or_without_a_domain(name: str, expected: bool) -> None:
    assert is_node_name(name) is expected
