"""Every text that a pattern of the catalogue matches is found by its prefilter, unless it states one itself."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.rules.match.compiled import prefilter
from epicenter.rules.match.hyperscan import HyperscanScanner
from tests.support.logs import the_rules

PATTERNS = [pattern for pattern in the_rules().expressions if "(?#sought:" not in pattern]


@given(st.data())
@settings(max_examples=200)
def test_a_matching_text_is_a_candidate(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS))
    text = data.draw(st.from_regex(pattern.encode()))
    assert re.search(prefilter(pattern.encode()), text)
    assert HyperscanScanner([pattern]).scan([text]) == [(0, 0)]
