"""When aiokafka changes inside, records come by its public path, and somebody hears of it."""

from __future__ import annotations

import aiokafka.consumer.fetcher as inside
import pytest

from epicenter.stream.kafka.raw_batches import fits_inside


class OtherRecords:
    """As a later aiokafka may have it."""

    def __init__(self, tp: object, records: object) -> None: ...


def test_the_pinned_aiokafka_has_the_parts() -> None:
    assert fits_inside()


def test_other_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "PartitionRecords", OtherRecords)
    assert not fits_inside()


def test_a_class_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(inside, "PartitionRecords")
    assert not fits_inside()


def test_a_fetcher_that_makes_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside.Fetcher, "_proc_fetch_request", lambda fetcher: None)
    assert not fits_inside()
