"""Parts of long container lines are joined again."""

from __future__ import annotations

import pytest

from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.cri import CriJoiner, NumberedLine


def part(stream: str, tag: str, content: str, second: int = 5) -> bytes:
    return f"2026-03-02T09:00:0{second}.000000001Z {stream} {tag} {content}".encode()


def joined(*lines: bytes, longest_bytes: int = 1000) -> tuple[list[NumberedLine], list[NumberedLine]]:
    joiner = CriJoiner(longest_bytes)
    return joiner.join(enumerate(lines, 1)), joiner.rest()


OUT, ERR = "stdout", "stderr"


@pytest.mark.parametrize(
    ("lines", "whole", "rest"),
    [
        pytest.param([part(OUT, "F", "a")], [(1, part(OUT, "F", "a"))], [], id="a-full-line"),
        pytest.param(
            [part(OUT, "P", "a"), part(OUT, "P", "b", 6), part(OUT, "F", "c", 7)],
            [(1, part(OUT, "F", "abc"))],
            [],
            id="parts",
        ),
        pytest.param(
            [part(OUT, "P", "a"), part(ERR, "P", "x"), part(OUT, "F", "b"), part(ERR, "F", "y")],
            [(1, part(OUT, "F", "ab")), (2, part(ERR, "F", "xy"))],
            [],
            id="streams-between-each-other",
        ),
        pytest.param(
            [part(OUT, "P", "a"), part(ERR, "F", "x"), part(OUT, "F", "b")],
            [(2, part(ERR, "F", "x")), (1, part(OUT, "F", "ab"))],
            [],
            id="in-the-order-of-their-ends",
        ),
        pytest.param(
            [part(OUT, "P", "a"), b"not CRI", part(OUT, "F", "")],
            [(2, b"not CRI"), (1, part(OUT, "F", "a"))],
            [],
            id="other-lines",
        ),
        pytest.param(
            [part(OUT, "P", "  a "), part(OUT, "F", " b")], [(1, part(OUT, "F", "  a  b"))], [], id="blanks-count"
        ),
        pytest.param([part(OUT, "P:x", "a"), part(OUT, "F:x", "b")], [(1, part(OUT, "F:x", "ab"))], [], id="more-tags"),
        pytest.param(
            [part(OUT, "P", "a"), part(ERR, "P", "b"), part(OUT, "P", "c")],
            [],
            [(1, part(OUT, "P", "ac")), (2, part(ERR, "P", "b"))],
            id="cut-off",
        ),
    ],
)
def test_partial_lines_are_joined_by_stream(
    lines: list[bytes], whole: list[NumberedLine], rest: list[NumberedLine]
) -> None:
    assert joined(*lines) == (whole, rest)


def test_parts_wait_across_calls() -> None:
    joiner = CriJoiner()
    assert joiner.join([(1, part(OUT, "P", "a"))]) == []
    assert joiner.has_work(TextLines(b"anything\n"))
    assert joiner.join([(2, part(OUT, "F", "b"))]) == [(1, part(OUT, "F", "ab"))]
    assert not joiner.has_work(TextLines(part(OUT, "F", "c") + b"\n"))
    assert joiner.has_work(TextLines(part(ERR, "P", "c") + b"\n"))


def test_a_line_without_end_is_read_in_pieces_without_loss() -> None:
    parts = [part(OUT, "P", str(number) * 100) for number in range(10)]
    whole, rest = joined(*parts, part(OUT, "F", "end"), longest_bytes=400)
    assert rest == []
    assert [number for number, _ in whole] == [1, 4, 7, 10]
    assert all(len(line) <= 400 for _, line in whole)
    contents = b"".join(line.split(b" ", 3)[3] for _, line in whole)
    assert contents == b"".join(str(number).encode() * 100 for number in range(10)) + b"end"
