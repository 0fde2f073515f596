"""Which of the rules that match a line win."""

from __future__ import annotations

import re

import pytest

from epicenter.rules.packs.precedence import LineHit, first_outside, without_needless_fallbacks
from epicenter.rules.packs.ruleset import Rule
from tests.unit.stream.scan.test_scan import a_rule

FAILS = a_rule("fails", "x")
OTHER = a_rule("other", "x")
FALLBACK = a_rule("fallback", "x", fallback=True)
PYTHON = a_rule("python", "x", fallback=True, **{"class": "python-exception"})
ADVICE = a_rule("advice", "x", role="advice")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([FAILS, OTHER], ["fails", "other"], id="both"),
        pytest.param([FAILS, FALLBACK], ["fails"], id="fallback-with-a-failure"),
        pytest.param([FALLBACK], ["fallback"], id="fallback-alone"),
        pytest.param([PYTHON, FALLBACK], ["fallback"], id="fallback-that-says-more"),
        pytest.param([PYTHON], ["python"], id="python-alone"),
        pytest.param([FALLBACK, ADVICE], ["fallback", "advice"], id="fallback-with-advice"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_fallbacks_are_dropped_when_another_rule_matches(rules: list[Rule], expected: list[str]) -> None:
    found = without_needless_fallbacks([LineHit(rule, {}) for rule in rules])
    assert [hit.rule.spec.title for hit in found] == expected


@pytest.mark.parametrize(
    ("harmless", "expected"),
    [
        pytest.param([], (2, 5), id="nothing-harmless"),
        pytest.param([(0, 2), (5, 8)], (2, 5), id="harmless-on-both-sides"),
        pytest.param([(4, 6)], (10, 13), id="harmless-over-the-first"),
        pytest.param([(0, 20)], None, id="harmless-over-all"),
        pytest.param([(12, 14), (2, 3)], None, id="harmless-over-each"),
    ],
)
def test_only_hits_outside_harmless_text_count(
    harmless: list[tuple[int, int]], expected: tuple[int, int] | None
) -> None:
    place = first_outside(re.finditer(b"bad", b"a bad and bad day"), harmless)
    assert (place and place.span()) == expected
