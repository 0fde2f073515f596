"""Whatever the bytes: nothing crashes, every record counts once, and Hyperscan finds what plain `re` finds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from bench.fuzz_checks import ids_and_stated_times
from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.clean import clean
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import Parsed, parse, parse_pieces
from epicenter.ingest.parse.pieces import pieces_of
from epicenter.ingest.parse.prefix import peel
from epicenter.ingest.parse.prefix_patterns import SHAPES
from epicenter.ingest.parse.times import time_at_head, time_from_field
from epicenter.rules.errors import RecordError
from epicenter.rules.match.compiled import prefilter
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.match.reference import ReferenceScanner
from epicenter.rules.model.records import Match, RawRecord
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.packs.precedence import LineHit, first_outside, reports_failure, without_needless_fallbacks
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.prefilter import MARKS, scanner_of
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import (
    LATER_NS,
    a_scanner,
    batch,
    fluent_bit,
    journald,
    python_json,
    record,
    the_rules,
    vector,
)

EXAMPLES = [rule.spec.examples for rule in the_rules().rules if rule.spec.examples]
LINES = sorted({line for examples in EXAMPLES for line in (*examples.matches, *examples.near_misses)})
PREFIXES = (
    "",
    "",
    "[rank3]: ",
    " 7: ",
    "[default0]:",
    "(raylet) ",
    "[1,3]<stderr>:",
    "node07: (W pid=4, ip=10.1.0.9) ",
    "4,12,99,-;",
    " 45%|####5     | 9/20 [00:12<00:14, 1.31s/it]",
    "usb 1-1: new[   12.000001] ",
    "2026-03-02T09:00:01.5+00:00 n1 kernel: [   12.000001] ",
)
PIECES = (
    "\x1b[31m",
    "\x1b[0m",
    "#033[1m",
    '"',
    "\\",
    "/",
    "\\/",
    "\n",
    "\t",
    "é",
    "火",
    "\x00",
    "\r",
    "[   12.000002] ",
    "[rank5]: ",
    "\u2028",
    "\x7f",
    " ",
    "^",
)
A_BLOCK_OPENS = (
    b"2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons"
)
RAW_PIECES = (b"\xff", b"\xc3", b"\xf0\x9f", b"\r", b"\n", b'{"', b"}", b"\\")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A line that a rule knows or nearly knows, often with unusual characters inserted."""
    text = draw(st.sampled_from(LINES)) if draw(st.integers(0, 4)) else draw(st.text(max_size=40))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(PIECES)) + text[place:]
    return draw(st.sampled_from(PREFIXES)) + text


def slashes_escaped(value: bytes) -> bytes:
    return value.replace(b"/", b"\\/")


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """One record, plain or in some shipper's envelope."""
    text, second = draw(texts()), draw(st.integers(0, 4000))
    transport = draw(st.sampled_from(["kernel", "stdout"]))
    shape = draw(st.integers(0, 8))
    if shape == 0:
        return vector("n1", second, text, job="7")
    if shape == 1:
        return slashes_escaped(vector("n1", second, text))
    if shape == 2:
        return fluent_bit("n2", second, text, job="9")
    if shape == 3:
        return journald("n3", second, text, transport)
    if shape == 4:
        return python_json("n4", second, text)
    if shape == 5:
        return orjson.dumps({"kernel": text, "message": draw(st.sampled_from(["quiet", None, 17, [7], []]))})
    raw = text.encode("utf-8", "surrogatepass")
    if shape == 6:
        place = draw(st.integers(0, len(raw)))
        return raw[:place] + draw(st.sampled_from(RAW_PIECES)) + raw[place:]
    if shape == 7:
        return vector("n1", second, text)[: -draw(st.integers(1, 30))]
    return raw


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Some records; one may be cut in two, so that a match crosses the border."""
    found = draw(st.lists(values(), max_size=8))
    if found and draw(st.booleans()):
        number = draw(st.integers(0, len(found) - 1))
        place = draw(st.integers(0, len(found[number])))
        found[number : number + 1] = [found[number][:place], found[number][place:]]
    return batch(found, live=draw(st.booleans()))


@cache
def reference() -> ReferenceScanner:
    return ReferenceScanner(the_rules().expressions)


def matched_rules(scanned: ScanResult) -> set[tuple[int, str]]:
    return {(match.event.position.offset, match.rule) for match in scanned.matches}


def is_sought(pattern: bytes, raw: RawRecord, body: bytes) -> bool:
    """Whether the line has what the pattern states that it is searched for by, perhaps outside of the message."""
    return b"(?#sought:" not in pattern or any(re.search(prefilter(pattern), text) for text in (raw.value, body))


def fitting(parsed: Parsed, raw: RawRecord) -> dict[str, LineHit | None]:
    """The hits on a line by rule id; None for a rule that fits harmless text only."""
    body = parsed.body.encode("utf-8", "surrogatepass")
    of_source = [rule for rule in the_rules().rules if rule.applies_to(parsed.event.source)]
    rules = [rule for rule in of_source if not rule.disclaims(body)]
    places = {
        rule: [
            place
            for written, pattern in zip(rule.spec.patterns, rule.patterns, strict=True)
            if is_sought(written.encode(), raw, body)
            for place in pattern.finditer(body)
        ]
        for rule in rules
    }
    noise = [place.span() for rule in rules if rule.spec.role == "harmless" for place in places[rule]]
    found: dict[str, LineHit | None] = {}
    for rule in (rule for rule in rules if places[rule]):
        place = first_outside(places[rule], [] if rule.spec.role == "harmless" else noise)
        fields = rule.fields_in(place) if place else {}
        finer = rule.for_line(place, fields) if place else None
        if finer or not place:
            found[rule.spec.id] = LineHit(finer, fields) if finer else None
    return found


@cache
def rules_with_marks() -> RuleSet:
    """The rules of a worker on Kafka: one pass finds both."""
    return replace(the_rules(), marks=MARKS)


def plainly(given_batch: Batch) -> set[tuple[int, str]]:
    """The rules that match each record, without batches, bulk search and shortcuts."""
    found = set()
    for number in range(len(given_batch)):
        raw = given_batch.record(number)
        try:
            whole = parse(raw, "default")
        except RecordError:
            continue
        pieces = pieces_of(whole.body)
        hits_by_piece = (
            [fitting(parsed, raw) for parsed in parse_pieces(raw, "default", pieces)] if len(pieces) > 1 else []
        )
        known = set().union(*hits_by_piece)
        hits_by_piece.append({rule_id: hit for rule_id, hit in fitting(whole, raw).items() if rule_id not in known})
        remaining = [without_needless_fallbacks([hit for hit in hits.values() if hit]) for hits in hits_by_piece]
        specs = [hit.rule.spec for hits in remaining for hit in hits]
        found |= {(raw.position.offset, spec.id) for spec in specs if spec.role not in QUIET_ROLES}
    return found


def in_blocks(missed: set[tuple[int, str]], expected: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those after the first line of a block: inside it, a fallback or a second line of a class may not count."""
    blocks = [offset for offset, rule_id in expected if the_rules().by_id[rule_id].spec.block]
    return {(offset, rule_id) for offset, rule_id in missed if offset >= min(blocks, default=offset + 1)}


@cache
def a_triage_scanner() -> Scanner:
    return scanner_of(the_rules(), in_triage=True)


@given(batches())
@example(
    batch([b'{"message":"x', b"Traceback (most recent call last):", b"", b"Traceback (most recent", b" call last):"])
)
@example(batch([journald("n", 1, "\x1b[1mNVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus.")]))
@example(batch([b"\x1b[31mOut of memory: \x1b[0mKilled process 4"]))
@example(batch([b"#033[31mOut of memory: #033[0mKilled process 4"]))
@example(batch([b"50%\rTraceback (most recent call last):"]))
@example(batch([b"\0Out of mem\0ory: Killed process 4"]))
@example(batch([b'{"message":null,"log":"Traceback (most recent call last):"}']))
@example(batch([A_BLOCK_OPENS, b"tar: write error: No space left on device"]))
def test_hyperscan_finds_what_re_finds_line_by_line(given_batch: Batch) -> None:
    scanned = a_scanner().scan(given_batch)
    assert scanned == BatchScanner(the_rules(), "default", reference()).scan(given_batch)
    assert scanned == BatchScanner(rules_with_marks(), "default").scan(given_batch)
    found, expected = matched_rules(scanned), plainly(given_batch)
    assert found == expected - in_blocks(expected - found, expected)


@given(batches())
@example(batch([b'{"message":"7,\\"lamp\\" oil\\nRuntimeError: the lamp went out, cannot allocate memory"}']))
def test_lines_that_may_be_pasted_keep_what_they_report_as_they_are(given_batch: Batch) -> None:
    rules, scanner = the_rules(), a_triage_scanner()
    as_written = BatchScanner(rules, "default", scanner, keep_all=True).scan(given_batch)
    pasted = BatchScanner(rules, "default", scanner, keep_all=True, may_be_pasted=True).scan(given_batch)
    specs = {(offset, name): rules.by_id[name].spec for offset, name in matched_rules(as_written)}
    reported = {found for found, spec in specs.items() if reports_failure(spec.role) and not spec.fallback}
    assert reported <= matched_rules(pasted)
    assert as_written.dead_letters == pasted.dead_letters


@given(st.lists(values(), min_size=1, max_size=12))
@example(
    [b"Traceback (most recent call last):", b"  x", b"ValueError: \x1b[31mCUDA out of memory. Tried to allocate 2"]
)
def test_a_text_in_one_piece_matches_like_its_lines(found: list[bytes]) -> None:
    lines = [line.replace(b"\n", b" ").removesuffix(b"\r") for line in found]
    apart = replace(batch(lines), is_text=True)
    whole = replace(apart, values=TextLines(b"".join(line + b"\n" for line in lines)))
    assert a_scanner().scan(whole) == a_scanner().scan(apart)


def test_the_lines_of_these_properties_match() -> None:
    whole = batch([line.encode() for line in LINES])
    assert len(matched_rules(a_scanner().scan(whole))) > len(LINES) / 2


@given(st.lists(values() | st.binary(max_size=200), max_size=12), st.booleans())
def test_every_record_is_counted_once(found: list[bytes], live: bool) -> None:
    scanned = a_scanner().scan(batch(found, live=live))
    positions = {match.event.position for match in scanned.matches}
    assert scanned.records == len(found) == scanned.matched + scanned.quiet + scanned.dead
    assert scanned.quiet >= 0
    assert scanned.dead == len({dead_letter.position for dead_letter in scanned.dead_letters})
    assert not positions & {dead_letter.position for dead_letter in scanned.dead_letters}


@given(st.lists(values(), min_size=1, max_size=12), st.booleans(), st.data())
def test_batch_borders_change_no_match_and_no_dead_letter(found: list[bytes], live: bool, data: st.DataObject) -> None:
    whole = a_scanner().scan(batch(found, live=live))
    matches: list[Match] = []
    dead_letters = []
    done, batches = 0, list[Batch]()
    while done < len(found):
        size = data.draw(st.integers(1, len(found)))
        batches.append(batch(found[done : done + size], first=done + 1, live=live))
        done += size
    for piece in BlockBuffer(a_scanner()).scan_all(batches):
        matches += piece.matches
        dead_letters += piece.dead_letters
    assert ids_and_stated_times(matches) == ids_and_stated_times(whole.matches)
    assert live or matches == whole.matches
    assert dead_letters == whole.dead_letters


FIELD_NAMES = st.sampled_from(
    [
        "message",
        "log",
        "msg",
        "MESSAGE",
        "body",
        "timestamp",
        "@timestamp",
        "time",
        "date",
        "ts",
        "host",
        "node",
        "kubernetes",
        "resource.host.name",
        "job",
        "rank",
        "task",
        "source",
        "source_type",
        "tag",
        "_TRANSPORT",
        "__REALTIME_TIMESTAMP",
        "cluster",
        "priority",
        "sequence",
        "sec",
        "usec",
        "labels",
        "pod_labels",
    ]
)
LEAVES = st.none() | st.booleans() | st.floats() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | texts()
CONTENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=4)
)


@given(st.dictionaries(FIELD_NAMES, CONTENTS, max_size=6), st.integers(-(2**63), 2**63))
@example({"time": 1e-7, "message": "x"}, LATER_NS)
@example({"message": "Mar  2 09:00:00 host x"}, 10**20)
@example({"message": "E0302 09:00:00.000001 x"}, -(10**20))
def test_no_envelope_crashes_the_parser(fields: dict[str, object], received_ns: int) -> None:
    value = json.dumps(fields).encode("utf-8", "surrogatepass")
    try:
        parsed = parse(record(value, key=b"\xff", received_ns=received_ns), "default")
    except RecordError as error:
        assert "should be text" in str(error)
        return
    assert parsed.event.position == record(value).position


HEADS = st.sampled_from(
    [
        "2026-03-02T09:00:00",
        "Feb 30 25:61:61 ",
        "[Mon Mar  2 09:00:00 2026] ",
        "E1399 99:99:99.999999 ",
        "<6>",
        "[W1302 ",
        "13/32/2026 25:61:61",
        "ERROR 13-32 25:61:61 ",
        "1772442005.123456 ",
        "[prterun-x@1,7]<stderr>: ",
        '<3>1 - n1 kernel - - [x y="',
        "(a pid=4, ip=",
        "[rank99999999]: ",
        "6.8,4,1,2,-;",
    ]
)


@given(st.text(max_size=60) | st.tuples(HEADS, st.text(max_size=30)).map("".join), st.integers(-(2**63), 2**65))
def test_no_text_crashes_prefixes_and_times(text: str, received_ns: int) -> None:
    assert peel(text).body in clean(text)
    assert "".join(pieces_of(text)) in text or len(pieces_of(text)) > 1
    assert isinstance(time_at_head(text, received_ns), int | None)
    assert isinstance(time_from_field(text), int | None)


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_scan(value: bytes) -> None:
    assert a_scanner().scan(batch([value, value])).records == 2


@given(st.data())
def test_the_quick_check_finds_every_line_that_begins_with_a_prefix(data: st.DataObject) -> None:
    shapes = data.draw(st.sampled_from([*SHAPES.values()]))
    shape = data.draw(st.sampled_from(shapes.each))
    line = data.draw(st.from_regex(shape))
    assert shapes.any_of.match(line) or not shape.match(line)
