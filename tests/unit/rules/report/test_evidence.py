"""What an incident lacks, its candidates, and how the report uses both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.cost import JobLoss
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.topology import Topology
from epicenter.rules.report.evidence import MAX_CANDIDATES
from epicenter.rules.report.report import report
from tests.support.logs import at, the_rules
from tests.support.signals import a_signal

XID = {"source": "kernel", "role": "root", "gpu": "0000:9a:00"}
ALL_KERNELS = IncidentContext(kernel_nodes={"n0", "n1", "n2"})


def an_incident(signals: Iterable[Signal], context: IncidentContext = NO_CONTEXT) -> Incident:
    state = IncidentState("00000000000000a1", "default")
    for signal in signals:
        state.add(signal, {"A"})
    return report(state, the_rules(), context)


def timeouts(*ranks: int) -> list[Signal]:
    """Four ranks a node wait in the same collective."""
    fields = {"seq": "90", "op": "ALLREDUCE", "numel": "8"}
    return [
        a_signal("nccl-timeout", 600 + rank / 100, f"n{rank // 4}", "A", onset=0, rank=rank, fields=fields)
        for rank in ranks
    ]


def test_time_outs_alone_name_the_rank_that_is_not_among_them() -> None:
    incident = an_incident(timeouts(0, 1, 2, 3, 4, 6, 7), IncidentContext(world_size_by_job={"A": 8}))
    root = incident.root_cause
    assert (root.failure_class, root.node, root.rank) == ("nccl-timeout", "n1", 5)
    assert root.reasons[0] == "rank 5 never reported the timeout, although 7 of 8 ranks did"
    assert incident.title.endswith("; rank 5 (n1) never reported")
    assert len(incident.candidates) == 1
    assert "only waiting was observed: no line shows why rank 5 did not arrive" in incident.missing


@pytest.mark.parametrize(
    ("listed", "is_shown"),
    [
        ((), False),
        (("n0", "n1"), False),
        (("n0", "n7"), True),
    ],
)
def test_a_topology_that_does_not_list_a_node_x(listed: tuple[str, ...], is_shown: bool) -> None:
    topology = Topology({node: {"rack": frozenset({"r1"})} for node in listed})
    state = IncidentState("00000000000000a1", "default")
    for signal in timeouts(0, 1, 2, 3, 4, 6, 7):
        state.add(signal, {"A"})
    incident = report(state, dataclasses.replace(the_rules(), topology=topology))
    sentence = "the topology file does not list n1: what is shared with other nodes is not known"
    assert (sentence in incident.missing) is is_shown


def test_an_error_on_the_suspect_s_node_gains_confidence() -> None:
    context = IncidentContext(world_size_by_job={"A": 8})
    gpu_error = a_signal("xid-79", 0, "n1", **XID)
    plain = an_incident([gpu_error, *timeouts(*range(8))], context)
    blamed = an_incident([gpu_error, *timeouts(0, 1, 2, 3, 4, 6, 7)], context)
    assert plain.root_cause.node == blamed.root_cause.node == "n1"
    assert any("rank 5 never reported" in reason for reason in blamed.root_cause.reasons)
    assert not any("never reported" in reason for reason in plain.root_cause.reasons)
    assert blamed.root_cause.rank is None


def test_the_wrong_node_s_error_loses_to_the_suspect_s() -> None:
    errors = [a_signal("xid-31", 0, "n0", **XID), a_signal("xid-31", 0.5, "n1", **XID)]
    assert an_incident([*errors, *timeouts(*range(8))]).root_cause.node == "n0"
    assert an_incident([*errors, *timeouts(0, 1, 2, 3, 4, 6, 7)]).root_cause.node == "n1"


def test_candidates_differ_in_class_or_node_and_decrease_in_confidence() -> None:
    errors = [a_signal(f"error-{number % 7}", number, f"n{number % 2}", "A") for number in range(20)]
    incident = an_incident([a_signal("xid-79", 0, "n1", **XID), *errors])
    kinds = [(candidate.failure_class, candidate.node) for candidate in incident.candidates]
    shares = [candidate.confidence for candidate in incident.candidates]
    assert len(kinds) == len(set(kinds)) == MAX_CANDIDATES
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == incident.root_cause.confidence
    assert all(0 < share <= 1 for share in shares)
    first, root = incident.candidates[0], incident.root_cause
    assert (first.failure_class, first.rule, first.node, first.reasons) == (
        root.failure_class,
        root.rule,
        root.node,
        root.reasons,
    )


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param(ALL_KERNELS, (), id="complete"),
        pytest.param(NO_CONTEXT, (), id="no-context"),
        pytest.param(
            IncidentContext(kernel_nodes={"n0"}),
            ("there is no kernel log of n1, so a hardware failure can be neither confirmed nor ruled out",),
            id="no-kernel-log",
        ),
        pytest.param(
            IncidentContext(cut_nodes={"n1", "n9"}),
            ("a log of n1 is cut off within a line: what followed is lost",),
            id="cut-off",
        ),
        pytest.param(
            IncidentContext(world_size_by_job={"A": 12}, seen_ranks_by_job={"A": {0, 11}}),
            ("job A: 10 of 12 ranks never logged: 1, 2, 3, 4, 5, 6, 7, 8, ...",),
            id="unseen-ranks",
        ),
    ],
)
def test_missing_evidence_is_listed(context: IncidentContext, expected: tuple[str, ...]) -> None:
    assert an_incident([a_signal("oom-gpu", 0, "n1", "A", role="root")], context).missing == expected


def test_signals_beyond_the_bound_are_reported() -> None:
    incident = an_incident([a_signal("oom-gpu", 0, "n2", "A", role="root"), *timeouts(*range(12))], ALL_KERNELS)
    assert incident.missing == ("4 more signals were counted, but their lines were not stored",)


def test_an_unknown_place_is_missing() -> None:
    assert an_incident([a_signal("oom-gpu", 0, "", "A")]).missing == ("no line names the node where it began",)


def test_the_address_of_a_network_card_is_no_gpu_of_the_blast_radius() -> None:
    card = a_signal("mlx5-health-error", 0, "n1", source="kernel", gpu="0000:18:00")
    assert an_incident([card]).blast_radius.gpus == 0


def test_blast_radius_counts_gpus_by_the_best_source() -> None:
    signals = [a_signal("xid-79", 0, "n1", **XID), *timeouts(0, 1)]
    assert an_incident(signals).blast_radius.gpus == 2
    context = IncidentContext(loss_by_job={"A": JobLoss(last_step=9, last_step_ns=at(0), until_ns=at(3600), gpus=16)})
    incident = an_incident(signals, context)
    assert (incident.blast_radius.gpus, incident.cost.gpus, incident.cost.gpu_hours_lost) == (16, 16, 16.0)


def test_time_since_the_last_step_is_in_hours() -> None:
    loss = JobLoss(last_step=9, last_step_ns=0, until_ns=1800 * NS_PER_S, gpus=8)
    assert an_incident(timeouts(0), IncidentContext(loss_by_job={"A": loss})).cost.gpu_hours_lost == 4.0
