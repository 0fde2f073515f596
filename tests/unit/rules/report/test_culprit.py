"""Whose failure it is where nodes report that another did not come."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Position
from epicenter.rules.model.signals import Signal
from epicenter.rules.report.report import report
from tests.support.logs import the_rules
from tests.support.signals import a_signal

OF_FOUR = IncidentContext(nodes_by_job={"7801": {"n0", "n1", "n2", "n3"}})
NOT_KNOWN = "no line says which node did not come: only those that waited for it"


def gave_up(node: str, rule: str, failure_class: str) -> Signal:
    line = a_signal(failure_class, 600, node, "7801", rule=rule)
    return replace(line, role="root", position=Position(f"{node}.log", 1))


def an_incident(
    *nodes: str,
    context: IncidentContext = NO_CONTEXT,
    rule: str = "store.rendezvous_timeout",
    failure_class: str = "rendezvous-timeout",
) -> Incident:
    state = IncidentState("00000000000000a1", "default")
    for node in nodes:
        state.add(gave_up(node, rule, failure_class), {"7801"})
    return report(state, the_rules(), context)


def test_the_only_node_of_two_that_logged_is_not_the_one_that_did_not_come() -> None:
    incident = an_incident("n0", context=IncidentContext(nodes_by_job={"7801": {"n0"}}, node_count_by_job={"7801": 2}))
    assert incident.root_cause.node == ""


def test_the_only_node_that_logged_is_not_the_one_that_did_not_come_to_a_rendezvous_of_unknown_size() -> None:
    incident = an_incident("n0", context=IncidentContext(nodes_by_job={"7801": {"n0"}}))
    assert incident.root_cause.node == ""


def test_the_only_node_of_a_job_of_one_is_where_its_rendezvous_failed() -> None:
    incident = an_incident("n0", context=IncidentContext(nodes_by_job={"7801": {"n0"}}, node_count_by_job={"7801": 1}))
    assert incident.root_cause.node == "n0"


@pytest.mark.parametrize(
    ("nodes", "culprit"),
    [(("n0", "n1"), ""), (("n0", "n1", "n3"), "n2"), (("n0",), "n0")],
    ids=["unknown", "all-others-wait", "one-reporter"],
)
def test_of_several_nodes_that_wait_none_is_the_culprit(nodes: tuple[str, ...], culprit: str) -> None:
    incident = an_incident(*nodes, context=OF_FOUR, rule="nccl.watchdog_timeout", failure_class="nccl-timeout")
    assert incident.root_cause.node == culprit


def test_a_failure_without_a_node_is_where_another_line_about_it_is() -> None:
    incident = an_incident("", "n1", context=OF_FOUR, rule="signals.sigbus", failure_class="sigbus")
    assert incident.root_cause.node == "n1"


def test_the_only_node_that_does_not_report_is_the_one_that_did_not_come() -> None:
    incident = an_incident("n0", "n1", "n3", context=OF_FOUR)
    assert (incident.root_cause.node, NOT_KNOWN in incident.missing) == ("n2", False)
    assert incident.title == "Rendezvous timed out on 3 nodes, job 7801; n2 did not report it"


@pytest.mark.parametrize(
    ("nodes", "context"),
    [
        pytest.param(("n0", "n1", "n3"), NO_CONTEXT, id="nodes-of-the-job-not-known"),
        pytest.param(("n0", "n1"), OF_FOUR, id="two-do-not-report"),
        pytest.param(("n0", "n1", "n2", "n3"), OF_FOUR, id="all-report"),
    ],
)
def test_a_reporter_is_never_the_one_that_did_not_come(nodes: tuple[str, ...], context: IncidentContext) -> None:
    incident = an_incident(*nodes, context=context)
    assert (incident.root_cause.node, NOT_KNOWN in incident.missing) == ("", True)
    assert incident.title == f"Rendezvous timed out on {len(nodes)} nodes, job 7801"
    assert not any(node in command.text for command in incident.commands for node in nodes)


MANY = tuple(f"n{number:02}" for number in range(12))
OF_TWELVE = IncidentContext(nodes_by_job={"7801": set(MANY)})


def test_every_reporter_counts_beyond_the_lines_of_an_incident() -> None:
    incident = an_incident(*MANY[:7], *MANY[8:], context=OF_TWELVE)
    assert incident.root_cause.node == "n07"
    assert incident.title == "Rendezvous timed out on 11 nodes, job 7801; n07 did not report it"
    assert an_incident(*MANY, context=OF_TWELVE).root_cause.node == ""


def test_a_reporter_without_a_line_in_the_incident_is_not_blamed() -> None:
    of_nine = IncidentContext(nodes_by_job={"7801": set(MANY[:9])})
    assert an_incident(*MANY[:9], context=of_nine).root_cause.node == ""


def test_the_store_s_node_does_not_report_that_it_does_not_answer() -> None:
    reporters = ("n1", "n2", "n3")
    incident = an_incident(*reporters, context=OF_FOUR, rule="store.socket_timeout", failure_class="socket-timeout")
    assert incident.root_cause.node == "n0"


def test_two_ends_of_a_link_are_not_cleared_by_each_other() -> None:
    context = IncidentContext(nodes_by_job={"7801": {"n0", "n1", "n2"}})
    incident = an_incident("n0", "n1", context=context, rule="nccl.socket_timeout", failure_class="socket-timeout")
    assert incident.root_cause.node in ("n0", "n1")


def test_the_only_reporter_may_be_the_culprit() -> None:
    assert an_incident("n1", context=OF_FOUR).root_cause.node == "n1"


@pytest.mark.parametrize(
    ("reporters", "mute", "node"),
    [
        pytest.param(("n0", "n1", "n3"), (), "n2", id="its-logs-come"),
        pytest.param(("n0", "n1", "n3"), ("n2",), "n2", id="its-logs-stopped"),
        pytest.param(("n0", "n1"), ("n2",), "n3", id="another-s-logs-stopped"),
        pytest.param(("n0", "n1"), ("n2", "n3"), "", id="the-logs-of-two-stopped"),
        pytest.param(("n0", "n1"), (), "", id="two-report-nothing"),
    ],
)
def test_the_others_wait_for_the_only_node_that_reports_no_timeout(
    reporters: tuple[str, ...], mute: tuple[str, ...], node: str
) -> None:
    context = IncidentContext(nodes_by_job=OF_FOUR.nodes_by_job, mute_nodes_by_job={"7801": mute})
    incident = an_incident(*reporters, context=context, rule="nccl.watchdog_timeout", failure_class="nccl-timeout")
    assert (incident.root_cause.node if incident.root_cause.node not in reporters else "") == node


@pytest.mark.parametrize(
    ("killed", "node"),
    [
        pytest.param(("n2",), "n2", id="one"),
        pytest.param(("n1", "n2"), "", id="two"),
        pytest.param((), "", id="none"),
    ],
)
def test_of_ranks_that_waited_the_one_that_its_launcher_had_to_kill_is_the_culprit(
    killed: tuple[str, ...], node: str
) -> None:
    state = IncidentState("00000000000000a1", "default")
    for reporter in ("n0", "n1", "n2", "n3"):
        state.add(gave_up(reporter, "nccl.watchdog_timeout", "nccl-timeout"), {"7801"})
    for place in killed:
        state.add(a_signal("sigkill", 630, place, "7801", rule="elastic.forced_kill", role="teardown"), {"7801"})
    root = report(state, the_rules(), OF_FOUR).root_cause
    has_reason = any("had to be killed" in reason for reason in root.reasons)
    assert (root.node if has_reason else "") == node


def lost(node: str, rule: str, fields: dict[str, str], context: IncidentContext) -> Incident:
    line = a_signal("connection-reset", 600, node, "7801", rule=rule, fields=fields)
    state = IncidentState("00000000000000a1", "default")
    state.add(replace(line, position=Position(f"{node}.log", 1)), {"7801"})
    return report(state, the_rules(), context)


@pytest.mark.parametrize(
    ("rule", "fields", "context", "culprit"),
    [
        pytest.param("nccl.peer_gone", {"peer": "n9"}, NO_CONTEXT, "", id="peer-of-an-unknown-node"),
        pytest.param("nccl.peer_gone", {"peer": "n0"}, NO_CONTEXT, "n0", id="peer-on-its-own-node"),
        pytest.param("nccl.peer_gone", {"peer": "n2"}, OF_FOUR, "n2", id="peer-of-the-job"),
        pytest.param("nccl.remote_error", {}, OF_FOUR, "", id="peer-without-a-name"),
        pytest.param("nccl.remote_error", {}, NO_CONTEXT, "n0", id="job-of-unknown-size"),
        pytest.param(
            "nccl.remote_error",
            {},
            IncidentContext(node_of_rank={("7801", 0): "n0", ("7801", 8): "10.0.0.9"}),
            "",
            id="ranks-elsewhere",
        ),
    ],
)
def test_whoever_lost_a_connection_is_not_the_culprit(
    rule: str, fields: dict[str, str], context: IncidentContext, culprit: str
) -> None:
    incident = lost("n0", rule, fields, context)
    assert incident.root_cause.node == culprit
    assert ("only that a connection to another was lost" in str(incident.missing)) is (culprit == "")
