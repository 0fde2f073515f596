"""What `rules lint` finds in packs that load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epicenter.rules.packs.load import load
from epicenter.stream.rule_tools.lint import problems
from tests.support.logs import the_rules
from tests.support.packs import A_PACK

TWO = A_PACK + A_PACK.partition("rules:\n")[2].replace("mine.one", "mine.two").replace("mine-one", "hang")
SHARED_CLASS = TWO.replace("mine-one", "oom-gpu")


def problems_of(folder: Path, pack: str) -> list[str]:
    """Those of the pack, linted without the shipped rules that it leaves as they are."""
    file = folder / "mine.yaml"
    file.write_text(pack)
    rules = load([file])
    own = tuple(rule for rule in rules.rules if any(str(file) in of.place for of in (rule, *rule.finer.values())))
    found = problems(replace(rules, rules=own))
    return [problem.removeprefix(f"{file}:") for problem in found if str(file) in problem]


def test_the_shipped_rules_are_clean() -> None:
    assert problems(the_rules()) == []


def test_unknown_classes_and_actions_are_found(tmp_path: Path) -> None:
    found = problems_of(tmp_path, A_PACK.replace("entity: job", "entity: job\n    action: pray"))
    assert found[0] == "3: mine.one: unknown class mine-one: see rules/packs/vocabulary.yaml"
    assert found[1].startswith("3: mine.one: unknown action pray: write one of none, observe, ")
    assert found[2] == "3: mine.one: an error rule needs instructions: add next_steps and references"


def test_two_rules_that_claim_the_same_line_are_found(tmp_path: Path) -> None:
    found = [problem for problem in problems_of(tmp_path, SHARED_CLASS) if "matches this line too" in problem]
    assert found[0].startswith("3: mine.one: mine.two (")
    assert found[0].endswith("matches this line too: narrow one of them, or name it in `overlaps`: it went wrong: 1")
    assert len(found) == 4


@pytest.mark.parametrize(
    "change",
    [
        ("entity: job", "entity: job\n    overlaps: [mine.two]"),
        ("severity: error", "fallback: true\n    severity: error"),
        ("class: hang", "class: oom-gpu"),
        ("role: root", "role: advice"),
    ],
    ids=["declared", "fallback", "same-class", "advice"],
)
def test_rules_that_may_share_a_line_are_accepted(tmp_path: Path, change: tuple[str, str]) -> None:
    assert [
        problem
        for problem in problems_of(tmp_path, SHARED_CLASS.replace(*change, 1))
        if "matches this line too" in problem
    ] == []


def test_a_failure_in_a_harmless_line_is_found(tmp_path: Path) -> None:
    harmless = TWO.replace("mine-one", "harmless").replace("role: root", "role: harmless", 1)
    narrower = harmless.replace("went wrong: \\d", "^it ", 1)
    found = [problem for problem in problems_of(tmp_path, narrower) if "harmless line" in problem]
    assert found[0].endswith("matches this harmless line as a failure: narrow one of them: it went wrong: 1")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("action: none", "action: drain-node"), "action drain-node contradicts NVIDIA's IGNORE"),
        (("severity: info", "severity: critical"), "severity critical contradicts NVIDIA's IGNORE"),
    ],
    ids=["action", "severity"],
)
def test_a_code_that_contradicts_its_vendor_is_found(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    own = (
        A_PACK.replace("mine.one", "nvidia.xid_43")
        .replace("mine-one", "xid-43")
        .replace("severity: error", "severity: info")
    )
    own = own.replace("entity: job", "entity: gpu\n    override: true\n    action: none\n    references: [NVIDIA]")
    assert problems_of(tmp_path, own) == []
    assert any(problem in text for text in problems_of(tmp_path, own.replace(*change)))
