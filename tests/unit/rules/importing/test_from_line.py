"""A draft of a rule from a line or its template: it matches such lines, and passes every check."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.importing.from_line import drafted
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.unnamed.template import template_of

LINE = "2026-03-02 09:11:35,120 ERROR lampd.shaft: lamp of shaft 77 at 10.2.3.4:88 went out after 12.5 s"


@pytest.mark.parametrize("text", [LINE, template_of(LINE)], ids=["line", "template"])
def test_a_draft_matches_lines_of_the_same_message(text: str) -> None:
    (pattern,) = drafted(text)["patterns"]
    assert re.search(pattern, LINE.replace("77", "3"))
    assert not re.search(pattern, LINE.replace("lamp of", "lid of"))


def test_what_varies_becomes_fields_named_after_the_word_before() -> None:
    (pattern,) = drafted(LINE)["patterns"]
    found = re.search(pattern, LINE)
    assert found
    assert found.groupdict() == {"shaft": "77", "at": "10.2.3.4:88", "after": "12.5"}


def test_lines_of_logs_become_its_examples() -> None:
    other = LINE.replace("77", "78")
    rule = drafted(template_of(LINE), ["step 1 loss 2.0", LINE, other, LINE])
    assert rule["examples"]["matches"] == [LINE, other]


@pytest.mark.parametrize("text", ["", "7 8 9", "x: 7", "2026-03-02 09:11:35"])
def test_a_text_without_words_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too few fixed words"):
        drafted(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=120))
def test_a_draft_of_any_text_is_a_valid_rule(words: str) -> None:
    try:
        rule = drafted(f"lamp of shaft {words}")
    except ValueError:
        return
    RuleSpec.model_validate(rule)
    (pattern,) = rule["patterns"]
    assert all(re.search(pattern, line) for line in rule["examples"]["matches"])
    assert not any(re.search(pattern, line) for line in rule["examples"]["near_misses"])
