"""Invalid windows are refused when they are loaded, all at once, each with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.detect.inputs import observed
from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from tests.support.logs import the_rules

HEAD = """\
pack: mine
rules:
"""
RULE = """\
  - id: mine.{name}
    title: Mine
    class: straggler
    source: any
    severity: warning
    role: root
    entity: job
    meaning: For tests.
    when:
"""


def refused(tmp_path: Path, *whens: str) -> list[str]:
    """The problems of the pack, each as `line: …` without its file."""
    (tmp_path / "mine.yaml").write_text(pack(*whens))
    with pytest.raises(ConfigError) as refusal:
        load([tmp_path])
    return [problem.removeprefix(f"{tmp_path / 'mine.yaml'}:") for problem in refusal.value.problems]


def pack(*whens: str) -> str:
    rules = [
        RULE.format(name=chr(ord("a") + number)) + "".join(f"      {line}\n" for line in when.splitlines())
        for number, when in enumerate(whens)
    ]
    return HEAD + "".join(rules)


COUNT = "kind: count\nof: [nic.link_down]\nat_least: 3\nwithin: 10m\n"


def test_a_valid_window_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(pack(COUNT + "group_by: [node, link]\ntext: '{count} on {link}'"))
    assert "mine.a" in load([tmp_path]).by_id


LENGTH = "`within` must be longer than 0s and at most 31d"
ILL_FORMED = [
    (COUNT.replace("within: 10m\n", ""), 1, "`within` is missing: every window has a bound, such as `within: 10m`"),
    (COUNT.replace("10m", "0s"), 1, LENGTH),
    (COUNT.replace("10m", "400d"), 1, LENGTH),
    (
        COUNT.replace("10m", "ten minutes"),
        4,
        "'ten minutes' is not a duration: write a number and a unit (ms, s, m, h or d)",
    ),
    (COUNT.replace("3", "0"), 3, "write 1 or more, not 0"),
    (COUNT.replace("count", "counts"), 1, "write 'count', not 'counts'"),
    (COUNT.replace("at_least: 3\n", ""), 1, "`at_least` is missing: count needs it"),
    (COUNT + "times: 4", 1, "`times` does not apply to count: leave it out"),
    (COUNT + "window: session", 1, "`gap` and `window: session` go together"),
    (COUNT + "window: session\ngap: 20m", 1, "`gap` must be longer than 0s and at most `within`"),
    (COUNT + "grouped: [node]", 5, "unknown key: write group_by"),
    ("kind: n-of-m\nof: [step, step]\nat_least: 2\nwithin: 1m", 1, "n-of-m was removed: write `sequence` with"),
    ("kind: threshold\nof: step\nfield: step\nwithin: 1m", 1, "write either `above` or `below`"),
    ("kind: slope\nof: step\nfield: step\nby: 5\nsamples: 9\nwithin: 1m", 4, "5 is not a share: write a number and %"),
    ("kind: slope\nof: step\nfield: step\nby: 5%\nsamples: 2\nwithin: 1m", 1, "fewer show no trend"),
]
WITHOUT_SENSE = [
    (
        COUNT.replace("nic.link_down", "nic.link_gone"),
        2,
        "nic.link_gone: unknown rule: `epicenter rules list` shows all",
    ),
    (COUNT.replace("nic.link_down", "nic-link-gone"), 2, "nic-link-gone: unknown class: no rule finds it"),
    (COUNT + "group_by:\n- node\n- cable", 7, "no input has a field cable: write one of class, cluster, driver, gpu"),
    (COUNT + "where:\n  node: n1\n  speed: 100", 7, "no input has a field speed"),
    (COUNT + "text: '{count} of {total}'", 5, "{total} is unknown here: write one of count, span_s"),
    ("kind: spike\nof: step\nfield: loss\nby: 5%\nsamples: 2\nwithin: 1m", 3, "no input has a field loss"),
    (
        "kind: absence\nof: nic.link_down\nwithout: step\ngroup_by: link\nwithin: 1m",
        4,
        "no input in `without` has a field link: remove it",
    ),
    (COUNT.replace("nic.link_down", "mine.h"), 2, "a window that feeds itself: mine.h <- mine.h"),
    (COUNT.replace("nic.link_down", "straggler").replace("kind", "# the class of all these\nkind"), 3, "feeds itself"),
]


@pytest.mark.parametrize("bad", [ILL_FORMED, WITHOUT_SENSE], ids=["ill-formed", "without-sense"])
def test_all_problems_of_windows_are_reported_at_once(tmp_path: Path, bad: list[tuple[str, int, str]]) -> None:
    problems = refused(tmp_path, *(when for when, _, _ in bad))
    lines = pack(*(when for when, _, _ in bad)).splitlines()
    starts = [number for number, line in enumerate(lines, start=1) if line == "    when:"]
    for (_, place, message), start in zip(bad, starts, strict=True):
        expected = f"{start + place}: "
        assert any(problem.startswith(expected) and message in problem for problem in problems), (
            expected,
            message,
            problems,
        )
    assert len({problem.partition(":")[0] for problem in problems}) == len(bad)


def test_a_cycle_of_windows_is_refused_once(tmp_path: Path) -> None:
    whens = [COUNT.replace("nic.link_down", name) for name in ("mine.b", "mine.c", "mine.a")]
    (problem,) = refused(tmp_path, *whens)
    ring = "mine.a <- mine.b <- mine.c <- mine.a"
    assert problem == f"13: mine.a: when.of.0: a window that feeds itself: {ring}: remove one of its inputs"


def test_a_window_has_no_patterns(tmp_path: Path) -> None:
    text = pack(COUNT).replace("    when:", "    patterns: ['went wrong: \\d']\n    when:")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match="a rule with `when` watches other rules, not lines: remove patterns"):
        load([tmp_path])


def test_watched_rules_may_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("off: [nic.link_down]\n" + pack(COUNT))
    assert "nic.link_down" not in load([tmp_path]).by_id


def test_quiet_rules_that_a_window_watches_are_observed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(pack(COUNT.replace("nic.link_down", "placement.node_list, sxid-*")))
    watched = observed(load([tmp_path])) - observed(the_rules())
    assert "placement.node_list" in watched
    assert len(watched) > 100
