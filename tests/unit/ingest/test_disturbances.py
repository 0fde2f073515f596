"""Disturbances add what they name to a run, the same bytes for the same scenario, and leave the rest as it was."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from epicenter.ingest.simulate import Disturbance, Scenario, SimulatedLine, simulate, truth_of, write_all
from epicenter.ingest.simulate.disturbances.losses import KERNEL_FILES
from epicenter.ingest.simulate.plan import plan_of
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S, iso_ns
from epicenter.rules.packs.topology import read_topology

NAMES: tuple[Disturbance, ...] = get_args(Disturbance)
CLEAN = Scenario(nodes=6, gpus_per_node=4, seed=3, faults=("gpu-off-bus",), frameworks=("megatron",))


def lines_of(*names: Disturbance, scenario: Scenario = CLEAN) -> list[SimulatedLine]:
    return list(simulate(replace(scenario, disturbances=names)))


def added_by(*names: Disturbance) -> list[SimulatedLine]:
    before = Counter((line.path, line.text) for line in lines_of())
    return [line for line in lines_of(*names) if not before[line.path, line.text]]


@pytest.mark.parametrize("name", NAMES)
def test_each_disturbance_changes_the_run_and_is_repeatable(name: Disturbance) -> None:
    jobs = 2 if name == "at-once" else 1
    faults = ("gpu-off-bus", "host-oom")[:jobs]
    scenario = Scenario(nodes=8, jobs=jobs, gpus_per_node=4, faults=faults, frameworks=("megatron",))
    once, again = (lines_of(name, scenario=scenario) for _ in range(2))

    assert once == again
    assert name == "topology" or once != lines_of(scenario=scenario)


@pytest.mark.parametrize("name", ["decoy", "foreign", "healed"])
def test_bystanders_are_on_another_node_before_the_fault(name: Disturbance) -> None:
    (fault,) = truth_of(CLEAN).faults
    extra = [line for line in added_by(name) if line.written_ns < iso_ns(fault.onset)]

    assert extra
    assert fault.node not in {line.path.split("/")[0] for line in extra}


def test_skew_moves_three_clocks_in_ten_by_seconds() -> None:
    nodes = plan_of(replace(CLEAN, nodes=200, disturbances=("skew",))).nodes
    wrong = [node for node in nodes if abs(node.skew_ns) > 1.9 * NS_PER_S]

    assert 40 < len(wrong) < 90


def test_half_of_the_processes_lines_are_lost_and_no_others() -> None:
    before, after = (Counter(line.path.split("/")[1] for line in lines) for lines in (lines_of(), lines_of("half")))

    assert 0.4 < after["worker.jsonl"] / before["worker.jsonl"] < 0.6
    assert {name: after[name] for name in KERNEL_FILES} == {name: before[name] for name in KERNEL_FILES}


def test_without_kernel_logs_the_class_of_a_hardware_fault_may_stay_unknown() -> None:
    (fault,) = truth_of(replace(CLEAN, disturbances=("no-kernel-log",))).faults

    assert not [line for line in lines_of("no-kernel-log") if line.path.endswith(KERNEL_FILES)]
    assert not fault.names_class


def test_a_mute_node_is_not_the_faulty_one_and_its_job_trains_on() -> None:
    (fault,) = truth_of(CLEAN).faults
    onset_ns = iso_ns(fault.onset)
    heard = {line.path.split("/")[0] for line in lines_of("mute") if line.written_ns > onset_ns}
    (mute,) = set(fault.nodes) - heard
    last_ns = max(line.written_ns for line in lines_of("mute") if line.path.startswith(mute))
    steps = [line for line in lines_of("mute") if " iteration " in line.text and last_ns < line.written_ns < onset_ns]

    assert mute != fault.node
    assert len(steps) > 3


def test_a_restarted_job_trains_on_from_its_last_checkpoint() -> None:
    steps = [int(found[1]) for line in lines_of("restart") if (found := re.search(r"\] iteration +(\d+)/", line.text))]
    back = next(i for i, (a, b) in enumerate(pairwise(steps)) if b < a)

    assert len(steps) - back > 10


def test_the_topology_covers_every_node_and_can_be_read(tmp_path: Path) -> None:
    write_all(replace(CLEAN, disturbances=("topology",)), tmp_path)
    problems: list[str] = []
    topology = read_topology(tmp_path / "topology.yaml", problems)

    assert problems == []
    assert sorted(topology.by_node) == [f"node{number:04d}" for number in range(1, 7)]


def test_faults_at_once_begin_within_a_minute() -> None:
    scenario = Scenario(nodes=8, jobs=2, faults=("gpu-off-bus", "host-oom"), disturbances=("at-once",))
    first, second = (iso_ns(fault.onset) for fault in truth_of(scenario).faults)

    assert 0 < second - first < 60 * NS_PER_S


def test_in_house_steps_are_printed_in_no_frameworks_format() -> None:
    texts = [json.loads(line.text)["message"] for line in lines_of("in-house") if '"message"' in line.text]

    assert not [text for text in texts if "elapsed time per iteration" in text]
    assert sum(bool(re.search(r"loss", text, re.IGNORECASE)) for text in texts) > 20


def test_unknown_disturbances_are_refused() -> None:
    with pytest.raises(ConfigError, match="disturbances: rain: unknown; write one of at-once, decoy"):
        simulate(Scenario(disturbances=("rain",)))  # type: ignore[arg-type]
