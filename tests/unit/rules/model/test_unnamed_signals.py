"""Which signals are of lines that no rule names, and what incidents make of them."""

from __future__ import annotations

import pytest

from epicenter.rules.model.signals import is_unnamed, without_suggestion
from tests.support.signals import a_signal


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("unnamed.failure_1a2b3c4d", "unnamed-failure"),
        ("unnamed.failure", "unnamed-failure"),
        ("site.chat", "disk-full"),
    ],
    ids=["a-suggestion", "no-suggestion", "a-site-s-rule-with-a-field-of-that-name"],
)
def test_incidents_rest_on_no_suggestion(rule: str, expected: str) -> None:
    signal = a_signal("disk-full", 0, rule=rule, fields={"template": "no space for chat"})
    assert without_suggestion(signal).failure_class == expected
    assert is_unnamed(signal) is (expected == "unnamed-failure")
