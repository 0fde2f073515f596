"""Notification decisions by target: folding loses none."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from epicenter.sinks.page.notified import decisions_by_target, in_time_order

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
).map(lambda deliveries: sorted(deliveries, key=itemgetter("decided_ns")))


@given(DECISIONS)
def test_folding_keeps_every_decision_and_its_order(deliveries: list[dict[str, Any]]) -> None:
    targets = decisions_by_target(deliveries)
    assert [target.newest.target for target in targets] == sorted({delivery["target"] for delivery in deliveries})
    counted = Counter({(target.newest.target, name): count for target in targets for name, count in target.counts})
    assert counted == Counter((delivery["target"], delivery["outcome"]) for delivery in deliveries)
    for target in targets:
        times = [time for decision in target.decisions for time in (decision.first_ns, decision.last_ns)]
        assert times == sorted(times)
        runs = [(decision.kind, decision.outcome, decision.reason) for decision in target.decisions]
        assert not [pair for pair in pairwise(runs) if pair[0] == pair[1]]
    assert sum(decision.count for decision in in_time_order(targets)) == len(deliveries)
