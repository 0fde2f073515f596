"""How often letters, capitals and digits change tells generated values from names, counters, dates and words."""

from __future__ import annotations

import pytest

from epicenter.rules.redact.randomness import is_mixed, is_phrase, is_random


@pytest.mark.parametrize(
    "value",
    [
        b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq81LmNo3x",
        b"3f9a7c1e5b2d8f4a6c0e9b7d5f3a1c8e6b4d2f0a",
        b"8df1d0b2-e96a-4ecf-88b3-fa96726a807f",
        b"11111111-2222-3333-4444-555555555555",
        b"TJIMJMZ87AGR40SPKJCX",
        b"tF;3Ayl{2YsE4L2>v4zQ",
        b"c0izixklcxtmnze7a9k2",
    ],
)
def test_a_generated_value_is_random(value: bytes) -> None:
    assert is_random(value) and is_mixed(value)


@pytest.mark.parametrize(
    "value",
    [
        b"rank-00012-node-0017",
        b"job_step_create_from_cred_12",
        b"system:serviceaccount:training:trainer",
        b"Qwen2.5-7B-Instruct-1M",
        b"ip-10-0-3-17.eu-west-1",
        b"2026-03-02T09:00:00Z",
        b"hf-token-7d9c8b6f5d",
        b"/var/run/secrets/kubernetes.io/serviceaccount/token",
        b"HfHubHTTPError",
        b"000000000000",
        b"",
    ],
)
def test_a_name_or_a_counter_is_not_random(value: bytes) -> None:
    assert not is_random(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"r0123456789", True), (b"Winter2026", True), (b"node-0012", False), (b"node-Blue12", True)],
)
def test_a_word_with_digits_is_mixed_and_a_name_with_a_counter_is_not(value: bytes, expected: bool) -> None:
    assert is_mixed(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"maple Raven 7 or Otter", True),
        (b"must have 12 characters", False),
        (b"Login failed for user 12", False),
        (b"maple", False),
    ],
)
def test_a_phrase_has_a_number_and_a_capital_after_its_first_word(value: bytes, expected: bool) -> None:
    assert is_phrase(value) is expected


def test_a_long_value_is_judged_in_linear_time() -> None:
    assert not is_random(b"abc-" * 100_000 + b"!")
    assert is_random(b"a1B2" * 100_000)
