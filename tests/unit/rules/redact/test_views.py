"""Colour codes and encoded quotes do not hide a secret, and only the secret goes."""

from __future__ import annotations

import pytest

from epicenter.rules.redact.load import load_redactor

REDACTOR = load_redactor()


@pytest.mark.parametrize("code", ["\x1b[33m", "\\u001b[1;33m", "\\x1b[0m", "\\033[0m", "#033[0m", "^[[0m"])
def test_colour_codes_around_and_within_a_secret_do_not_hide_it(code: str) -> None:
    text = f"{code}pass{code}word{code}={code}correct-{code}horse{code} host=db"
    found = REDACTOR.redact(text.encode())
    assert found.text.decode() == f"{code}pass{code}word{code}={code}[redacted:password]{code} host=db"
    assert found.secrets == (f"correct-{code}horse".encode(),)


@pytest.mark.parametrize(
    ("quote", "colon"),
    [
        ("%22", "%3A"),
        ("%2522", "%253A"),
        ("%22", ":"),
        ("&quot;", ":"),
        ("&#34;", ": "),
        ("\\u0022", ":"),
        ("\\x22", ":"),
    ],
)
def test_encoded_quotes_do_not_hide_a_secret(quote: str, colon: str) -> None:
    text = f"x={quote}user{quote}{colon}{quote}svc{quote},{quote}password{quote}{colon}{quote}correct-horse{quote}}}"
    expected = text.replace("correct-horse", "[redacted:password]")
    assert REDACTOR.redact(text.encode()).text.decode() == expected


def test_an_encoded_character_of_a_secret_goes_as_a_whole() -> None:
    found = REDACTOR.redact(b"cfg?d=%7B%22password%22%3A%22Sch%C3%BC%21%22%7D")
    assert found.text == b"cfg?d=%7B%22password%22%3A%22[redacted:password]%22%7D"


def test_the_mark_of_a_secret_is_no_name_of_a_value() -> None:
    text = b"root:[redacted:password-hash]:19800:0 [redacted:token]: hunter2"
    assert REDACTOR.redact(text).text == text
