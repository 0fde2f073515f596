"""Whatever the text: redaction never raises, is idempotent, and changes only what its patterns name."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.redaction_shapes import shapes
from epicenter.rules.redact.load import load_redactor, shipped_words
from epicenter.rules.redact.redactor import Redacted, Redactor, Secret

REDACTOR = load_redactor()
SOUGHT = shipped_words()
MAX_BYTES = 1 << 20
MAX_S_PER_MB = 40.0
"""For hostile text on a busy machine; a cost that grows faster than the text takes minutes."""

texts = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.one_of(
            st.sampled_from([word.encode() for word in SOUGHT]),
            st.sampled_from([shape.line.encode() for shape in shapes(1)]),
            st.sampled_from(
                [b"=", b": ", b'"', b"'", b"\\", b"://", b"@", b":", b"[redacted:password]", b"[redacted:"]
            ),
            st.binary(max_size=20),
            st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
        ),
        max_size=12,
    ).map(b"".join),
)


@given(texts)
@example(b"ghp_" + b"a" * 40 + b"AKIAIOSFODNN7EXAMPLE")
@example(b'password="[redacted:password]')
def test_redaction_is_idempotent(text: bytes) -> None:
    once = REDACTOR.redact(text).text
    assert REDACTOR.redact(once) == Redacted(once, (), ())


@given(texts)
def test_only_secrets_change(text: bytes) -> None:
    found = REDACTOR.redact(text)
    if "text" in found.kinds:
        return
    left = found.text
    assert (left == text) == (not found.kinds)
    if len(found.kinds) == 1:
        mark = f"[redacted:{found.kinds[0]}]".encode()
        assert text in {
            left[:at] + found.secrets[0] + left[at + len(mark) :]
            for at in range(len(left))
            if left.startswith(mark, at)
        }


@given(st.lists(texts, max_size=6))
def test_texts_are_redacted_alike_together_and_alone(many: list[bytes]) -> None:
    alone = {number: found for number, text in enumerate(many) if (found := REDACTOR.redact(text)).kinds}
    assert REDACTOR.redact_all(many) == alone


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from([shape.line for shape in shapes(2)])), max_size=5))
def test_valid_text_stays_valid(pieces: list[str]) -> None:
    REDACTOR.redact("é".join(pieces).encode("utf-8", "surrogatepass")).text.decode("utf-8", "surrogatepass")


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=3))
def test_redaction_by_any_patterns_is_idempotent(text: bytes, repeats: list[tuple[int, int]]) -> None:
    secrets = [Secret(f"k{n}", ("a", "b"), (f"[ab]{{{low},{low + more}}}b",)) for n, (low, more) in enumerate(repeats)]
    redactor = Redactor(secrets)
    once = redactor.redact(text).text
    assert redactor.redact(once).text == once


@pytest.mark.parametrize(
    ("piece", "size_bytes"),
    [
        ("password=", MAX_BYTES),
        *(
            (piece, MAX_BYTES >> 4)
            for piece in (*SOUGHT[::4], "token: --token --a-", "ops_eyJ", "://a:", "a", "-----BEGIN ")
        ),
    ],
)
def test_a_hostile_line_is_redacted_in_bounded_time(piece: str, size_bytes: int) -> None:
    text = (piece * (size_bytes // len(piece))).encode() + " ".join(SOUGHT[::7]).encode()
    begun_s = process_time()
    REDACTOR.redact(text)
    assert process_time() - begun_s < MAX_S_PER_MB * size_bytes / MAX_BYTES
