"""A pattern that could keep `re` busy on a hostile line is refused; what a pattern may cost is bounded."""

from __future__ import annotations

import pytest

from epicenter.rules.match.bounded import FIELD, LINE, compiled, searched, work_fault
from epicenter.rules.packs.table import slow_words
from tests.support.logs import the_rules

FOREVER = (
    r"(a+)+b",
    r"x(?:\w*\s*)*y",
    r"(?:x|y+)*z",
    r"(?:a|ab|b)*c",
    r"(?:\w+,?)+;",
    r"(?:\d+\.?){2,50}x",
    r"(?:[^,]+,?\s*)*done",
    r"^(?:.*,)+x",
    r"(?:a?)*(?:a+)*b",
    r"(?=(a+)+b)a",
    r"(?<!x)(?:a+)*b",
)
TOO_MUCH = (
    r"a.*b.*c",
    r"^.*a.*b.*c",
    r"error \S+\s*\S+\s*\S+: failed",
    r"\S*\S*\S*x",
    r"x\w*\d*[a-z0-9]*:",
    r"x[^\n]{0,400}y[^\n]{0,400}z[^\n]{0,400}!",
)
BOUNDED = (
    r"burn-in: GPU (?P<pci>[0-9a-f:.]{7,16}) failed after \d+ s",
    r"\w+: x",
    r"\b\w+\s*=\s*\d+;",
    r"error .*: failed",
    r"^.*a.*b",
    r"(?:\w{1,40}\.){0,8}Error",
    r"^(?:key=\d+ )*value",
    r"(?<!,)(?:[^,\n]{1,40},){1,9} done",
    r"took \d+(?:\.\d+)? s",
    r"a[^b\n]*b[^c\n]*c[^d\n]*d",
    r"(?:a{1,3}b?){1,4}c",
)


@pytest.mark.parametrize("pattern", FOREVER)
def test_a_repeat_that_reads_one_text_in_two_ways_in_each_turn_is_refused(pattern: str) -> None:
    assert "would take forever" in work_fault(pattern, LINE)


@pytest.mark.parametrize("pattern", TOO_MUCH)
def test_three_repeats_that_share_text_are_refused(pattern: str) -> None:
    assert "give them upper bounds" in work_fault(pattern, LINE)


@pytest.mark.parametrize("pattern", BOUNDED)
def test_a_pattern_with_text_between_its_repeats_is_accepted(pattern: str) -> None:
    assert not work_fault(pattern, LINE)


def test_a_pattern_of_thousands_of_bytes_is_refused_in_words() -> None:
    assert work_fault("(?:ab|cd|ef){4}" * 1000, LINE) == "it is too long to be checked: split it into several"


@pytest.mark.parametrize("pattern", [r"a.*b", r"a(?:[^b\n]*?)b", r"a(?:x|(?=.)\S{2,})b", r"a(?>\W*)b"])
def test_a_repeat_without_bound_matches_a_kilobyte_of_a_line_at_most(pattern: str) -> None:
    assert compiled(pattern).search("a" + "." * LINE.repeat + "b")
    assert not compiled(pattern).search("a" + "." * (LINE.repeat + 1) + "b")
    assert compiled(pattern, FIELD).search("a" + "." * (LINE.repeat + 1) + "b")


def test_a_repeat_that_is_tried_once_for_its_run_keeps_its_length() -> None:
    assert compiled(r"\w+: x").search("a" * 5000 + ": x")


def test_both_ends_of_a_long_line_are_searched() -> None:
    line = b"first" + b"." * (1 << 20) + b"last"
    assert compiled(b"first").search(searched(line))
    assert compiled(b"last$").search(searched(line))
    assert len(searched(line)) <= LINE.text + 1


def test_no_words_of_the_shipped_tables_keep_re_busy() -> None:
    assert not [fault for rule in the_rules().rules for fault in slow_words(rule)]


def test_no_pattern_of_the_shipped_rules_keeps_re_busy() -> None:
    faults = [
        (rule.spec.id, key, pattern, fault)
        for rule in the_rules().rules
        for key, patterns in {
            "patterns": rule.spec.patterns,
            "unless": rule.spec.unless,
            "block": rule.spec.block.expressions if rule.spec.block else (),
            "extract": rule.spec.extract,
        }.items()
        for pattern in patterns
        if (fault := work_fault(pattern, FIELD if key == "extract" else LINE))
    ]
    assert not faults
