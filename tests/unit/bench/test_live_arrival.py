"""A folder that is read while it is written gives the incidents of a folder that is read when it is complete."""

from __future__ import annotations

import pytest

from bench.accuracy import OURS, answered, answered_live
from bench.accuracy_make import SimulatedCase
from epicenter.ingest.simulate import Scenario


@pytest.mark.parametrize("fault", ["gpu-off-bus", "host-oom"])
def test_lines_that_arrive_live_give_the_causes_of_a_replay(fault: str) -> None:
    scenario = Scenario(nodes=3, gpus_per_node=2, faults=(fault,), frameworks=("megatron",), after_fault_s=60)
    case = SimulatedCase(fault, scenario)

    recorded, live = (answer(case)[2][OURS] for answer in (answered, answered_live))

    assert [incident.candidates[0] for incident in live] == [incident.candidates[0] for incident in recorded]
    assert len(live) == 1
