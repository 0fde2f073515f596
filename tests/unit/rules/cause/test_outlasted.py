"""What lasts while a job trains on may end it later, but not through a node that the others do not wait for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from epicenter.rules.cause.ranking import rank
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.cause.suspects import Absent, Suspect, Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Position, RankPlacement
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.training_span import TrainingSpan
from tests.support.logs import at, the_rules
from tests.support.signals import a_signal, a_step, a_timeout, alive, an_xid


def absent(*nodes: str) -> Suspects:
    """The last ranks of job A, one on each node, never reported the timeout."""
    return Suspects(tuple(Suspect("A", 3 + n, Absent(3, 4), node) for n, node in enumerate(nodes)))


@pytest.mark.parametrize(
    ("suspects", "node", "expected"),
    [
        pytest.param(absent("n4"), "n2", True, id="another-node"),
        pytest.param(absent("n4"), "n4", False, id="their-node"),
        pytest.param(absent("n4", "n4"), "n2", True, id="two-of-one-node"),
        pytest.param(absent("n4", "n5"), "n2", False, id="two-nodes"),
        pytest.param(absent(""), "n2", False, id="unknown-place"),
        pytest.param(absent("n4"), "", False, id="signal-of-no-node"),
    ],
)
def test_a_signal_of_another_node_than_that_of_all_suspects_is_exonerated(
    suspects: Suspects, node: str, expected: bool
) -> None:
    assert suspects.exonerate(a_signal("xid-64", 0, node)) is expected


@pytest.mark.parametrize(
    ("suspects", "survival", "expected"),
    [
        pytest.param(absent("n4"), ReasonKind.OUTLASTED, False, id="others-wait-for-another-node"),
        pytest.param(absent("n2"), ReasonKind.OUTLASTED, True, id="others-wait-for-its-node"),
        pytest.param(absent(""), ReasonKind.OUTLASTED, True, id="others-wait-for-an-unknown-node"),
        pytest.param(None, ReasonKind.OUTLASTED, True, id="no-suspect"),
        pytest.param(absent("n4"), None, True, id="the-job-did-not-train-on"),
    ],
)
def test_what_outlasted_training_explains_a_timeout_unless_others_wait_for_another_node(
    suspects: Suspects | None, survival: ReasonKind | None, expected: bool
) -> None:
    decoy = a_signal("xid-64", 0, "n2", source="kernel", role="root")
    timeout = a_signal("nccl-timeout", 700, "n1", "A", onset=100)

    def survival_of(signal: Signal) -> ReasonKind | None:
        return survival if signal is decoy else None

    rules = the_rules()
    ranked = rank(
        [decoy, timeout], rules.edges_between, lambda _: {"A"}, rules.cause_model, suspects, survival=survival_of
    )
    assert [candidate.is_explained for candidate in ranked if candidate.signal is timeout] == [expected]


@pytest.mark.parametrize(("decoy", "root"), [("n2", ("hang", "n4")), ("n4", ("xid-64", "n4"))])
def test_a_gpu_error_that_a_job_outlasted_is_the_cause_only_on_the_node_that_never_reported(
    decoy: str, root: tuple[str, str]
) -> None:
    nodes, engine = ("n1", "n2", "n3", "n4"), Engine(the_rules())
    placed = [RankPlacement(at(0), "default", "A", node, rank, world_size=4) for rank, node in enumerate(nodes)]
    training = [a_step(number, 5 * number) for number in range(80)]
    logged = [alive(second, "A", node) for second in range(0, 400, 20) for node in nodes]
    timeouts = [a_timeout(1000, node, "A", rank) for rank, node in enumerate(nodes[:3])]
    engine.add([an_xid(64, 60, decoy), *timeouts], [*logged, *training], placed)
    (incident,) = {incident.incident_id: incident for incident in engine.advance(at(1010))}.values()
    assert (incident.root_cause.failure_class, incident.root_cause.node) == root


@pytest.mark.parametrize(("opened", "expected"), [(900, ReasonKind.OUTLASTED), (500, None)], ids=["older", "its-own"])
def test_what_ended_an_attempt_before_is_outlasted_by_the_next_one(opened: int, expected: ReasonKind | None) -> None:
    state = IncidentState("00000000000000a1", "default", opened_ns=at(opened))
    broken = replace(a_signal("xid-48", 500, "n1", severity="critical"), position=Position("n1.log", 1))
    state.add(broken, {"A"})
    state.trained["A"] = TrainingSpan(since_ns=at(600), until_ns=at(900), earlier_ns=at(490))
    assert state.survival(broken) is expected
