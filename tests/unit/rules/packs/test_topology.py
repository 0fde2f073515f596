"""The topology, from a file: what nodes share; contradictions are reported with their lines, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from epicenter.rules.packs.topology import Topology, read_topology

A_TOPOLOGY = """\
nodes:
  node[0001-0032]: {rack: r1, switches: [leaf1], storage: [scratch]}
  node[0033-0064]: {rack: r2, switches: [leaf2], storage: [scratch]}
  node[0001-0016]: {nvlink: domain1, rails: [rail0, rail1]}
switches:
  leaf1: {parent: spine1}
  leaf2: {parent: spine1}
  spine1: {}
"""


def read(tmp_path: Path, text: str, name: str = "topology.yaml") -> tuple[Topology, list[str]]:
    problems: list[str] = []
    (tmp_path / name).write_text(text)
    return read_topology(tmp_path / name, problems), [
        problem.removeprefix(f"{tmp_path / name}:") for problem in problems
    ]


def test_nodes_share_racks_switches_and_rails(tmp_path: Path) -> None:
    topology, problems = read(tmp_path, A_TOPOLOGY)
    assert problems == []
    assert topology.of("node0007", "switch") == {"leaf1", "spine1"}
    assert topology.shares("node0001", "node0032", "rack")
    assert not topology.shares("node0032", "node0033", "rack")
    assert topology.shares("node0001", "node0064", "storage")
    assert not topology.shares("elsewhere", "elsewhere", "rack")
    assert topology.common(["node0001", "node0040"], "switch") == ("spine1",)
    assert topology.common(["node0001", "elsewhere"], "switch") == ()
    assert topology.of("node0016", "rail") == {"rail0", "rail1"}


def test_json_is_read_as_well(tmp_path: Path) -> None:
    topology, problems = read(tmp_path, json.dumps({"nodes": {"a[1-2]": {"rack": "r"}}}, indent=2), "topology.json")
    assert problems == []
    assert topology.shares("a1", "a2", "rack")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "node[0033-0064]: {rack: r2",
            "node[0032-0064]: {rack: r2",
            "3: node0032: rack r2, but line 2 has r1: write each node's rack once",
            id="two-racks",
        ),
        pytest.param("node[0033-0064]", "node[0001-0032]", "3: node[0001-0032] is written twice: keep one", id="twice"),
        pytest.param(
            "rack: r1", "rak: r1", "2: nodes.node[0001-0032].rak: no such key: write one of rack, switches", id="key"
        ),
        pytest.param("spine1: {}", "spine1: {parent: spine1}", "8: spine1 is its own ancestor: ", id="own-parent"),
        pytest.param("spine1: {}", "spine1: {parent: leaf1}", "6: leaf1 is its own ancestor: ", id="ring"),
        pytest.param("spine1: {}", "core: {}", "6: leaf1: parent spine1 is not among `switches`", id="no-parent"),
        pytest.param("[leaf2]", "[leaf3]", "3: switch leaf3 is not among `switches`", id="no-switch"),
        pytest.param("node[0033-0064]", "node[64-33]", "3: nodes: 'node[64-33]': '64-33' is not a number", id="range"),
        pytest.param("node[0033-0064]", "node[1-9999999]", "3: nodes: 'node[1-9999999]': more than 65536", id="many"),
        pytest.param("nodes:", "nodes: [", "2: not YAML: ", id="no-yaml"),
    ],
)
def test_a_contradiction_is_reported_with_its_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    _, problems = read(tmp_path, A_TOPOLOGY.replace(old, new, 1))
    assert problems
    assert problems[0].startswith(expected)


def test_all_problems_are_reported_at_once_with_those_of_the_packs(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(A_TOPOLOGY.replace("[leaf2]", "[leaf3]").replace("spine1: {}", "spine1: {parent: spine1}"))
    with pytest.raises(ConfigError) as refused:
        load([tmp_path / "none"], file)
    places = [problem.split(": ")[0].removeprefix(f"{tmp_path}/") for problem in refused.value.problems]
    assert places[0] == "none"
    assert {"topology.yaml:3", "topology.yaml:8"} < set(places)


def test_an_unknown_key_does_not_hide_a_contradiction(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "racks: {}\nnodes:\n  n[1-4]: {rack: r1, rak: r1}\n  n[4-6]: {rack: r2}\n")
    assert [problem.partition(": ")[0] for problem in problems] == ["1", "3", "4"]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    problems: list[str] = []
    read_topology(tmp_path / "none.yaml", problems)
    assert problems[0].startswith(f"{tmp_path}/none.yaml: can't be read: ")
