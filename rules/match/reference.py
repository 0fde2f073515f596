"""Candidates by one `re` search per record and pattern: the reference that Hyperscan is tested against."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epicenter.rules.match.compiled import prefilter
from epicenter.rules.match.hyperscan import Hit


class ReferenceScanner:
    """The same candidates as `HyperscanScanner`, except matches across two records."""

    def __init__(self, patterns: Sequence[str]):
        self._patterns = [re.compile(prefilter(pattern.encode())) for pattern in patterns]

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """Candidates in order, each once."""
        return [
            (record, number)
            for record, value in enumerate(values)
            for number, pattern in enumerate(self._patterns)
            if pattern.search(value)
        ]
