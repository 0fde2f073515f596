"""A job whose processes exit without a failure is complete, also where no line says so."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.times import NS_PER_S
from tests.support.heartbeats import of_all, steps
from tests.support.logs import a_scanner, at, batch, the_rules, vector

NOT_DESTROYED = (
    "[rank0]:[W302 09:09:50.100200300 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed"
    " before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group"
)


@pytest.mark.parametrize("line", [NOT_DESTROYED, "wandb: Run summary:", "train.py: exiting with code 0"])
def test_a_job_whose_processes_exit_has_not_hung(line: str) -> None:
    scanned = a_scanner().scan(batch([vector("n1", 590, line, job="A")]))
    engine = Engine(the_rules())
    engine.add(scanned.matches, [*steps(117), *scanned.heartbeats])
    assert engine.advance(at(585) + 3600 * NS_PER_S) == []
    assert [verdict.verdict for verdict in engine.verdicts()] == ["finished"]


@pytest.mark.parametrize(
    "line", ["wandb: Run summary:", "training finished at step 118, exiting with code 0", "Training done in 0:09:50"]
)
def test_a_job_whose_first_rank_alone_reports_the_end_has_not_hung(line: str) -> None:
    scanned = a_scanner().scan(batch([vector("n0", 590, line, job="A")]))
    engine = Engine(the_rules())
    engine.add(scanned.matches, [*of_all(117), *scanned.heartbeats])
    assert engine.advance(at(585) + 3600 * NS_PER_S) == []
    assert engine.verdicts()[-1].verdict == "finished"


def test_a_job_hangs_that_trained_on_after_the_summary_of_a_run() -> None:
    scanned = a_scanner().scan(batch([vector("n0", 500, "wandb: Run summary:", job="A")]))
    engine = Engine(the_rules())
    engine.add(scanned.matches, [*of_all(117), *scanned.heartbeats])
    assert engine.advance(at(585) + 3600 * NS_PER_S) != []
