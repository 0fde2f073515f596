"""Packs of a running process change: valid ones are applied, broken ones are reported and change nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.load_settings import load_settings
from epicenter.stream.rule_tools.reload import Reloader, running
from epicenter.stream.rule_tools.trial import MAX_S, tried
from tests.support.packs import A_PACK
from tests.support.waiting import COMPILE_S


class Process:
    """The part of a worker that applies new rules."""

    def __init__(self, packs: Path):
        settings = load_settings(rule_packs=(packs,), reload_every="50ms")
        self.applied: list[RuleSet] = []
        self.outcomes: asyncio.Queue[str] = asyncio.Queue()
        self.messages: list[str] = []
        self.reloader = Reloader(
            settings,
            load([packs]),
            self.reload,
            lambda outcome, _: self.outcomes.put_nowait(outcome),
            self.messages.append,
        )

    async def reload(self, rules: RuleSet) -> None:
        self.applied.append(rules)

    async def next_outcome(self) -> str:
        return await asyncio.wait_for(self.outcomes.get(), COMPILE_S)

    @property
    def title(self) -> str:
        return self.applied[-1].by_id["mine.one"].spec.title


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    """A folder like a mounted ConfigMap: the file is a symlink through a symlink that is swapped."""
    mount(tmp_path, A_PACK)
    (tmp_path / "mine.yaml").symlink_to("..data/mine.yaml")
    return tmp_path


def mount(folder: Path, content: str) -> None:
    version = folder / f"..{len(list(folder.iterdir()))}"
    version.mkdir()
    (version / "mine.yaml").write_text(content)
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").rename(folder / "..data")


@pytest.fixture
async def process(packs: Path) -> AsyncIterator[Process]:
    process = Process(packs)
    async with running(process.reloader.follow()):
        yield process


async def test_valid_change_is_applied_and_a_mistake_is_not(process: Process, packs: Path) -> None:
    mount(packs, A_PACK.replace("title: One", "title: Two"))
    assert await process.next_outcome() == "taken"
    assert process.title == "Two"
    assert process.messages[-1].startswith("rules reloaded: 0 new, 1 changed, 0 removed; ")

    mount(packs, A_PACK.replace("it went wrong: 2", "it went well: 2"))
    assert await process.next_outcome() == "broken"
    assert len(process.applied) == 1
    problem = f"{packs}/mine.yaml:3: mine.one: must match this line: it went well: 2"
    assert process.messages[-1].splitlines() == [
        "new rules refused, the old ones stay; fix and save these:",
        f"  {problem}",
    ]
    assert process.reloader.health()["problems"] == [problem]

    mount(packs, A_PACK.replace("title: One", "title: Three"))
    assert await process.next_outcome() == "taken"
    assert process.title == "Three"
    health = process.reloader.health()
    assert (health["problems"], health["digest"]) == ([], load([packs]).digest)


async def test_sighup_checks_the_packs_at_once(packs: Path) -> None:
    process, before = Process(packs), signal.getsignal(signal.SIGHUP)
    os.utime(packs / "mine.yaml")
    async with running(process.reloader.follow()):
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)
        assert await process.next_outcome() == "unchanged"
    assert (process.applied, process.messages) == ([], [])
    assert signal.getsignal(signal.SIGHUP) == before


async def test_trial_process_that_times_out_is_a_problem(packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicenter.stream.rule_tools.trial.MAX_S", 0.01)
    assert "reading and compiling the packs took more than" in (await tried([packs], None)).problems[0]
    monkeypatch.setattr("epicenter.stream.rule_tools.trial.MAX_S", MAX_S)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert (await tried([packs], None)).problems[0].startswith("new packs can't be tried: can't start a process: ")
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert (await tried([packs], None)).problems == ["the process that tries new packs exited with 1: "]


async def test_a_topology_that_contradicts_itself_is_reported(packs: Path, tmp_path: Path) -> None:
    topology = tmp_path / "topology.json"
    topology.write_text('{"nodes": {"n[1-2]": {"rack": "r1"}, "n1": {"rack": "r2"}}}')
    (problem,) = (await tried([packs], topology)).problems
    assert problem.startswith(f"{topology}:1: ")
