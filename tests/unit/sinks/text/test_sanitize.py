"""Text made safe to show."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.sinks.text.sanitize import sanitize, sanitized_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU is lost", "NVRM: Xid (PCI:0000:3b:00): 79, GPU is lost"),
        ("Grüße 温度 🙂", "Grüße 温度 🙂"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\r\nb\0", r"a\r\nb\x00"),
        ("a\tb\u00a0c", "a b c"),
        ("abc\u202edcba\u2066\u200f", r"abc\u202edcba\u2066\u200f"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("half \udc80", r"half \udc80"),
    ],
)
def test_shows_control_characters_as_text(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_multiline_keeps_newlines_only() -> None:
    assert sanitize("a\n\r\x1b", multiline=True) == "a\n\\r\\x1b"


@given(st.text(st.characters()))
def test_no_control_character_is_left(text: str) -> None:
    shown = sanitize(text)
    assert not [character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    shown.encode("utf-8")


@given(st.text(st.characters()))
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text(st.characters(blacklist_categories=("C", "Z")) | st.just(" ")))
def test_printable_text_is_unchanged(text: str) -> None:
    assert sanitize(text) == text


def test_json_moves_no_cursor_and_means_the_same() -> None:
    line = sanitized_json({"node": "n\x9b2J\u202e\x7f🙂\U000e0041"})
    assert line == r'{"node":"n\u009b2J\u202e\u007f🙂\udb40\udc41"}'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_in_json_is_printable_and_means_the_same(text: str) -> None:
    line = sanitized_json([text])
    assert line.isprintable()
    assert json.loads(line) == [text]
