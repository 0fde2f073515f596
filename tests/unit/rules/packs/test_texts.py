"""Which of many texts with holes is in a line."""

from __future__ import annotations

import pytest

from epicenter.rules.packs.texts import TextIndex, pieces_of_text

TEXTS = (
    "queue {} failed, error",
    "queue {} failed, error -110 of ring",
    "ring reset",
    "failed",
    "of ring sdma{} and",
)


def index_of(texts: tuple[str, ...]) -> TextIndex[str]:
    return TextIndex((pieces_of_text(text), text) for text in texts)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"gpu0: queue 7 failed, errors: 3", "queue {} failed, error"),
        (b"gpu0: queue 7 failed, error -110 of rings", "queue {} failed, error -110 of ring"),
        (b"gpu0: during a reset", None),
        (b"gpu0: string resets", "ring reset"),
        (b"of ring sdma0 and gfx", "of ring sdma{} and"),
        (b"and of ring sdma0", None),
        (b"it failed", "failed"),
        (b"", None),
    ],
)
def test_the_longest_text_in_the_line_is_found_also_at_parts_of_words(line: bytes, text: str | None) -> None:
    assert index_of(TEXTS).rule_in(line) == text


def test_no_text_is_found_without_texts() -> None:
    assert index_of(()).rule_in(b"queue 7 failed") is None
