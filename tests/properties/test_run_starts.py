"""A pattern that is tried only where a run begins finds the same first match as the pattern tried everywhere."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.rules.match.bounded import compiled
from tests.support.logs import the_rules

SHAPES = (
    r"\w+: x",
    r"(?P<a>[\w.-]+) is (?:up|\d+)",
    r"(?:\d+/\d+ |error )x",
    r"(?:\w+\.)?\w+: x",
    r" {2,}x",
    r"\w{1,2}: x",
    r"[^:]*?: x",
    r"(?i)[a-f]+x",
    r"(?P<a>\w+) (?P=a)",
    r"(?:[ab]+:b)*x",
)
OF_RULES = sorted(
    {
        pattern
        for rule in the_rules().rules
        for pattern in (*rule.spec.patterns, *rule.spec.extract, *rule.spec.unless)
        if re.match(r"(?:\(\?(?:P<\w+>|:))*(?:\\[dwS]|\[[^\]]*\])(?:[+*]|\{\d,\})", pattern)
    }
)
TEXTS = st.text("aab0:. /x", max_size=12).map(str.encode)


@pytest.mark.parametrize("pattern", SHAPES)
@given(st.data())
def test_a_shape_keeps_its_first_match(pattern: str, data: st.DataObject) -> None:
    check_first_match(pattern, data.draw(TEXTS | st.builds(bytes.__add__, TEXTS, st.from_regex(pattern.encode()))))


@given(st.sampled_from(OF_RULES), TEXTS, st.data())
@settings(max_examples=400)
def test_a_pattern_of_a_rule_keeps_its_first_match(pattern: str, before: bytes, data: st.DataObject) -> None:
    check_first_match(pattern, before + data.draw(st.from_regex(pattern.encode())))


def check_first_match(pattern: str, text: bytes) -> None:
    was, found = re.search(pattern.encode(), text), compiled(pattern.encode()).search(text)
    assert (was and (was.span(), was.groups())) == (found and (found.span(), found.groups()))


def test_the_middle_of_a_run_is_no_start() -> None:
    assert compiled(rb"\w+: x").search(b"abc: x", 1) is None
    assert compiled(rb"(?P<a>\w+) (?P=a)").search(b"abc bc", 1)
    assert OF_RULES
