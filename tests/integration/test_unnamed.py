"""From a line that no rule names to a rule: `epicenter run`, `unnamed`, `rules draft`, `rules test`, `match`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import epicenter

pytestmark = pytest.mark.integration

LINES = [
    f"2026-03-02 09:11:3{number} ERROR lampd: lamp of shaft {number} went out \x1b[31m[bold]\n" for number in (5, 6)
]


def output_of(*arguments: object) -> str:
    done = epicenter(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_line_that_no_rule_names_becomes_a_rule(tmp_path: Path) -> None:
    log, pack, place = tmp_path / "train.log", tmp_path / "pack.yaml", ("--data-dir", tmp_path / "data")
    log.write_text("".join(LINES))
    epicenter("run", "--once", log, *place)
    assert output_of("unnamed", *place) == ""
    since = ("--since", "2026-03-01", *place)
    (message,) = map(json.loads, output_of("unnamed", "--json", *since).splitlines())
    assert (message["lines"], message["text"]) == (2, LINES[0].rstrip("\n"))
    shown = output_of("unnamed", *since)
    assert "lamp of shaft 5 went out" in shown and "(2 lines, 1 node, first log train" in shown
    assert "\x1b" not in shown and "[bold]" in shown
    output_of("rules", "draft", message["template"], log, "--output", pack)
    output_of("rules", "test", "--rules", pack)
    found = [json.loads(line) for line in output_of("match", "--json", "--rules", pack, log).splitlines()]
    assert [(match["class"], match["fields"]["shaft"]) for match in found] == [
        ("unclassified", "5"),
        ("unclassified", "6"),
    ]


def test_drafts_of_what_cannot_be_read_or_recognized_are_refused(tmp_path: Path) -> None:
    missing = epicenter("rules", "draft", "lamp of shaft 7 went out", tmp_path / "no.log")
    assert (missing.returncode, b"no.log: no such file" in missing.stderr) == (66, True)
    short = epicenter("rules", "draft", "7 8 9")
    assert (short.returncode, b"too few fixed words" in short.stderr) == (66, True)
