"""Which patterns a rule may have, and the message when it may not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from epicenter.rules.match.compiled import refusal
from epicenter.rules.model.times import duration_ns, iso_from_ns
from epicenter.rules.packs.spec import RuleSpec, Waited, check_pattern

GOOD = [
    pytest.param(r"foo bar", id="plain"),
    pytest.param(r"^foo", id="begins-with-anchor"),
    pytest.param(r"cost \$5", id="escaped-dollar"),
    pytest.param(r"\^foo", id="escaped-caret"),
    pytest.param(r"a[$^]b", id="anchors-in-a-class"),
    pytest.param(r"a[]$]b", id="class-that-begins-with-a-bracket"),
    pytest.param(r"a[^\]$]b", id="class-with-an-escaped-bracket"),
    pytest.param(r"\d+\b", id="ends-in-a-word-border"),
    pytest.param(r"(?:x)?y", id="option-inside"),
    pytest.param(r"a{2,}b", id="open-repeat-inside"),
    pytest.param(r"a{2,5}", id="ends-in-a-bounded-repeat"),
    pytest.param(r"what\?", id="ends-in-an-escaped-question-mark"),
    pytest.param(r"a[+*?]", id="ends-in-a-class-of-repeats"),
    pytest.param(r"a\{2,\}", id="escaped-braces"),
    pytest.param(r"(?P<pid>\d+),", id="ends-behind-a-field"),
    pytest.param(r"^foo|bar", id="anchor-of-the-first-choice-only"),
    pytest.param(r"foo$", id="ends-in-an-anchor"),
    pytest.param(r"foo\\$", id="anchor-behind-an-escaped-backslash"),
]

ANCHOR, OPEN_END, BRACES = "anchors are allowed only", "ends in a repeat or an option", "write {0,n}"
BAD = [
    pytest.param(r"(?:foo$|bar)", ANCHOR, id="dollar-inside"),
    pytest.param(r"foo+$", OPEN_END, id="repeat-before-a-dollar"),
    pytest.param(r"(?:foo|^bar)", ANCHOR, id="caret-inside"),
    pytest.param(r"(^foo)", ANCHOR, id="caret-in-a-group"),
    pytest.param(r"\Afoo", ANCHOR, id="start-of-text"),
    pytest.param(r"foo\Z", ANCHOR, id="end-of-text"),
    pytest.param(r"a+", OPEN_END, id="plus"),
    pytest.param(r"a*?", OPEN_END, id="lazy-star"),
    pytest.param(r"a{2,}", OPEN_END, id="open-repeat"),
    pytest.param(r"a{2,}?", OPEN_END, id="lazy-open-repeat"),
    pytest.param(r"y(?:x)?", OPEN_END, id="optional-group"),
    pytest.param(r"(?P<pid>\d+)", OPEN_END, id="field-that-runs-on"),
    pytest.param(r"((a|b+))", OPEN_END, id="repeat-in-two-groups"),
    pytest.param(r"a[x]+", OPEN_END, id="repeated-class"),
    pytest.param(r"x{,3}y", BRACES, id="repeat-without-a-lower-end"),
]


@pytest.mark.parametrize("pattern", GOOD)
def test_accepts_patterns_that_hyperscan_supports(pattern: str) -> None:
    assert check_pattern(pattern) == pattern
    assert refusal(pattern.encode()) == ""


@pytest.mark.parametrize(("pattern", "reason"), BAD)
def test_refuses_patterns_that_hyperscan_matches_differently(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"write|remove|end the pattern") as refused:
        check_pattern(pattern)
    assert reason in str(refused.value)


@pytest.mark.parametrize("pattern", [r"a(?=b)c", r"(?<!a)bc", r"(a)b\1", r"(?>a)b", r"a?"])
def test_a_refused_pattern_quotes_hyperscan_s_reason(pattern: str) -> None:
    assert "Hyperscan can't compile it" in refusal(pattern.encode())


BASE = {
    "id": "a.b",
    "title": "t",
    "class": "c",
    "source": "kernel",
    "severity": "error",
    "role": "root",
    "entity": "gpu",
    "meaning": "m",
}
EXAMPLES = {"matches": ["x", "x y"], "near_misses": ["y"]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"patterns": ["x"]}, "`examples` is missing", id="no-examples"),
        pytest.param({"examples": EXAMPLES}, "`patterns` is missing", id="no-patterns"),
        pytest.param({"patterns": ["x"], "examples": EXAMPLES | {"near_misses": []}}, "near_misses", id="no-near-miss"),
        pytest.param({"patterns": ["x"], "examples": EXAMPLES, "id": "nodot"}, "id", id="id-without-family"),
        pytest.param({"patterns": ["x"], "examples": EXAMPLES, "severity": "bad"}, "severity", id="severity"),
        pytest.param({"patterns": ["x"], "examples": EXAMPLES, "colour": "red"}, "colour", id="unknown-key"),
        pytest.param({"patterns": ["x"], "examples": EXAMPLES, "extract": [".+x"]}, "with ^", id="slow-extract"),
    ],
)
def test_refuses_an_incomplete_rule(change: dict[str, object], expected: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RuleSpec.model_validate(BASE | change)
    assert expected in str(refused.value)


@pytest.mark.parametrize("given", [{}, {"field": "ms", "constant": "5s"}], ids=["neither", "both"])
def test_waited_is_a_field_or_a_constant(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="write either"):
        Waited.model_validate(given)


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [("250ms", 250_000_000), ("90s", 90 * 10**9), ("1.5h", 5400 * 10**9), (" 2d ", 172_800 * 10**9), ("0s", 0)],
)
def test_durations_are_read_in_nanoseconds(text: str, expected_ns: int) -> None:
    assert duration_ns(text) == expected_ns


@pytest.mark.parametrize("text", ["5", "5 minutes", "-5s", "5S", ""])
def test_refuses_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number"):
        duration_ns(text)


@pytest.mark.parametrize("text", ["9" * 400 + "d", "60000d", "9" * 30 + "ms"])
def test_a_duration_longer_than_times_that_can_be_stored_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long: write at most 53375d"):
        duration_ns(text)


def test_iso_has_nine_digits() -> None:
    assert iso_from_ns(1_772_442_001_000_000_005) == "2026-03-02T09:00:01.000000005Z"
