"""A jump of the loss is reported; noise, the beginning of a run and losses of another kind are not."""

from __future__ import annotations

import pytest

from epicenter.rules.triage.losses import Losses


@pytest.mark.parametrize(
    ("first_step", "losses", "jumps"),
    [
        (5000, ["2.77", "2.76", "2.80", "7.34"], [3]),
        (31218, ["2.345279E+00", "5.098124E+00", "3.492029E+00"], [1]),
        (5000, ["1.46", "13.34", "14.99", "14.41"], []),
        (5000, ["2.77", "3.90", "2.70"], []),
        (5000, ["0.31", "0.80", "0.29"], []),
        (0, ["11.0", "2.0", "9.0"], []),
        (5000, ["350.0", "900.0"], []),
        (5000, ["-0.2", "4.0"], []),
        (5000, ["2.77", "nan", "x", "2.70"], []),
    ],
    ids=[
        "spike",
        "after-one-loss",
        "another-unit-after-one-loss",
        "noise",
        "small-losses",
        "beginning-of-the-run",
        "no-cross-entropy",
        "negative",
        "no-number",
    ],
)
def test_only_sudden_rises_of_the_loss_are_jumps(first_step: int, losses: list[str], jumps: list[int]) -> None:
    seen = Losses()
    found = [number for number, loss in enumerate(losses) if seen.jumps({"loss": loss}, first_step + number)]
    assert found == jumps


def test_a_step_reported_twice_counts_once() -> None:
    seen = Losses()
    samples = [("1.46", 5000), ("1.46", 5000), ("13.34", 5010), ("13.34", 5010), ("14.99", 5020)]
    assert not any(seen.jumps({"loss": loss}, step) for loss, step in samples)


def test_a_line_without_step_or_loss_counts_for_nothing() -> None:
    seen = Losses()
    assert not seen.jumps({"loss": "2.0"}, None)
    assert not seen.jumps({}, 5000)
    assert list(seen.newest) == []
