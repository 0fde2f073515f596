"""What a machine may do about an incident, and what prevents it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from epicenter.rules.alerts.action import action_of
from epicenter.rules.alerts.guard import HOUR_NS, Acted, Guard, faults, nodes_per_hour
from epicenter.rules.alerts.spec import GuardSpec, RouteSpec, RoutingSpec
from epicenter.rules.model.incident import Recurrence
from epicenter.rules.model.notification import Action
from epicenter.rules.packs.vocabulary import vocabulary
from tests.support.alerts import an_incident

GPU = "0000:3b:00"
FAILED_BEFORE = {"recurrence": to_builtins(Recurrence(3, None, ("xid-79",), ("n9", "n4"), ("a", "b")))}


@pytest.mark.parametrize(
    ("word", "changed", "wanted"),
    [
        ("drain-node", {}, Action("drain-node", nodes=("n1",))),
        ("replace-hardware", {}, Action("drain-node", nodes=("n1",))),
        ("reboot-node", {"node": "", "nodes": ["n7"]}, Action("reboot-node", nodes=("n7",))),
        ("reset-gpu", {"gpu": GPU}, Action("reset-gpu", nodes=("n1",), gpu=GPU)),
        ("restart-app", {"jobs": ["7"], "failure_class": "segfault"}, Action("restart-job", jobs=("7",))),
        (
            "resubmit",
            {"jobs": ["7"], "cost": {"since_checkpoint_step": 800}, **FAILED_BEFORE},
            Action("restart-job", jobs=("7",), exclude_nodes=("n1", "n4", "n9"), resume_step=800),
        ),
        ("fix-memory", {"jobs": ["7"]}, Action("raise-memory", jobs=("7",))),
        ("add-capacity", {"jobs": ["7"], "confidence": 0.3}, Action("wait", jobs=("7",))),
    ],
)
def test_the_action_of_an_incident_has_its_target_and_reason(
    word: str, changed: dict[str, Any], wanted: Action
) -> None:
    found = action_of(an_incident(action=word, **changed))
    assert found == replace(wanted, is_allowed=True, why=vocabulary().actions[word])


def test_every_other_action_needs_a_person() -> None:
    kinds = {word: action_of(an_incident(action=word, jobs=["7"], gpu=GPU)) for word in vocabulary().actions}
    assert sum(action.kind == "none" for action in kinds.values()) == 12
    assert kinds["debug-app"].why == "a person must decide: the job's owner must fix the program"
    assert all(action.is_allowed is (action.kind != "none") for action in kinds.values())


@pytest.mark.parametrize(
    ("word", "changed", "why"),
    [
        ("drain-node", {"node": "", "nodes": ["n1", "n2"]}, "the node is unknown"),
        ("reset-gpu", {"gpu": ""}, "the GPU is unknown"),
        ("resubmit", {"jobs": []}, "the job is unknown"),
        ("drain-node", {"confidence": 0.59}, "the cause is too uncertain: confidence 0.59, at least 0.60 is needed"),
        ("drain-node", {"status": "resolved"}, "the incident is resolved"),
    ],
)
def test_action_is_not_allowed_when(word: str, changed: dict[str, Any], why: str) -> None:
    found = action_of(an_incident(action=word, **changed))
    assert not found.is_allowed
    assert found.why.startswith(why)


def test_action_is_allowed_from_a_minimal_confidence_on() -> None:
    assert action_of(an_incident(action="drain-node", confidence=0.6)).is_allowed


def a_guard(actions: Any = "allowed", **limits: Any) -> Guard:
    return Guard(RoutingSpec(route=RouteSpec(), actions=actions, guard=GuardSpec(**limits)))


def drain(*nodes: str) -> Action:
    return Action("drain-node", nodes=nodes, is_allowed=True, why="take the node out of service")


def restart(*jobs: str) -> Action:
    return Action("restart-job", jobs=jobs, is_allowed=True)


NOW_NS = 10 * HOUR_NS
THREE = [Acted(NOW_NS - 60 * number, f"i{number}", "drain-node", (f"n{number}",)) for number in range(3)]


def test_guard_limits_nodes_within_an_hour() -> None:
    guard = a_guard(nodes_per_hour=4)
    assert guard.judge(drain("n7"), THREE, NOW_NS) == replace(drain("n7"), is_dry_run=False)
    found = guard.judge(drain("n7", "n8"), THREE, NOW_NS)
    assert not found.is_allowed
    assert found.why == "actions on 3 nodes are used up, of 4 allowed per hour: a person must decide"
    assert guard.judge(drain("n7", "n8"), THREE, NOW_NS + HOUR_NS).is_allowed


def test_guard_counts_a_node_once_within_the_hour() -> None:
    guard = a_guard(nodes_per_hour=3)
    assert guard.judge(drain("n1", "n2"), THREE, NOW_NS).is_allowed
    assert not guard.judge(drain("n1", "n3"), THREE, NOW_NS).is_allowed


def test_guard_limits_the_share_of_the_fleet() -> None:
    assert nodes_per_hour(GuardSpec(nodes_per_hour=40, fleet_share=0.29, fleet_nodes=100)) == 29
    assert nodes_per_hour(GuardSpec(nodes_per_hour=4, fleet_nodes=1_000)) == 4
    assert nodes_per_hour(GuardSpec(nodes_per_hour=4, fleet_share=0.001)) == 4
    guard = a_guard(fleet_nodes=150)
    assert not guard.judge(drain("n7"), THREE, NOW_NS).is_allowed
    assert guard.judge(drain("n7"), THREE[:2], NOW_NS).is_allowed


def test_guard_counts_a_job_once_for_each_incident() -> None:
    guard = a_guard(jobs_per_hour=2)
    before = [Acted(NOW_NS, name, "restart-job", (), ("7",)) for name in ("i1", "i2", "i1")]
    assert guard.judge(restart("7"), before, NOW_NS, "i1").is_allowed
    found = guard.judge(restart("7"), before, NOW_NS, "i3")
    assert found.why == "actions on 2 jobs are used up, of 2 allowed per hour: a person must decide"


def test_actions_are_a_dry_run_by_default() -> None:
    found = a_guard("dry-run").judge(drain("n7"), [], NOW_NS)
    assert (found.is_dry_run, found.is_allowed) == (True, True)


def test_guard_does_not_count_actions_that_touch_nothing() -> None:
    waits = Action("wait", jobs=("7",), is_allowed=True)
    guard = a_guard(jobs_per_hour=0)
    assert guard.judge(waits, [], NOW_NS).is_allowed
    assert not guard.judge(Action(why="x"), [], NOW_NS).is_allowed
    assert a_guard(jobs_per_hour=1).judge(restart("8"), [Acted.of(waits, "i1", NOW_NS)], NOW_NS).is_allowed


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 32, 49, 333])
def test_the_fleet_share_that_the_check_suggests_is_enough(nodes: int) -> None:
    found = list(faults(GuardSpec(fleet_nodes=nodes, fleet_share=0.001)))
    share = float(found[0][1].rpartition(" ")[2].strip("`"))
    assert nodes_per_hour(GuardSpec(fleet_nodes=nodes, fleet_share=share)) == 1
