"""Lines that are cut out of a text on demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.ingest.batch.columns import Numbers, Repeated
from epicenter.ingest.batch.text import TextLines

TEXTS = st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"|")), min_size=1, max_size=40)


@given(TEXTS, st.data())
def test_lines_equal_those_of_a_split_in_any_order_of_access(lines: list[bytes], data: st.DataObject) -> None:
    text = TextLines(b"".join(line + b"\n" for line in lines))
    expected = [line.removesuffix(b"\r") for line in lines]
    ends = data.draw(st.lists(st.integers(1, len(text.text)), max_size=6).map(sorted))
    assert text.numbers_at(ends) == [text.text[: end - 1].count(b"\n") for end in ends]
    numbers = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=12))
    assert [text[number] for number in numbers] == [expected[number] for number in numbers]
    assert (len(text), text.cut_up(), list(text)) == (len(lines), expected, expected)


@pytest.mark.parametrize("number", [-1, 2])
def test_an_index_out_of_range_is_refused(number: int) -> None:
    lines = TextLines(b"a\nb\n")
    for column in (lines, Repeated(b"n1", lines), Numbers(7, lines)):
        with pytest.raises(IndexError):
            column[number]


def test_columns_are_as_long_as_their_lines() -> None:
    lines = TextLines(b"a\nb\nc\n")
    assert (list(Repeated("n1", lines)), Repeated("n1", lines)[1:]) == (["n1"] * 3, ["n1"] * 2)
    assert (list(Numbers(7, lines)), list(Numbers(7, lines)[1:])) == ([7, 8, 9], [8, 9])


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [(b"a\n", True), (b'{"message":"a"}\n', False), (b'a\n{"message":"a"}\n', False), (b'say {"a": 1}\n', True)],
    ids=["plain", "envelope", "envelope-later", "json-inside-a-line"],
)
def test_a_text_with_envelopes_is_no_plain_one(text: bytes, is_plain: bool) -> None:
    assert TextLines(text).is_plain == is_plain


def test_lines_with_colours_and_nuls_are_named() -> None:
    lines = TextLines(b"a\n\x1b[31mb\nc\n#033[1md\n\0e\n\0\n")
    assert lines.cleaned_differently() == [1, 3, 4, 5]
    assert TextLines(b"a\nb\n").cleaned_differently() == []


@pytest.mark.parametrize(("longest", "has_longer"), [(100, False), (900, True), (5000, True)])
def test_a_long_line_is_always_noticed(longest: int, has_longer: bool) -> None:
    text = TextLines((b"x" * 50 + b"\n") * 40 + b"y" * longest + b"\n" + (b"x" * 50 + b"\n") * 40)
    assert text.has_longer(800) == has_longer
