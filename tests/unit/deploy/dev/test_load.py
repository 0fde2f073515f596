"""The endless load: each round can be played, and none disturbs another."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from deploy.dev.load import FIRST_FAULT, MAX_ROUNDS, ROUNDS_APART, a_round, rounds
from epicenter.ingest.simulate import truth_of


def test_each_round_has_a_fault_on_other_nodes_and_in_other_jobs() -> None:
    truths = [truth_of(a_round(number, 4, 1.0)) for number in range(ROUNDS_APART)]
    assert truths[0].faults[0].fault == FIRST_FAULT
    assert all([fault.verdict for fault in truth.faults][1:] == ["finished"] for truth in truths)
    nodes = [node for truth in truths for job in truth.jobs for node in job.nodes]
    jobs = [job.job for truth in truths for job in truth.jobs]
    assert len(nodes) == len(set(nodes)) == 4 * ROUNDS_APART
    assert len(jobs) == len(set(jobs)) == 2 * ROUNDS_APART


def test_old_rounds_are_deleted(tmp_path: Path) -> None:
    some = rounds(tmp_path, 4, 1.0, Event())
    folders = [next(some)[0] for _ in range(MAX_ROUNDS + 1)]
    assert sorted(tmp_path.iterdir()) == folders[1:]
