"""Fields of an incident's root cause."""

from __future__ import annotations

from msgspec import structs

from epicenter.rules.report.fields import MAX_FIELD_LENGTH, MAX_FIELDS, fields_of
from tests.support.signals import a_signal


def test_fields_have_the_names_of_the_rule() -> None:
    signal = structs.replace(
        a_signal("gloo-error", 0),
        fields={"pid": "4711", "node": "node0003", "peer": "10.0.3.7", "path": "", "may_pass": "yes"},
    )
    assert fields_of(signal) == {"pid": "4711", "peer": "10.0.3.7"}


def test_fields_are_bounded_in_number_and_length() -> None:
    fields = fields_of(
        structs.replace(a_signal("gloo-error", 0), fields={f"f{number}": "x" * 999 for number in range(99)})
    )
    assert len(fields) == MAX_FIELDS
    assert {len(text) for text in fields.values()} == {MAX_FIELD_LENGTH}
