"""What lint lets pass is searched for in bounded time, whatever the line."""

from __future__ import annotations

from itertools import product
from time import process_time

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from epicenter.rules.match.bounded import LINE, compiled, work_fault

LINE_BYTES = 1 << 14
LIMIT_S = 20
"""Generous, for slow machines: what lint refuses takes hours."""

ITEMS = st.sampled_from([r"\w", r"\s", r"\d", r"\S", ".", "[ab]", "[^b]", "a", "b", ":", " "])
REPEATS = st.sampled_from(["", "", "", "+", "*", "?", "+?", "*?", "{1,3}", "{0,9}"])


def _groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.builds(str.__add__, inner, inner)
    either = st.builds("(?:{}|{})".format, inner, inner)
    return parts | either | st.builds("(?:{}){}".format, parts | either, REPEATS)


PATTERNS = st.recursive(st.builds(str.__add__, ITEMS, REPEATS), _groups, max_leaves=8).map("{}!".format)
PUMPS = ["".join(letters) for length in (1, 2, 3) for letters in product("ab1: ", repeat=length)]


@given(PATTERNS, st.lists(st.sampled_from(PUMPS), min_size=1, max_size=3), st.sampled_from(["", "a", ": "]))
@settings(max_examples=300, deadline=None)
def test_a_pattern_that_lint_accepts_is_fast_on_a_pumped_line(pattern: str, pumps: list[str], start: str) -> None:
    assume(not work_fault(pattern, LINE))
    share = LINE_BYTES // len(pumps)
    line = start + "".join(pump * (share // len(pump)) for pump in pumps)
    begun_s = process_time()
    compiled(pattern.encode()).search(line.encode())
    assert process_time() - begun_s < LIMIT_S
