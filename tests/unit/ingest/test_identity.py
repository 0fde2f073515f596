"""The identity of the writer of an envelope, and how many are remembered."""

from __future__ import annotations

import pytest

from epicenter.ingest.parse import identity
from epicenter.ingest.parse.identity import MAX_WRITER_BYTES, MAX_WRITERS, identity_of


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_identity_by_fields", {})


def test_identity_of_a_known_writer_is_the_same_object() -> None:
    fields = {"host": "n1", "rank": "3", "message": "one"}
    assert identity_of(fields) is identity_of(fields | {"message": "two"})
    assert identity_of(fields) is not identity_of(fields | {"host": "n2"})


def test_identity_of_long_fields_is_read_each_time() -> None:
    fields = {"host": "n1", "kubernetes": {"annotations": {"notes": "x" * MAX_WRITER_BYTES}, "pod_name": "p"}}
    assert (identity_of(fields).node, identity_of(fields).is_in_pod) == ("n1", True)
    assert identity._identity_by_fields == {}


def test_identities_are_forgotten_beyond_the_limit() -> None:
    for number in range(MAX_WRITERS + 1):
        identity_of({"host": f"n{number}"})
    assert len(identity._identity_by_fields) == 1
