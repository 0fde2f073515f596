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
    "ask": "query, request",
    "asked": "queries, requests",
    "blame": "suspects",
    "came": "arrived, received",
    "hear": "receive, heartbeat",
    "hearing": "operator actions",
    "keeper": "store writer",
    "loose": "unattached",
    "looked": "searched, read",
    "news": "notify reason",
    "nobody": "no person, no rank, no target",
    "odd": "unusual, suspicious",
    "said": "reported, output, operator actions",
    "say": "print, log, report",
    "saying": "operator actions",
    "somebody": "the role or the person",
    "stand": "is",
    "standing": "precedence",
    "stuck": "stalled",
    "teller": "notifier",
    "telling": "report, notify",
    "tells": "reports, notifies",
    "told": "reported, notified, messages",
    "went": "ran, passed",
}
"""Words of names that were replaced, and what to write; a plural counts too."""

NAMES = {"one": "the noun: for rule in rules"}
"""Whole names that were replaced, most of them of loop variables."""

IN_TESTS = {
    "beside": "next to, with",
    "heard": "received, reported",
    "kept": "stored, cached, retained",
    "tell": "report, name",
}
"""Words that names of tests don't use either: a name says subject, behaviour and condition."""

PHRASES = {
    r"goes?_on|went_on": "continues, resumes",
    r"of_(its|their)_own": "separate, or nothing",
    r"who_was": "the role: a target, a rank",
}
"""Phrases that names of tests don't use."""

BOUND = re.compile(r"_?(MOST|LONGEST|LARGEST|LEAST|SHORTEST|KEPT|SHOWN)_")
"""How a constant began that is a bound: write MAX_ or MIN_."""

MEANT = {
    ("deploy/dev/broker.py", "throttle"): "a setting of Kafka's",
    ("ingest/simulate/faults/outside.py", "throttle"): "what a GPU does when it is hot",
    ("ingest/simulate/kernel_host.py", "throttle"): "what a CPU does when it is hot",
    ("bench/accuracy_score.py", "one"): "a figure: a failure is one incident",
    ("tests/unit/bench/test_accuracy.py", "one"): "a figure: a failure is one incident",
    **dict.fromkeys(
        (("tests/unit/compatibility", word) for word in ("goes_on", "one", "said", "tell", "told")), "as it was"
    ),
}
"""Where one of these words is the field's own, by file or folder."""


def words_of(name: str) -> set[str]:
    """The words of an identifier, in lower case and in the singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {part.lower() for part in parts} | {part.lower().removesuffix("s") for part in parts}


def replaced(file: Path) -> Iterator[str]:
    """Each identifier of a file that has a replaced word, with its place and what to write."""
    place, folder = str(file.relative_to(ROOT)), str(file.parent.relative_to(ROOT))
    for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
        if token.type == tokenize.NAME:
            if BOUND.match(token.string):
                yield f"{place}:{token.start[0]}: {token.string}: write MAX_ or MIN_"
            for word, instead in refused(token.string):
                if (place, word) not in MEANT and (folder, word) not in MEANT:
                    yield f"{place}:{token.start[0]}: {token.string}: write {instead}"


def refused(name: str) -> Iterator[tuple[str, str]]:
    """The refused words and phrases of a name, and what to write."""
    is_test = name.startswith("test_")
    instead = INSTEAD | IN_TESTS if is_test else INSTEAD
    yield from ((word, instead[word]) for word in sorted(words_of(name) & instead.keys()))
    if name in NAMES:
        yield name, NAMES[name]
    for phrase, text in PHRASES.items() if is_test else ():
        if found := re.search(f"_({phrase})(?=_|$)", name):
            yield found[1], text


def test_replaced_words_are_no_identifiers() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert [found for file in files for found in replaced(file)] == []


def test_a_replaced_word_is_found_in_a_name() -> None:
    assert words_of("_RouteLegs") & INSTEAD.keys() == {"leg"}
    assert BOUND.match("MOST_LINES")
    assert not words_of("legend_of_heartbeats") & INSTEAD.keys()
    assert [word for word, _ in refused("one")] == ["one"]
    assert not [*refused("one_machine")]


def test_a_refused_word_or_phrase_is_found_in_the_name_of_a_test() -> None:
    assert [word for word, _ in refused("test_a_job_told_so_goes_on_with_its_leg")] == ["leg", "told", "goes_on"]
    assert [*refused("test_ongoing_jobs_who_wash"), *refused("kept_of_its_own")] == []
