"""The short form of `make attack`: an attack or two of each story hold, and the bench notices what breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from bench.attack.__main__ import STORIES, attack

SEED: Final = 20261128
SHORT: Final = (
    ("receivers", "redirects"),
    ("sources", "unreadable file"),
    ("kills", "random moments"),
    ("clocks", "killed -4 d"),
    ("tokens", "detours"),
    ("floods", "event streams"),
)


@pytest.mark.integration
@pytest.mark.parametrize(("story", "name"), SHORT)
def test_epicenter_holds_under_attack(tmp_path: Path, story: str, name: str) -> None:
    assert attack(story, name, SEED, tmp_path, rounds=2).broke == ""


def test_what_breaks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STORIES["sources"], "hangs", lambda arena: arena.logs.joinpath("missing").read_text())
    assert attack("sources", "hangs", SEED, tmp_path).broke.startswith("FileNotFoundError")


def test_each_story_has_attacks() -> None:
    assert all(STORIES.values())
