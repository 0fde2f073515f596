"""Timeouts, compared, show that one rank ran another collective."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, alive, an_xid


def timed_out(rank: int, op: str, seq: int = 40) -> Match:
    fields = {"ran_ms": "600000", "seq": str(seq), "op": op, "group_guid": "0"}
    return a_match("nccl.watchdog_timeout", 600 + rank / 10, f"n{rank // 4}", "A", rank=rank, fields=fields)


def found(*matches: Match) -> Any:
    engine = Engine(the_rules())
    engine.add(matches, [alive(-1, "A", "n0"), alive(-1, "A", "n1")])
    return engine.advance(at(3000))[-1]


def test_a_rank_in_another_collective_is_the_root_and_the_time_outs_are_its_effects() -> None:
    incident = found(*(timed_out(rank, "BROADCAST" if rank == 5 else "ALLREDUCE") for rank in range(8)))
    root = incident.root_cause
    assert (incident.failure_class, root.node, root.rank) == ("collective-mismatch", "n1", 5)
    assert {link.role for link in incident.chain if link.failure_class == "nccl-timeout"} == {"cascade"}
    (link,) = (link for link in incident.chain if link.role == "root")
    assert "rank 5 runs BROADCAST where others run ALLREDUCE" in link.text
    assert all(signal.failure_class == "nccl-timeout" for signal in incident.evidence)


@pytest.mark.parametrize(("op", "seq"), [("ALLREDUCE", 40), ("BROADCAST", 39)])
def test_ranks_in_the_same_collective_or_one_behind_are_no_mismatch(op: str, seq: int) -> None:
    incident = found(timed_out(5, op, seq), *(timed_out(rank, "ALLREDUCE") for rank in range(8) if rank != 5))
    assert incident.failure_class == "nccl-timeout"


def test_a_gpu_that_failed_before_explains_more() -> None:
    timeouts = [timed_out(rank, "BROADCAST" if rank == 5 else "ALLREDUCE") for rank in range(8)]
    assert found(an_xid(79, 0, "n1", source="kernel"), *timeouts).failure_class == "xid-79"
