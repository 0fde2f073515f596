"""Rules are tried on their examples before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.rule_tools.examples import example_failures
from epicenter.stream.rule_tools.trial import proven
from tests.support.packs import A_PACK


def test_examples_that_passed_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tried: list[str] = []

    def failures(rules: RuleSet, scanner: object) -> list[str]:
        tried.append(rules.digest)
        mine = RuleSet((rules.by_id["mine.one"],), ())
        return example_failures(mine, scanner=None)

    monkeypatch.setattr("epicenter.stream.rule_tools.trial.example_failures", failures)
    pack = tmp_path / "pack.yaml"

    def times_tried(content: str) -> int:
        pack.write_text(content)
        proven([pack], None)
        return len(tried)

    assert [times_tried(pack) for pack in (A_PACK, A_PACK, A_PACK.replace("title: One", "title: Two"))] == [1, 1, 2]
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"mine\.one: must match this line: it went well: 2"):
            times_tried(A_PACK.replace("it went wrong: 2", "it went well: 2"))
    assert len(tried) == 4
    for entry in (tmp_path / "cache").rglob("examples/*"):
        entry.write_bytes(b"half of")
    assert times_tried(A_PACK) == 5
