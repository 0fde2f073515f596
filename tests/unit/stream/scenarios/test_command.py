"""`epicenter rules test` with scenarios: its output and its exit codes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from epicenter.stream.cli.main import main
from tests.support.packs import A_PACK
from tests.support.scenarios import A_SCENARIO

STORY = Path(__file__).parents[3] / "scenarios/stories/gpu_off_the_bus.yaml"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`rules test` in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epicenter", "rules", "test", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()  # type: ignore[return-value]

    return call


def test_exit_0_when_all_incidents_are_as_expected(tmp_path: Path, run: Any) -> None:
    (tmp_path / "a.yaml").write_text(A_SCENARIO)
    shutil.copy(STORY, tmp_path)
    code, out, err = run("--only-scenarios", "--scenarios", tmp_path)
    assert (code, err) == (0, "")
    assert out == "2 scenarios, 4 expectations, 28 runs, restarts at 30 of 30 points, 0 failures\n"


def test_a_former_name_in_a_scenario_is_warned_of(tmp_path: Path, run: Any) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"lateness: 5s\n{A_SCENARIO}")
    code, _, err = run("--only-scenarios", "--scenarios", file)
    assert (code, err) == (0, f"epicenter: warning: {file}:1: lateness: is now called allowed_lateness: write that\n")


def test_exit_1_with_expected_and_found_incidents(tmp_path: Path, run: Any) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(A_SCENARIO.replace("xid-79, node: n2", "xid-48, node: n1"))
    code, out, err = run("--only-scenarios", "--scenarios", file)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{file}:15: A GPU is lost",
        "  incident 1: class: expected xid-48, found xid-79",
        "  incident 1: node: expected n1, found n2",
        "1 scenarios, 1 expectations, 14 runs, restarts at 5 of 5 points, 1 failures",
    ]


def test_exit_1_for_an_incident_where_none_is_expected(tmp_path: Path, run: Any) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(A_SCENARIO[: A_SCENARIO.index("    expect")] + "    expect: none\n")
    code, out, _ = run("--only-scenarios", "--scenarios", file)
    assert code == 1
    assert "  not expected: xid-79 on n2, jobs [A], open (" in out


def test_scenarios_next_to_a_pack_are_played_with_its_rules(tmp_path: Path, run: Any) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "pack.yaml").write_text(A_PACK.replace("class: mine-one", "class: preflight-timeout"))
    own = "title: Mine\nstory: Ours.\nnodes: n1\nlines: [{at: +1s, on: n1, text: 'it went wrong: 7'}]\n"
    (tmp_path / "scenarios/mine.yaml").write_text(own + "expect: [{class: preflight-timeout, node: n1}]\n")
    code, out, _ = run("--only-scenarios", "--rules", tmp_path / "pack.yaml")
    assert (code, out.split(",")[0]) == (0, "1 scenarios")


def test_exit_78_with_every_mistake(tmp_path: Path, run: Any) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(A_SCENARIO.replace("on: n2", "on: n7").replace("job: A, ranks", "job: B, ranks"))
    code, out, err = run("--scenarios", file)
    assert (code, out) == (78, "")
    assert [line.removeprefix("epicenter: ").split(": ")[:2] for line in err.splitlines()] == [
        [f"{file}:7", "steps.0.lines.0.job"],
        [f"{file}:9", "steps.0.lines.1.on"],
        [f"{file}:12", "steps.0.lines.2.job"],
    ]


def test_exit_78_without_packs_and_scenarios(tmp_path: Path, run: Any) -> None:
    code, _, err = run("--scenarios", tmp_path / "nothing")
    assert code == 78
    assert "nothing: no scenario found: name a .yaml file, or a folder that holds some" in err


def test_exit_2_when_only_scenarios_are_wanted_and_there_are_none(run: Any) -> None:
    code, _, err = run("--only-scenarios")
    assert code == 2
    assert "no scenarios found: give --scenarios" in err
