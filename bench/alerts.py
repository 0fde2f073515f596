"""What alert decisions cost, on one core, without HTTP and without a journal on disk: `make bench-alerts`.

A storm: one incident that 16,384 ranks make larger, a revision each. Many: thousands of open incidents, each a separate
group at two targets, then one tick of the clock, as every half second. Seconds are CPU seconds.
"""

from __future__ import annotations

import os
from time import process_time

from epicenter.rules.model.times import NS_PER_S
from tests.support.planning import PlannerHarness, incident, routing

RANKS = int(os.environ.get("BENCH_RANKS", 16_384))
OPEN = (100, 1_000, 5_000)
TWO_TARGETS = {"targets": ["chat", "pager"], "escalate": [{"after": "15m", "targets": "boss"}]}
INHIBIT = [{"source": {"severity": "critical"}, "target": {"severity": "warning"}, "equal": ["node"]}]


def main() -> None:
    """Print a line for the storm, and one for each number of open incidents."""
    harness = PlannerHarness(routing())
    began_s = process_time()
    storm(harness, RANKS)
    spent_s = process_time() - began_s
    kinds = ", ".join(harness.kinds)
    print(f"storm: {RANKS:,} revisions in {RANKS * 0.02:.0f} s of their clock: {len(harness.sent)} messages ({kinds})")
    print(f"       {spent_s / RANKS * 1e6:,.0f} µs a revision")
    for number in OPEN:
        print(f"{number:>6,} open: {_tick_ms(number):8.1f} ms a tick, {_state_bytes(number):,} bytes in the journal")


def _tick_ms(number: int) -> float:
    harness = with_open(number)
    began_s = process_time()
    for _ in range(5):
        harness.planner.advance(harness.context())
        harness.now_ns += NS_PER_S // 2
    return (process_time() - began_s) / 5 * 1e3


def _state_bytes(number: int) -> int:
    return sum(map(len, with_open(number).records.values()))


def storm(harness: PlannerHarness, ranks: int) -> None:
    """One incident that each rank makes larger."""
    for rank in range(ranks):
        harness.process(incident(nodes=1 + rank // 8, signal_count=1 + rank), after_s=0.02)


def with_open(count: int) -> PlannerHarness:
    """The state with so many open incidents."""
    harness = PlannerHarness(routing(route=TWO_TARGETS, inhibit=INHIBIT))
    for number in range(count):
        harness.observe(incident(f"i{number:05}", severity="warning" if number % 2 else "critical"))
    return harness.wait(1)


if __name__ == "__main__":
    main()
