"""What is remembered of the writers of envelopes."""

from __future__ import annotations

import pytest

from epicenter.ingest.parse import identity
from epicenter.ingest.parse.identity import MAX_WRITER_BYTES, MAX_WRITERS, told_by


@pytest.fixture(autouse=True)
def _nobody_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_told_by_fields", {})


def test_a_writer_is_remembered_and_told_the_same() -> None:
    fields = {"host": "n1", "rank": "3", "message": "one"}
    assert told_by(fields) is told_by(fields | {"message": "two"})
    assert told_by(fields) is not told_by(fields | {"host": "n2"})


def test_long_fields_are_looked_at_and_not_kept() -> None:
    fields = {"host": "n1", "kubernetes": {"annotations": {"notes": "x" * MAX_WRITER_BYTES}, "pod_name": "p"}}
    assert (told_by(fields).node, told_by(fields).is_in_pod) == ("n1", True)
    assert identity._told_by_fields == {}


def test_so_many_writers_are_remembered_and_no_more() -> None:
    for number in range(MAX_WRITERS + 1):
        told_by({"host": f"n{number}"})
    assert len(identity._told_by_fields) == 1
