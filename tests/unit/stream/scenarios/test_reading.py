"""Scenario files: their syntax, and every mistake with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scenarios.notation import length_ns, names_of, offset_ns, ranks_of
from epicenter.stream.scenarios.reading import read_scenarios, scenario_folders
from tests.support.scenarios import A_SCENARIO, scenario


@pytest.mark.parametrize(
    ("written", "seconds"), [("+0s", 0), ("+10m3s", 603), ("+1h", 3600), ("+1m2s500ms", 62.5), ("+1.5s", 1.5)]
)
def test_offsets_are_read(written: str, seconds: float) -> None:
    assert offset_ns(written) == seconds * NS_PER_S


@pytest.mark.parametrize("written", ["10s", "+", "+10", "+10s later", "soon", 0, "-10s", "+s"])
def test_invalid_offsets_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"is not an offset: write how long after the start, such as \+10m3s"):
        offset_ns(written)


def test_durations_are_read() -> None:
    assert length_ns("1h30m") == 5400 * NS_PER_S
    with pytest.raises(ValueError, match="is not a duration"):
        length_ns("+5s")


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("n1", ("n1",)),
        ("n1..n3", ("n1", "n2", "n3")),
        ("gpu-08..gpu-11", ("gpu-08", "gpu-09", "gpu-10", "gpu-11")),
        (["n1..n2", "head"], ("n1", "n2", "head")),
        ("n[08-10],head", ("n08", "n09", "n10", "head")),
        ("rack7-n2..rack7-n3", ("rack7-n2", "rack7-n3")),
        (7, ("7",)),
    ],
)
def test_names_are_expanded(written: object, names: tuple[str, ...]) -> None:
    assert names_of(written) == names


@pytest.mark.parametrize("written", ["n3..n1", "n1..m3", "n1..n99999999"])
def test_invalid_ranges_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        names_of(written)


def test_ranks_are_expanded() -> None:
    assert ranks_of(["0..2", 7]) == (0, 1, 2, 7)
    assert ranks_of("all") == "all"
    with pytest.raises(ValueError, match="'first' is not a rank"):
        ranks_of("first")


MISTAKES = {
    "unknown-key": ("title: A", "titel: x\ntitle: A", 1, "titel: unknown key: write title"),
    "no-title": ("title: A GPU is lost\n", "", 1, "title: missing: add it"),
    "bad-offset": ("at: +20s", "at: 20s", 8, "'20s' is not an offset: write how long after the start, such as +10m3s"),
    "bad-duration": ("advance: 1m", "advance: soon", 13, "'soon' is not a duration"),
    "bad-range": ("nodes: n1..n2", "nodes: n2..n1", 4, "'n2..n1' is not a range"),
    "once-and-again": ("at: +20s", "at: +20s\n        every: 5s", 8, "write either `at: +10s`, or all of"),
    "never": ("at: +20s", "every: 5s", 8, "write either `at: +10s`, or all of"),
    "backwards": ("at: +20s", "every: 5s\n        from: +9s\n        to: +1s", 8, "`to` not before `from`"),
    "too-often": ("at: +20s", "every: 1ms\n        from: +0s\n        to: +1h", 8, "every: makes 3600001 lines"),
    "unknown-node": ("on: n2", "on: n7", 9, "'n7' is neither a node of a job nor in `nodes`: add it there"),
    "unknown-job": ("{at: +23s, job: A", "{at: +23s, job: B", 12, "'B' is not one of the `jobs` (A): add it there"),
    "no-such-rank": ("+23s, job: A, ranks: all", "+23s, job: A, ranks: 4", 12, "ranks 0..3: write one of them, not 4"),
    "ranks-without-a-job": ("+23s, job: A, ranks", "+23s, ranks", 12, "`ranks` belong to a job: write `job` too"),
    "ranks-and-nodes": ("+23s, job: A,", "+23s, job: A, on: n1,", 12, "remove `on`: the job"),
    "kernel-without-a-node": ("        on: n2\n", "", 9, "a kernel line comes from a node: write `on`"),
    "wrong-shipper": (
        "source: kernel",
        "source: kernel\n        shipper: vector",
        8,
        "shipper of a kernel line: write one of journald, rsyslog, plain",
    ),
    "unknown-placeholder": ("[rank{rank}]: NCCL", "[rank{rnak}]: NCCL", 12, "{rnak}: unknown placeholder"),
    "unknown-class": ("class: xid-79", "class: xid79", 15, "unknown class 'xid79': write xid-*"),
    "unknown-field": ("node: n2, jobs", "host: n2, jobs", 15, "steps.0.expect.0.host: unknown key: write"),
    "says-nothing": ("{class: xid-79, node: n2, jobs: [A]}", "{}", 15, "is empty: write at least the `class`"),
    "expects-nothing": (A_SCENARIO[A_SCENARIO.index("    expect") :], "", 1, "no `expect`: write `expect: none`"),
    "steps-and-lines": ("steps:", "advance: 1m\nsteps:", 1, "write either `lines`, `advance` and `expect`, or `steps`"),
    "twice": ("title: A", "title: B\ntitle: A", 2, "title is written twice: keep one"),
    "too-short": ("title: A", "lateness: 1s\ntitle: A", 1, "`allowed_lateness` is too short: write 2s or more"),
    "not-yaml": ("jobs:", "jobs: [", 5, "not YAML"),
}


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_its_line(old: str, new: str, line: int, message: str, tmp_path: Path) -> None:
    assert old in A_SCENARIO
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, A_SCENARIO.replace(old, new, 1))
    (problem,) = [problem for problem in caught.value.problems if message in problem]
    assert problem.startswith(f"{tmp_path / 'story.yaml'}:{line}: ")


def test_all_mistakes_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(A_SCENARIO.replace("on: n2", "on: n7").replace("job: A, ranks", "job: B, ranks"))
    (tmp_path / "b.yaml").write_text(A_SCENARIO.replace("at: +20s", "at: 20s").replace("xid-79,", "xid79,"))
    with pytest.raises(ConfigError) as caught:
        read_scenarios([tmp_path, tmp_path / "nothing"])
    places = [problem.partition(": ")[0] for problem in caught.value.problems]
    names = [place.removeprefix(f"{tmp_path}/") for place in places]
    assert names == ["nothing", "a.yaml:7", "a.yaml:9", "a.yaml:12", "b.yaml:8", "b.yaml:15"]


def test_a_scenario_without_steps_is_a_single_step(tmp_path: Path) -> None:
    found = scenario(tmp_path, "title: Quiet\nstory: Nothing.\nlines: []\nadvance: 1h\nexpect: none\n")
    (step,) = found.spec.all_steps
    assert (step.expect, step.advance) == ((), 3600 * NS_PER_S)
    assert found.expect_places == (f"{tmp_path / 'story.yaml'}:5",)


def test_the_former_name_of_the_allowed_lateness_is_read_with_a_warning(tmp_path: Path) -> None:
    found = scenario(tmp_path, f"lateness: 9s\n{A_SCENARIO}")
    assert found.spec == scenario(tmp_path, f"allowed_lateness: 9s\n{A_SCENARIO}").spec
    assert found.spec.allowed_lateness == 9 * NS_PER_S
    assert found.warnings == (f"{tmp_path / 'story.yaml'}:1: lateness: is now called allowed_lateness: write that",)


def test_both_names_of_the_allowed_lateness_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"story\.yaml:1: lateness is the former name of allowed_lateness: keep"):
        scenario(tmp_path, f"lateness: 9s\nallowed_lateness: 9s\n{A_SCENARIO}")


def test_a_topology_next_to_the_scenario_is_read(tmp_path: Path) -> None:
    (tmp_path / "racks.yaml").write_text("nodes:\n  n[1-2]: {rack: r7}\n")
    found = scenario(tmp_path, A_SCENARIO.replace("steps:", "topology: racks.yaml\nsteps:"))
    assert found.topology is not None
    assert found.topology.of("n2", "rack") == {"r7"}
    (tmp_path / "racks.yaml").write_text("nodes:\n  n[1-2]: {rack: r7, row: 3}\n")
    with pytest.raises(ConfigError, match=r"racks\.yaml:2: nodes\.n\[1-2\]\.row"):
        scenario(tmp_path, A_SCENARIO.replace("steps:", "topology: racks.yaml\nsteps:"))


def test_scenarios_next_to_packs_are_found(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "pack.yaml").touch()
    (tmp_path / "elsewhere").mkdir()
    packs = [tmp_path / "pack.yaml", tmp_path, tmp_path / "elsewhere"]
    assert scenario_folders(packs) == [tmp_path / "scenarios"]
