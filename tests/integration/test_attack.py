"""The short form of `make attack`: an attack or two of each story hold, and the bench notices what breaks."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from bench.attack.__main__ import STORIES, attack
from bench.attack.arena import BrokeError, bounded

SEED: Final = 20261128
NEEDS_CC: Final = pytest.mark.skipif(not shutil.which("cc"), reason="the clock needs a C compiler: install gcc")
SHORT: Final = (
    ("receivers", "redirects"),
    ("sources", "unreadable file"),
    ("kills", "random moments"),
    pytest.param("clocks", "killed -4 d", marks=NEEDS_CC),
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


def test_a_hang_ends_after_its_bound() -> None:
    with pytest.raises(BrokeError, match="no end within 1 s"), bounded(1):
        Event().wait()


def test_each_story_has_attacks() -> None:
    assert all(STORIES.values())
