"""When a correlator's next snapshot is due."""

from __future__ import annotations

from time import monotonic

import pytest

from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.services.correlator import Owned
from epicenter.stream.services.partition import PartitionCorrelator
from tests.support.logs import the_rules


@pytest.mark.parametrize(
    ("snapshot_ago_s", "has_changes", "took_s", "due"),
    [
        pytest.param(4, True, 0.1, False, id="too soon"),
        pytest.param(6, True, 0.1, True, id="something came"),
        pytest.param(6, False, 0.1, False, id="only time passed"),
        pytest.param(61, False, 0.1, True, id="only time passed, for a minute"),
        pytest.param(9, True, 1.0, False, id="the last one took a second, so each ten seconds"),
        pytest.param(11, True, 1.0, True, id="ten seconds after"),
    ],
)
def test_a_snapshot_is_due_when(snapshot_ago_s: float, has_changes: bool, took_s: float, due: bool) -> None:
    correlator = PartitionCorrelator(the_rules(), NS_PER_S)
    correlator.begin_at(8)
    owned = Owned(correlator, "", 6, monotonic() - snapshot_ago_s, took_s, has_changes)
    assert owned.is_due(every_s=5) is due
    owned.snapshot_offset = correlator.offset
    assert not owned.is_due(every_s=5)


def test_first_snapshot_is_due_at_once() -> None:
    correlator = PartitionCorrelator(the_rules(), NS_PER_S)
    owned = Owned(correlator, "", correlator.offset)
    correlator.begin_at(8)
    assert owned.is_due(every_s=5)
