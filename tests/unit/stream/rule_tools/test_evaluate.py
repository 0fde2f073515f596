"""How accurate the rules are on labelled cases, with the name of every miss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epicenter.rules.errors import InputError
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.stream.rule_tools.evaluate import Case, Score, judged, read_cases
from tests.support.logs import the_rules

XID = "[ 9.123456] NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def scored(case: Case, classes: set[str], primary: str | None) -> Score:
    score = Score()
    score.add(case, classes, primary)
    return score


def test_a_case_is_matched_and_triaged() -> None:
    scanner = HyperscanScanner(the_rules().expressions, the_rules().marks)
    assert judged(Case("a", [XID], ["xid-79"]), the_rules(), scanner) == ({"xid-79"}, "xid-79")
    assert judged(Case("b", ["loading shard 7"], []), the_rules(), scanner) == (set(), None)


@pytest.mark.parametrize(
    ("case", "classes", "missing", "extra"),
    [
        (Case("a", [], ["oom-gpu"]), {"oom-gpu"}, [], []),
        (Case("a", [], ["oom-gpu"]), {"hang"}, ["oom-gpu"], ["hang"]),
        (Case("a", [], ["signal-kill"]), {"sigabrt"}, [], []),
        (Case("a", [], ["port-in-use"]), {"port-fail"}, [], []),
        (Case("a", [], ["oom-gpu"], also_ok=["hang"]), {"oom-gpu", "hang"}, [], []),
        (Case("a", [], ["oom-gpu"], alt={"oom-gpu": ["hang"]}), {"hang"}, [], []),
        (Case("a", [], ["oom-gpu"], alt=["hang"]), {"hang"}, [], []),
        (Case("a", [], []), {"hang"}, [], ["hang"]),
    ],
    ids=[
        "right",
        "wrong",
        "finer-class",
        "alias",
        "allowed-too",
        "accepted-instead",
        "accepted-list",
        "false-alarm",
    ],
)
def test_missing_and_extra_classes_are_listed(
    case: Case, classes: set[str], missing: list[str], extra: list[str]
) -> None:
    score = scored(case, classes, None)
    differences = [(miss["missing"], miss["extra"]) for miss in score.misses] or [([], [])]
    assert differences == [(missing, extra)]
    assert score.benign_flagged == (not case.expect and bool(extra))


@pytest.mark.parametrize(
    ("wanted", "primary", "right"), [("oom-gpu", "oom-gpu", 1), ("signal-kill", "sigabrt", 1), ("hang", None, 0)]
)
def test_the_cause_is_right_if_its_class_or_a_finer_one_is_found(wanted: str, primary: str | None, right: int) -> None:
    score = scored(Case("a", [], [wanted], primary=wanted), {primary or wanted}, primary)
    assert (score.with_primary, score.primary_right) == (1, right)
    assert score.falls_short("worker") == (not right)


def test_a_line_that_is_no_case_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"id": "a", "lines": [], "expect": []}) + "\n{\n")
    with pytest.raises(InputError, match=r"cases.jsonl:2: not a labelled case"):
        read_cases(file)
