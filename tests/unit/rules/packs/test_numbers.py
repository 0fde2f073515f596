"""Numbers of steps are read as they are written."""

from __future__ import annotations

import pytest

from tests.support.logs import the_rules


@pytest.mark.parametrize(
    ("written", "step"),
    [("3", "3"), ("32000", "32000"), ("3.2e+4", "32000"), ("1.5E3", "1500"), ("3.2e+4x", "3"), ("3.25", "3")],
)
def test_a_step_in_scientific_notation_is_the_number_that_it_means(written: str, step: str) -> None:
    rule, line = the_rules().by_id["progress.keras"], f"INFO:tensorflow:loss = 2.5, step = {written}".encode()
    found = next(found for pattern in rule.patterns if (found := pattern.search(line)))
    assert rule.fields_in(found)["step"] == step
