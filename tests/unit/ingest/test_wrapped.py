"""Wrapped lines are joined where the width of the text suggests it."""

from __future__ import annotations

import textwrap

import pytest

from epicenter.ingest.parse.wrapped import unwrapped

LONG = "worker 12 of job 7877 lost its connection to the parameter server " * 3


def _texts(lines: list[str]) -> list[str]:
    return [text for found in unwrapped(lines) for text in found.texts]


@pytest.mark.parametrize("columns", [80, 93, 120])
def test_a_line_cut_in_the_middle_of_a_word_is_whole_again(columns: int) -> None:
    assert LONG in _texts([LONG[start : start + columns] for start in range(0, len(LONG), columns)])


@pytest.mark.parametrize("columns", [72, 80, 120])
@pytest.mark.parametrize("quote", ["", "> "])
def test_a_line_wrapped_between_words_is_whole_again(columns: int, quote: str) -> None:
    lines = textwrap.wrap(LONG, columns, initial_indent=quote, subsequent_indent=quote)
    assert quote + LONG.strip() in _texts(["short", *lines, "short"])


def test_a_line_that_begins_anew_is_no_rest() -> None:
    full = "x y" + "z" * 77
    for following in ("2026-03-02 09:00:01 next", "[rank3]: next", "[09:00:01] next", "---- next", ""):
        assert _texts([full, following]) == []


def test_a_text_with_longer_lines_is_not_wrapped() -> None:
    assert _texts(["x y" + "z" * 77, "rest", "x " * 200]) == []


def test_the_place_is_that_of_the_parts() -> None:
    (found,) = unwrapped(["one", "x y" + "z" * 77, "rest", "two"])
    assert (found.first, found.end) == (1, 3)
