"""The short form of `make chaos`: one round, and the judge finds each kind of difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.chaos.arena import arena
from bench.chaos.feed import Feed
from bench.chaos.judge import differences

SEED = 20261121
KINDS = ("broker killed", "clock jumps", "delayed", "doubled", "worker killed")
RARER = ("backlog", "rebalances that overlap"), ("broker's disk full", "store's disk full")


@pytest.mark.integration
def test_a_round_of_attacks_changes_nothing(tmp_path: Path) -> None:
    with arena(tmp_path / "arena") as own:
        assert own.round(SEED, KINDS) == []
        calm = own.calm(SEED)
    assert calm.incidents
    assert calm.dead_letters
    name, row = sorted(calm.incidents)[0], sorted(calm.rows)[0]
    assert differences(calm, calm) == []
    assert differences(calm, replace(calm, rows=calm.rows - {row}))[0].startswith("row missing")
    assert differences(calm, replace(calm, incidents={}))[0].startswith("incident missing")
    other = {**calm.incidents, name: {**calm.incidents[name], "signal_count": 0}}
    assert differences(calm, replace(calm, incidents=other))[0].startswith(f"incident {name}: signal_count")


@pytest.mark.integration
@pytest.mark.long
def test_rarer_attacks_change_nothing(tmp_path: Path) -> None:
    with arena(tmp_path / "arena") as own:
        assert [own.round(SEED, kinds) for kinds in RARER] == [[], []]


def test_a_feed_is_the_same_for_the_same_seed() -> None:
    assert Feed(3).records == Feed(3).records != Feed(4).records
