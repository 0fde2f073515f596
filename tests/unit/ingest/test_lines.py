"""Chunks become the same lines wherever they are cut, in bounded memory."""

from __future__ import annotations

import pytest

from epicenter.ingest.collect.lines import LineCutter

HEAD = b"2026-03-02T09:00:05Z stdout"


def cut(text: bytes, chunk_bytes: int, longest_bytes: int = 100) -> list[tuple[int, bytes]]:
    cutter = LineCutter(longest_bytes)
    chunks = [text[start : start + chunk_bytes] for start in range(0, len(text), chunk_bytes)]
    found = [*(cutter.cut(chunk) for chunk in chunks), cutter.end()]
    return [pair for lines in found for pair in zip(*lines, strict=True)]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"a\nb\n", [(1, b"a"), (2, b"b")], id="lines"),
        pytest.param(b"a\r\nb\r\r\n\r\n", [(1, b"a"), (2, b"b\r"), (3, b"")], id="crlf"),
        pytest.param(b"a\nb", [(1, b"a"), (2, b"b")], id="cut-last-line"),
        pytest.param(b"a\nb\r", [(1, b"a"), (2, b"b")], id="cut-between-cr-and-lf"),
        pytest.param(b"\0\xff\n\xc3", [(1, b"\0\xff"), (2, b"\xc3")], id="no-text"),
        pytest.param(HEAD + b" P a\n" + HEAD + b" F b\nc\n", [(1, HEAD + b" F ab"), (3, b"c")], id="cri"),
        pytest.param(HEAD + b" P a\nc\n", [(2, b"c"), (1, HEAD + b" P a")], id="cri-without-end"),
    ],
)
def test_chunks_become_the_same_lines_wherever_they_are_cut(
    text: bytes, chunk_bytes: int, expected: list[tuple[int, bytes]]
) -> None:
    assert cut(text, chunk_bytes) == expected


def test_a_giant_line_is_cut_and_counts_as_one() -> None:
    found = cut(b"a\n" + b"x" * 1000 + b"\nb\n", chunk_bytes=60)
    assert [(number, line[:1]) for number, line in found] == [(1, b"a"), (2, b"x"), (3, b"b")]
    assert 100 < len(found[1][1]) <= 160


def test_a_giant_line_without_end_is_cut_in_bounded_memory() -> None:
    assert [number for number, _ in cut(b"x" * 1000, chunk_bytes=60)] == [1]
