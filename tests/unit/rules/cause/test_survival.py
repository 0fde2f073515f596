"""What a job trained on after did not stop it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from epicenter.rules.cause.survival import is_survived
from epicenter.rules.model.records import Position
from epicenter.rules.model.training_span import NOT_TRAINED, TrainingSpan
from tests.support.logs import at
from tests.support.signals import a_signal

AGAIN = TrainingSpan(since_ns=at(600), until_ns=at(900), earlier_ns=at(300))
BRIEFLY = TrainingSpan(since_ns=at(600), until_ns=at(660), earlier_ns=at(300))
FIRST = TrainingSpan(since_ns=0, until_ns=at(900))


@pytest.mark.parametrize(
    ("severity", "second", "span", "expected"),
    [
        pytest.param("error", 700, AGAIN, True, id="error-while-it-trained"),
        pytest.param("error", 500, AGAIN, False, id="error-before-it-trained-again"),
        pytest.param("warning", 500, AGAIN, True, id="warning-as-it-started-again"),
        pytest.param("warning", 200, AGAIN, False, id="warning-of-the-attempt-before"),
        pytest.param("error", 200, FIRST, True, id="error-as-it-started-first"),
        pytest.param("warning", 895, AGAIN, False, id="warning-just-before-its-last-step"),
        pytest.param("warning", 500, NOT_TRAINED, False, id="it-never-trained"),
    ],
)
def test_what_comes_before_further_steps_of_its_attempt_is_survived(
    severity: str, second: int, span: TrainingSpan, expected: bool
) -> None:
    signal = a_signal("nccl-net-ib-error", second, "n1", "A", severity=severity)
    assert is_survived(replace(signal, position=Position("n1.log", 1)), [span]) is expected


@pytest.mark.parametrize(
    ("severity", "second", "span", "expected"),
    [
        pytest.param("error", 500, AGAIN, True, id="error"),
        pytest.param("error", 500, BRIEFLY, False, id="error-before-a-minute-of-training"),
        pytest.param("warning", 200, AGAIN, True, id="warning"),
        pytest.param("warning", 200, BRIEFLY, False, id="warning-before-a-minute-of-training"),
    ],
)
def test_minutes_of_training_of_the_next_attempt_rule_out_what_is_older_than_a_failure(
    severity: str, second: int, span: TrainingSpan, expected: bool
) -> None:
    signal = a_signal("nccl-net-ib-error", second, "n1", "A", severity=severity)
    assert is_survived(replace(signal, position=Position("n1.log", 1)), [span], counts_next=True) is expected
