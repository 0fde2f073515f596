"""Identifiers use the field's words (docs/glossary.md): a word that was replaced does not come back."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "deploy", "docs", "ingest", "rules", "sinks", "stream", "tests")

INSTEAD = {
    "seat": "rank placement",
    "beat": "heartbeat",
    "leg": "route target",
    "desk": "outbox",
    "outlet": "delivery log",
    "memo": "message reference",
    "trouble": "fault",
    "glance": "prefilter",
    "unfit": "invalid",
    "legible": "valid",
    "throttle": "budget",
    "inert": "sanitized",
    "handover": "evidence",
}
"""Words of names that were replaced, and what to write; a plural counts too."""

BOUND = re.compile(r"_?(MOST|LONGEST|LARGEST|LEAST|SHORTEST|KEPT|SHOWN)_")
"""How a constant began that is a bound: write MAX_ or MIN_."""

MEANT = {
    ("deploy/dev/broker.py", "throttle"): "a setting of Kafka's",
    ("ingest/simulate/faults/outside.py", "throttle"): "what a GPU does when it is hot",
    ("ingest/simulate/kernel_host.py", "throttle"): "what a CPU does when it is hot",
}
"""Where one of these words is the field's own."""


def words_of(name: str) -> set[str]:
    """The words of an identifier, in lower case and in the singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {part.lower() for part in parts} | {part.lower().removesuffix("s") for part in parts}


def replaced(file: Path) -> Iterator[str]:
    """Each identifier of a file that has a replaced word, with its place and what to write."""
    place = str(file.relative_to(ROOT))
    for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
        if token.type == tokenize.NAME and not token.string.startswith("test_"):
            if BOUND.match(token.string):
                yield f"{place}:{token.start[0]}: {token.string}: write MAX_ or MIN_"
            for word in words_of(token.string) & INSTEAD.keys():
                if (place, word) not in MEANT:
                    yield f"{place}:{token.start[0]}: {token.string}: write {INSTEAD[word]}"


def test_replaced_words_are_no_identifiers() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert [found for file in files for found in replaced(file)] == []


def test_a_replaced_word_is_found_in_a_name() -> None:
    assert words_of("_RouteLegs") & INSTEAD.keys() == {"leg"}
    assert BOUND.match("MOST_LINES")
    assert not words_of("legend_of_heartbeats") & INSTEAD.keys()
