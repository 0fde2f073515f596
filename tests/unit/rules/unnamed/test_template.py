"""The template of a line: the same for each repetition of a message, and short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.unnamed.template import MAX_TEMPLATE_CHARS, template_of


@pytest.mark.parametrize(
    ("line", "template"),
    [
        ("shaft 7 is at 12.5 of 20,000", "shaft <number> is at <number> of <number>"),
        ("read 0x7f3a19c0 from 3c:fd:fe:9e:00:12", "read <address> from <address>"),
        ("cannot open /data/shaft7/lamp.bin twice", "cannot open <path> twice"),
        ("no answer of 10.4.0.12:6379", "no answer of <host>"),
        ("job 4f1c9a2e-77d0-4b0e-9c1e-5d2f8a3b6c71 is gone", "job <id> is gone"),
        ("see https://lamps.example/7?x=1 for more", "see <url> for more"),
        ("image 9f2c41d0aa is gone", "image <hash> is gone"),
        ("mlx5_0   port 1 \t is down", "mlx<number>_<number> port <number> is down"),
        ("read/write of the lamp and/or shaft", "read/write of the lamp and/or shaft"),
    ],
)
def test_what_varies_is_masked(line: str, template: str) -> None:
    assert template_of(line) == template


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_make_no_other_template(first: int, second: int) -> None:
    assert template_of(f"ERROR shaft {first} out") == template_of(f"ERROR shaft {second} out")


@given(st.text(max_size=5000))
def test_a_template_of_any_text_is_one_short_line(line: str) -> None:
    template = template_of(line)
    assert len(template) <= MAX_TEMPLATE_CHARS
    assert not {"\n", "\r", "\t"} & set(template)
