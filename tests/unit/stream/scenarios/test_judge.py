"""Expected incidents compared with found ones: each difference is described."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.stream.scenarios.judge import first_change, shortfalls
from epicenter.stream.scenarios.spec import ExpectedIncident
from tests.support.logs import the_rules
from tests.support.signals import a_timeout, alive, an_xid


@cache
def found() -> Incident:
    engine = Engine(the_rules())
    time_outs = [a_timeout(611 + rank, f"n{rank}", "A", rank) for rank in (1, 2, 3)]
    engine.add([an_xid(79, 10, "n3"), *time_outs], [alive(1, "A", "n3")])
    (document,) = engine.flush()
    return document


def differences(**expected: Any) -> list[str]:
    return shortfalls([ExpectedIncident.model_validate(expected)], [found()])


TRUE: dict[str, Any] = {
    "class": "xid-79",
    "node": "n3",
    "gpu": "0000:9a:00",
    "jobs": ["A"],
    "nodes": ["n3", "n1..n2"],
    "status": "open",
    "severity": "critical",
    "attempts": 1,
    "chain": ["xid-79", "nccl-timeout"],
    "confidence": 0.5,
}


def test_equal_fields_are_no_difference() -> None:
    assert differences(**TRUE) == []


@pytest.mark.parametrize("field", TRUE)
def test_a_field_left_out_may_have_any_value(field: str) -> None:
    assert differences(**{name: content for name, content in TRUE.items() if name != field}) == []


WRONG: list[tuple[str, Any, str]] = [
    ("class", "hang", "class: expected hang, found xid-79"),
    ("node", "n1", "node: expected n1, found n3"),
    ("rank", 7, "rank: expected 7, found none"),
    ("gpu", "0000:18:00", "gpu: expected 0000:18:00, found 0000:9a:00"),
    ("jobs", ["A", "B"], "jobs: expected [A, B], found [A]"),
    ("nodes", "n3", "nodes: expected [n3], found [n1, n2, n3]"),
    ("status", "resolved", "status: expected resolved, found open"),
    ("severity", "error", "severity: expected error, found critical"),
    ("verdict", "no-such", "verdict: expected no-such, found hung"),
    ("attempts", 2, "attempts: expected 2, found 1"),
    ("recurs_on", "n3", "recurs_on: expected [n3], found []"),
    ("chain", ["nccl-timeout", "xid-79"], "chain: expected nccl-timeout -> xid-79, found xid-79 -> nccl-timeout"),
    ("chain", ["hang"], "chain: expected hang, found xid-79 -> nccl-timeout"),
    ("confidence", 1, "confidence: expected at least 1.0, found "),
]


@pytest.mark.parametrize(("field", "content", "message"), WRONG)
def test_every_difference_is_reported(field: str, content: Any, message: str) -> None:
    (difference,) = differences(**{field: content})
    assert difference.startswith(f"incident 1: {message}")


def test_missing_and_unexpected_incidents_are_reported() -> None:
    expected = [
        ExpectedIncident.model_validate(document)
        for document in ({"class": "xid-79"}, {"class": "hang", "jobs": ["B"]})
    ]
    assert shortfalls(expected, [found()]) == ["missing: class hang, jobs [B]"]
    (shortfall,) = shortfalls([], [found()])
    assert shortfall.startswith("not expected: xid-79 on n3, jobs [A], open (")


def test_incidents_pair_with_the_expectation_that_fits_best() -> None:
    other = msgspec.structs.replace(found(), incident_id="0", jobs=("B",))
    expected = [ExpectedIncident.model_validate({"class": "xid-79", "jobs": [job]}) for job in "AB"]
    assert shortfalls(expected, [other, found()]) == []
    assert shortfalls(expected[::-1], [other, found()]) == []


def test_merged_incidents_do_not_count() -> None:
    assert shortfalls([], [msgspec.structs.replace(found(), merged_into="0")]) == []


def test_the_first_change_between_two_runs_is_reported() -> None:
    changed = msgspec.structs.replace(found(), nodes=("n1", "n9", "n3"))
    name = f"incident {found().incident_id}"
    assert first_change([[found()]], [[found()]]) == ""
    assert first_change([[], [found()]], [[], [changed]]) == f"at the end of step 2, {name}: nodes.1: 'n2' became 'n9'"
    assert first_change([[found()]], [[]]).startswith(f"at the end of step 1, {name} is gone: xid-79 on n3")
    assert first_change([[]], [[found()]]).startswith(f"at the end of step 1, {name} is new: xid-79 on n3")
