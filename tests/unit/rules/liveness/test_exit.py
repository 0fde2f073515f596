"""A job whose processes exit without a failure is complete, also where no line says so."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.times import NS_PER_S
from tests.support.heartbeats import steps
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
