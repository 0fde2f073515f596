"""What a language model may send, and what it reads of names that came from logs."""

from __future__ import annotations

import pytest

from epicenter.sinks.net.parameters import MAX_NUMBER
from epicenter.stream.mcp.answers import time_of


@pytest.mark.parametrize("text", ["9" * 400 + "d", "9" * 30 + "h", "1.2.3h", "NaN", "-5h", "1e30d", ""])
def test_a_time_that_is_none_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        time_of(text)


def test_a_time_is_one_that_the_store_holds() -> None:
    assert (time_of("0001-01-01"), time_of("9999-12-31T23:59:59+00:00")) == (0, MAX_NUMBER)
