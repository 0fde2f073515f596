"""When aiokafka's internals change, records are read through its public interface, with a warning."""

from __future__ import annotations

import aiokafka.consumer.fetcher as inside
import pytest

from epicenter.stream.kafka.raw_batches import fits_inside


class OtherRecords:
    """As in a possible later aiokafka."""

    def __init__(self, tp: object, records: object) -> None: ...


def test_the_pinned_aiokafka_has_the_parts() -> None:
    assert fits_inside()


def test_other_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "PartitionRecords", OtherRecords)
    assert not fits_inside()


def test_a_missing_class_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(inside, "PartitionRecords")
    assert not fits_inside()


def test_a_fetcher_of_another_class_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside.Fetcher, "_proc_fetch_request", lambda fetcher: None)
    assert not fits_inside()
