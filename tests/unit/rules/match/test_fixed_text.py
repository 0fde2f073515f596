"""Which fixed text is searched for in a pattern's place."""

from __future__ import annotations

import re

import pytest

from epicenter.rules.match.compiled import prefilter
from epicenter.rules.match.fixed_text import fixed_texts, quoted

WITH_TEXT = [
    pytest.param(r"the device is lost", {"the device is lost"}, id="all-of-it"),
    pytest.param(r"\d+ cannot allocate \d", {" cannot allocate "}, id="between-other-parts"),
    pytest.param(r"^\bdevice is lost$", {"device is lost"}, id="anchors-have-no-text"),
    pytest.param(r"step (?P<step>\d+) of the training run", {" of the training run"}, id="the-longest"),
    pytest.param(r"(?P<what>device (?:is)) lost: \d", {"device is lost: "}, id="across-groups"),
    pytest.param(r"[Dd]evice is lost", {"Device is lost", "device is lost"}, id="a-small-class"),
    pytest.param(r"device (?:is|was) lost", {"device is lost", "device was lost"}, id="a-choice"),
    pytest.param(r"the devices? is lost", {"the device is lost", "the devices is lost"}, id="an-option"),
    pytest.param(r"\w(?:device is lost|no such device)", {"device is lost", "no such devi"}, id="a-choice-of-texts"),
    pytest.param(r"(?:gpu \d is not there|no such device)", {" is not ther", "no such devi"}, id="within-a-choice"),
    pytest.param(r"(?:device is lost ){1,9}x", {"device is lost "}, id="a-repeat"),
    pytest.param(r"a{2}device-lost", {"aadevice-lost"}, id="an-exact-repeat"),
    pytest.param(r"cannot start container", {"cannot start cont"}, id="the-last-word-is-cut"),
    pytest.param(r"cannot container", {"cannot container"}, id="unless-too-short"),
    pytest.param("Gerät nicht gefunden", {"Gerät nicht gefu"}, id="beyond-ascii"),
]

WITHOUT_TEXT = [
    pytest.param(r"device lost", id="too-short"),
    pytest.param(r"(?:device is lost)?\d", id="optional"),
    pytest.param(r"(?:device is lost|\d)x", id="a-choice-without-text"),
    pytest.param(r"[^d]{14}", id="a-negated-class"),
    pytest.param(r"(?i)device is lost", id="in-any-case"),
    pytest.param(r"(?i:device is lost)", id="in-any-case-in-a-group"),
    pytest.param(r"device is lost(?! again)", id="look-around-is-for-hyperscan-to-refuse"),
    pytest.param(r"(\d)device is lost\1", id="so-are-back-references"),
    pytest.param(r"device[abc][abc][abc]lost", id="too-many-texts"),
]


@pytest.mark.parametrize(("pattern", "texts"), WITH_TEXT)
def test_a_pattern_with_long_fixed_text_is_searched_for_by_it(pattern: str, texts: set[str]) -> None:
    assert fixed_texts(pattern.encode()) == {text.encode() for text in texts}


@pytest.mark.parametrize("pattern", WITHOUT_TEXT)
def test_a_pattern_without_long_fixed_text_is_searched_for_itself(pattern: str) -> None:
    assert not fixed_texts(pattern.encode())
    assert prefilter(pattern.encode()) == pattern.encode()


@pytest.mark.parametrize(
    ("pattern", "searched"),
    [
        (r"^(?#unbounded)it[ =]{1,3}\d{1,9}[,;]{0,2}x$", r"it[ =]+\d+[,;]*x"),
        (r"(?#unbounded)it \w{2,4}(?:a|b){1,3}[^x]{0,80}[\]x]{1,2}", r"it \w+(?:a|b){1,3}[^x]{0,80}[\]x]+"),
    ],
)
def test_classes_of_an_unbounded_pattern_may_repeat_without_end(pattern: str, searched: str) -> None:
    assert prefilter(pattern.encode()) == searched.encode()


def test_text_is_quoted() -> None:
    text = bytes(range(256))
    assert re.fullmatch(quoted(text), text)
