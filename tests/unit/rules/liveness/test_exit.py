"""A job whose processes exit without a failure is complete, also where no line says so."""

from __future__ import annotations

import orjson
import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Advanced
from epicenter.rules.model.times import NS_PER_S
from tests.support.heartbeats import alive_every, of_all, steps
from tests.support.logs import a_scanner, at, batch, iso, the_rules, vector

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


def stopped(
    second: float, pod: str, reason: str = "Killing", message: str = "Stopping container pytorch", node: str = "n1"
) -> bytes:
    """The kubelet's Event as Vector ships it."""
    about = {"kind": "Pod", "namespace": "ml", "name": pod}
    time = f"{iso(second)[:19]}Z"
    fields = {"reason": reason, "message": message, "involvedObject": about}
    more = {"metadata": {"name": pod}, "source": {"component": "kubelet", "host": node}, "lastTimestamp": time}
    return orjson.dumps(fields | more | {"type": "Normal"})


@pytest.mark.parametrize(("pod", "expected"), [("A-worker-0", "finished"), ("B-worker-0", "hung")])
def test_a_job_whose_pod_kubernetes_stops_has_not_hung(pod: str, expected: str) -> None:
    scanned = a_scanner().scan(batch([stopped(590, pod)]))
    engine = Engine(the_rules())
    engine.add([*scanned.matches, *scanned.observed], steps(117))
    engine.advance(at(585) + 3600 * NS_PER_S)
    assert engine.verdicts()[-1].verdict == expected


def test_pods_that_kubernetes_stops_without_a_line_of_theirs_are_no_job() -> None:
    low = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 8388195Ki."
    events = [
        stopped(5, "etl-nightly-57404", "Evicted", low, "n1"),
        stopped(6, "etl-nightly-57404", node="n1"),
        stopped(65, "etl-nightly-cc822", "Evicted", low, "n2"),
        stopped(66, "etl-nightly-cc822", node="n2"),
    ]
    scanned = a_scanner().scan(batch(events))
    engine = Engine(the_rules())
    engine.add([*scanned.matches, *scanned.observed], [*steps(17), *alive_every("worker", "n3", 0, 85, job="B")])
    assert {incident.severity for incident in engine.flush()} <= {"warning"}


def test_a_job_whose_pods_kubernetes_stops_has_not_hung_if_its_steps_name_no_node() -> None:
    scanned = a_scanner().scan(batch([stopped(590, "A-worker-0")]))
    engine = Engine(the_rules())
    engine.add([*scanned.matches, *scanned.observed], [*alive_every("worker", "n1", 0, 585), *steps(117, node="")])
    engine.advance(at(585) + 3600 * NS_PER_S)
    assert engine.verdicts()[-1].verdict == "finished"


@pytest.mark.parametrize(("writes_until_s", "expected"), [(3000, []), (500, ["hung"])], ids=["serves", "is-silent"])
def test_progress_without_step_numbers_that_stops_is_no_hang_while_other_lines_come(
    writes_until_s: int, expected: list[str]
) -> None:
    engine = Engine(the_rules())
    served = [Advanced(at(10 * number), "default", "A", "n1") for number in range(50)]
    engine.add([], [*served, *alive_every("worker", "n1", 0, writes_until_s)])
    engine.advance(at(3000))
    assert [verdict.verdict for verdict in engine.verdicts()] == expected
