"""Rules name their examples also where a launcher, an export or a ticket has put something around them."""

from __future__ import annotations

from functools import cache

import pytest

from epicenter.rules.packs.ruleset import Rule
from epicenter.stream.rule_tools.examples import AllPatterns
from tests.support.dresses import KINDS, Dress, Wardrobe, examples, may_wear
from tests.support.logs import the_rules

EVERY = 13
MIN_SHARE = {"launcher": 0.95, "time": 0.92, "logger": 0.82, "paste": 0.9, "export": 0.9, "wrap": 0.8}
APART = ("Loki, values",)
"""What a list of texts in code looks like, too."""

DRESSES = [
    pytest.param(kind, dress, id=f"{kind}: {name}")
    for kind, dresses in KINDS.items()
    for name, dress in dresses.items()
    if name not in APART
]


@cache
def _wardrobe() -> Wardrobe:
    return Wardrobe(the_rules(), AllPatterns(the_rules()))


@cache
def _known() -> list[tuple[Rule, str]]:
    return [(rule, line) for rule, line in examples(the_rules(), EVERY) if _wardrobe().matches(rule, line, "match")]


@pytest.mark.parametrize(("kind", "dress"), DRESSES)
def test_triage_names_most_examples_in_a_dress(kind: str, dress: Dress) -> None:
    worn = [(rule, line) for rule, line in _known() if may_wear(rule, kind)]
    missed = [rule.spec.id for rule, line in worn if not _wardrobe().matches(rule, dress(line), "triage")]
    assert len(missed) <= (1 - MIN_SHARE[kind]) * len(worn), missed
