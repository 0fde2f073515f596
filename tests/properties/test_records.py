"""Checks of whole columns find the same records as checks of each record."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from epicenter.ingest.batch.records import Records

HEADS = (b'{"date":1.5,"log":"', b'{"host":"n1","message":"', b'{"a":', b'{"msg":"', b"", b"plain ")
TAILS = (b'"}', b'"}\n', b'\\n"}', b'"}}', b"", b"}", b'","b":"\\"')
ESCAPES = (b"\\ud800", b"\\uDFff", b"\\u00d8", b"\\ud7ff", b"\\Ud800", b"\\u")
values = st.lists(
    st.builds(
        lambda head, text, tail: head + text + tail,
        st.sampled_from(HEADS),
        st.binary(max_size=6) | st.sampled_from(ESCAPES),
        st.sampled_from(TAILS),
    ),
    max_size=30,
)
NAMES = (b'"message"', b'"log"', b'"MESSAGE"', b'"msg"')
USUAL_TEXT = [name + colon for name in NAMES for colon in (b':"', b': "')]


def is_suspicious(value: bytes) -> bool:
    if re.search(rb"\\u[dD][89a-fA-F]", value):
        return True
    if not re.match(rb'\{["\s]', value) or value[1:2] in b"\v\f":
        return False
    return not any(mark in value for mark in USUAL_TEXT) or not value.endswith((b"}", b"}\n", b"}\r\n"))


@given(values)
@example([b"", b"{", b'{"', b'{ "', b'{ "log": "a"}'])
@example([b'{"log":"a"}', b'{"log":"'])
def test_suspicious_envelopes_are_found(given_values: list[bytes]) -> None:
    wanted = [number for number, value in enumerate(given_values) if is_suspicious(value)]
    assert Records(given_values).suspicious_envelopes() == wanted


@given(values)
@example([b"\\", b"n", b'"'])
def test_escaped_records_are_found(given_values: list[bytes]) -> None:
    wanted = [number for number, value in enumerate(given_values) if b"\\" in re.sub(rb'\\n"', b"", value)]
    assert set(wanted) <= set(Records(given_values).escaped())
    assert not {n for n, value in enumerate(given_values) if b"\\" not in value} & set(Records(given_values).escaped())


@given(values, st.integers(0, 40))
def test_empty_and_long_records_are_found(given_values: list[bytes], limit_bytes: int) -> None:
    records = Records(given_values)
    assert records.empty() == [number for number, value in enumerate(given_values) if not value]
    assert records.longer_than(limit_bytes) == [n for n, value in enumerate(given_values) if len(value) > limit_bytes]


@given(values.filter(bool), st.data())
def test_record_numbers_are_found_by_their_ends(given_values: list[bytes], data: st.DataObject) -> None:
    records = Records(given_values)
    ends = sorted(data.draw(st.lists(st.integers(1, len(records.text)), max_size=20)))
    inside = [records.text[: end - 1].count(b"\n") for end in ends]
    if not any(b"\n" in value for value in given_values):
        assert records.numbers_at(ends) == inside
    assert all(0 <= number < len(records) for number in records.numbers_at(ends))
