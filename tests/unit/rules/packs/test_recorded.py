"""What is stored of a rule's lines besides the match."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epicenter.rules.detect.inputs import observed
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.packs.recorded import Recorded
from epicenter.sinks.clickhouse.rows import capacity_rows, gaps_in, measurement_rows
from tests.support.logs import a_scanner, batch, the_rules, vector


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "leave `recorded_as` out"),
        ({"capacity": "lost"}, "Input should be"),
        ({"gap": "hole"}, "Input should be"),
        ({"numbers": {"celsius": {"name": "GPU Celsius"}}}, "pattern"),
        ({"numbers": {"celsius": {"name": "gpu_celsius", "times": 0}}}, "greater than 0"),
        ({"counts": "submitted"}, "unknown key: write capacity"),
    ],
)
def test_fields_that_can_not_be_stored_are_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        Recorded.model_validate(given)


def test_quiet_lines_with_recorded_fields_are_observed() -> None:
    rules = the_rules()
    recorded = {rule.spec.id for rule in rules.all_rules if rule.spec.recorded_as and rule.spec.role in QUIET_ROLES}
    assert {"capacity.submitted", "gpu.temperature_sample", "kernel.messages_dropped"} <= recorded <= observed(rules)


def rows_of(text: str) -> tuple[list[Any], list[Any], list[Any]]:
    """What is stored of a line: capacity, measurements, gaps."""
    rules, scanned = the_rules(), a_scanner().scan(batch([vector("n1", 1, text, "A")]))
    found = [(match, rules.spec_of(match)) for match in (*scanned.matches, *scanned.observed)]
    return list(zip(*capacity_rows(found).columns, strict=True)), _rows(measurement_rows(found)), gaps_in(found)


def _rows(rows: Any) -> list[Any]:
    return list(zip(*rows.columns, strict=True))


def test_numbers_are_stored_in_the_unit_of_their_name() -> None:
    text = (
        "[Rank 3] (after 10 iterations) memory (MB) | allocated: 41200.5 | max allocated: 61230.2 | reserved: 64512.0"
    )
    capacity, measured, gaps = rows_of(text)
    assert (capacity, gaps) == ([], [])
    assert [(row[1], row[4], row[7], row[8]) for row in measured] == [
        ("gpu_memory_reserved_bytes", 3, 64512.0 * 2**20, 64512.0 * 2**20),
        ("gpu_memory_used_bytes", 3, 41200.5 * 2**20, 41200.5 * 2**20),
    ]


def test_a_line_about_the_queue_has_its_job_and_their_number() -> None:
    ((_, _, kind, _, _, _, _, count, rule, _),), _, _ = rows_of(
        "gpu*         up   infinite      4   idle gpu-a-[01-04]"
    )
    assert (kind, count, rule) == ("idle", 4, "capacity.idle_nodes")


def test_dropped_lines_of_a_logger_are_a_gap() -> None:
    _, _, (gap,) = rows_of("** 412 printk messages dropped **")
    assert (gap.kind, gap.records, gap.node, gap.begins_ns == gap.ends_ns) == ("overwritten", 412, "n1", True)
