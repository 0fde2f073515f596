"""Monitors of node-problem-detector become drafts that fit the same lines; losses and mistakes are listed at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from epicenter.rules.errors import ConfigError, InputError
from epicenter.rules.importing.pattern import adapted, without_open_end
from epicenter.rules.importing.samples import near_miss, samples
from epicenter.rules.packs.spec import PackSpec
from epicenter.stream.rule_tools.import_rules import import_rules

NPD = r"""{"plugin": "kmsg", "lookback": "5m", "rules": [
	{"type": "temporary", "reason": "FanSlow", "pattern": "shelf fan (\\S+) slow.*"},
	{"type": "permanent", "condition": "CardLost", "reason": "CardIsLost", "pattern": "card \\d+: lost"},
	{"type": "temporary", "reason": "TwoLines", "pattern": "begin\\nend"}]}"""


def imported(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> tuple[dict[str, Any], list[str]]:
    (folder / name).write_text(text)
    import_rules([folder / name], None)
    printed = capsys.readouterr()
    pack = yaml.safe_load(printed.out)
    PackSpec.model_validate(pack)
    losses = printed.err.replace(f"{folder}/", "").splitlines()
    return {rule["title"]: rule for rule in pack["rules"]}, losses


def test_a_monitor_of_node_problem_detector_becomes_a_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, losses = imported(tmp_path, capsys, "monitor.json", NPD)
    assert [(rule["severity"], rule["source"], rule["patterns"]) for rule in rules.values()] == [
        ("warning", "kernel", [r"shelf fan (?P<v1>\S+) slow"]),
        ("error", "kernel", [r"card \d+: lost$"]),
    ]
    assert [loss.split(": ")[0:2] for loss in losses] == [
        ["monitor.json:1", "the monitor"],
        ["monitor.json:3", "CardIsLost"],
        ["monitor.json:4", "TwoLines"],
        ["2 rules imported, 3 losses"],
    ]


OFFICIAL = r"""{"plugin": "kmsg", "source": "kernel-monitor", "rules": [
 {"type": "temporary", "reason": "TaskHung", "pattern": "task [\\S ]+:\\w+ blocked for more than \\w+ seconds\\."},
 {"type": "permanent", "reason": "ReadOnly", "condition": "x", "pattern": "Remounting filesystem read-only"},
 {"type": "temporary", "reason": "Slow", "pattern": "^(([a-zA-Z0-9 :.,()_-])+.)+XQ$"}]}"""


def test_lines_that_shipped_rules_match_become_neither_example_nor_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules, losses = imported(tmp_path, capsys, "kernel-monitor.json", OFFICIAL)
    assert list(rules) == ["TaskHung", "Slow"]
    assert "kernel-monitor.json:3: ReadOnly: not imported: fs.readonly matches such lines already" in losses
    assert rules["TaskHung"]["examples"]["matches"] == ["task xx:xx blocked for more than xx seconds."] * 2


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("health.json", '{"plugin": "custom", "rules": [{"path": "/x"}]}', "not imported: it runs programs"),
        ("bom.json", '\ufeff{"rules": []}', "0 rules imported, 0 losses"),
        ("posix.json", '{"rules": [{"type": "temporary", "reason": "x", "pattern": "a[[:alpha:]]b"}]}', "[:alpha:]"),
        ("deep.json", '{"rules": [{"type": "temporary", "reason": "x", "pattern": "%s"}]}' % ("(" * 3000), "too deep"),
    ],
)
def test_unsupported_patterns_make_a_pack_without_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, expected: str
) -> None:
    rules, losses = imported(tmp_path, capsys, name, text)
    assert not rules and any(expected in loss for loss in losses)


WRONG = {
    "wrong.json": (
        '{"rules": [\n {"type": "often", "reason": "x", "pattern": "y"},\n {"type": "temporary"}]}',
        [2, 3, 3],
    ),
    "broken.json": ('{"rules": [\n}', [2]),
    "deep.json": ("[" * 100_000, [1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_reported_at_once_with_their_lines(tmp_path: Path, name: str) -> None:
    text, lines = WRONG[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as raised:
        import_rules([tmp_path / name], None)
    assert sorted(int(problem.split(":")[1]) for problem in raised.value.problems) == lines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("site.sec", "type=Single\nptype=SubStr\npattern=x\ndesc=y\naction=logonly\n"),
        ("linux.yml", "title: x\ndetection: {keywords: [y], condition: keywords}\n"),
    ],
)
def test_rules_of_other_tools_are_refused_with_what_is_supported(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(
        ConfigError, match=r":1: not JSON .*: only monitors of node-problem-detector \(JSON\)"
    ) as raised:
        import_rules([tmp_path / name], None)
    assert len(raised.value.problems) == 1


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        import_rules([tmp_path / "none.json"], None)


PATTERNS = [
    r"Killed process \d+ (.+) total-vm:\d+kB.*",
    r"task [\S ]+:\w+ blocked for more than \w+ seconds\.",
    r"XFS .* Shutting down filesystem.?",
    r"(?:a|b)[^x]{2,}end+",
]
LINES = [
    "Killed process 7 (python) total-vm:9kB, rest",
    "task docker:x blocked for more than 120 seconds.",
    "XFS (sda1): Shutting down filesystem",
    "a__end",
    "lost link",
    "nothing of this",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_shortened_pattern_matches_the_same_lines(pattern: str) -> None:
    short = without_open_end(pattern)
    assert [bool(re.search(short, line)) for line in LINES] == [bool(re.search(pattern, line)) for line in LINES]
    assert adapted(pattern).pattern == adapted(short).pattern


@pytest.mark.parametrize("pattern", PATTERNS)
def test_examples_match_their_rules(pattern: str) -> None:
    assert all(re.search(pattern, line) for line in samples(pattern)) and not re.search(pattern, near_miss(pattern))


@pytest.mark.parametrize("pattern", [r"(?<!x)y", r"(a)\1", r"x\ny", "(", ".*", r"\d+", r"lost (?:link)?"])
def test_unsupported_syntax_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        near_miss(adapted(pattern).pattern)
