"""Which of the rules that fit a line stand."""

from __future__ import annotations

import pytest

from rules.standing import LineHit, standing
from tests.unit.stream.test_scan import a_rule

FAILS = a_rule("fails", "x")
OTHER = a_rule("other", "x")
FALLBACK = a_rule("fallback", "x", fallback=True)
PYTHON = a_rule("python", "x", fallback=True, **{"class": "python-exception"})
HARMLESS = a_rule("harmless", "x", role="harmless")
ADVICE = a_rule("advice", "x", role="advice")


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([(FAILS, 0, 9), (OTHER, 3, 12)], ["fails", "other"]),
        ([(FAILS, 0, 9), (FALLBACK, 20, 30)], ["fails"]),
        ([(FALLBACK, 0, 9)], ["fallback"]),
        ([(PYTHON, 0, 9), (FALLBACK, 0, 9)], ["fallback"]),
        ([(PYTHON, 0, 9)], ["python"]),
        ([(FALLBACK, 0, 9), (ADVICE, 20, 30)], ["fallback", "advice"]),
        ([(FAILS, 0, 9), (HARMLESS, 8, 20)], ["harmless"]),
        ([(FAILS, 0, 9), (HARMLESS, 9, 20)], ["fails", "harmless"]),
        ([(FAILS, 30, 39), (HARMLESS, 9, 20), (FALLBACK, 10, 12)], ["fails", "harmless"]),
        ([], []),
    ],
    ids=[
        "both",
        "fallback-beside-a-failure",
        "fallback-alone",
        "fallback-that-says-more",
        "python-alone",
        "fallback-beside-advice",
        "harmless-over-it",
        "harmless-beside-it",
        "harmless-over-one-of-them",
        "nothing",
    ],
)
def test_which_hits_stand(hits: list[tuple[object, int, int]], expected: list[str]) -> None:
    found = standing([LineHit(rule, {}, (start, end)) for rule, start, end in hits])  # type: ignore[arg-type]
    assert [hit.rule.spec.title for hit in found] == expected
