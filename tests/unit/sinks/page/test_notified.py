"""Who was told, target by target: no decision is lost, however they are folded."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from epicenter.sinks.page.notified import in_order, told

DECISIONS = st.lists(
    st.fixed_dictionaries(
        {
            "target": st.sampled_from(["", "mail", "slack"]),
            "kind": st.sampled_from(["opened", "updated"]),
            "outcome": st.sampled_from(["sent", "waits", "silenced"]),
            "reason": st.sampled_from(["", "why"]),
            "decided_ns": st.integers(1, 50),
        }
    ),
    max_size=40,
).map(lambda some: sorted(some, key=lambda one: one["decided_ns"]))


@given(DECISIONS)
def test_every_decision_is_counted_and_none_is_out_of_order(decisions: list[dict[str, Any]]) -> None:
    folded = told(decisions)
    assert [some.newest.target for some in folded] == sorted({one["target"] for one in decisions})
    counted = Counter({(some.newest.target, name): count for some in folded for name, count in some.counts})
    assert counted == Counter((one["target"], one["outcome"]) for one in decisions)
    for some in folded:
        times = [time for one in some.decisions for time in (one.first_ns, one.last_ns)]
        assert times == sorted(times)
        looks = [(one.kind, one.outcome, one.reason) for one in some.decisions]
        assert not [pair for pair in pairwise(looks) if pair[0] == pair[1]]
    assert sum(one.count for one in in_order(folded)) == len(decisions)
