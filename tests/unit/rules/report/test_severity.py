"""The severity of an incident: it follows its worst signal, unless nothing failed."""

from __future__ import annotations

from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, alive


def severity(*matches: Match) -> str:
    engine = Engine(the_rules())
    engine.add(matches, [alive(0, "A", "n1"), alive(0, "A", "n2")])
    return engine.advance(at(600))[0].severity


def test_a_preemption_by_the_scheduler_is_a_warning() -> None:
    assert severity(a_match("slurm.preempted", 100, "n1", "A")) == "warning"


def test_a_preemption_stays_a_warning_when_the_job_s_ranks_lose_their_peers() -> None:
    lost = a_match("nccl.peer_gone", 102, "n2", "A")
    assert severity(a_match("slurm.preempted", 100, "n1", "A"), lost) == "warning"


def test_a_lost_node_is_critical() -> None:
    assert severity(a_match("slurm.node_fail", 100, "n1", "A")) == "critical"
