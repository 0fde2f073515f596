"""The result of scanning a batch: matches, heartbeats and dead letters."""

from __future__ import annotations

import gzip
from dataclasses import replace
from time import process_time

import orjson
import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.engine import Engine
from epicenter.rules.liveness.streams import BUCKET_NS
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.match.reference import ReferenceScanner
from epicenter.rules.model.heartbeats import Step
from epicenter.rules.model.ledger import MAX_KEPT_DEAD_BYTES
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.stream.scan import batch_lines
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from epicenter.stream.scan.validation import MAX_RECORD_BYTES
from tests.support.logs import (
    LATER_NS,
    START_NS,
    a_scanner,
    at,
    batch,
    iso,
    journald,
    kernel,
    python_json,
    the_rules,
    vector,
)

TRACEBACK = "Traceback (most recent call last):"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def a_rule(name: str, *patterns: str, **more: object) -> Rule:
    spec = {"title": name, "class": name, "source": "any", "severity": "error", "role": "root", "entity": "job"}
    examples = {"matches": ["a", "b"], "near_misses": ["c"]}
    given = spec | {"id": f"test.{name}", "meaning": "m", "patterns": patterns, "examples": examples} | more
    return Rule(RuleSpec.model_validate(given))


def scanned(rules: list[Rule], values: list[bytes]) -> ScanResult:
    return BatchScanner(RuleSet(tuple(rules), ()), "default").scan(batch(values))


def fired(found: ScanResult) -> list[tuple[int, str]]:
    return [(match.event.position.offset, match.rule) for match in found.matches]


def test_both_ends_of_a_long_line_are_searched_and_the_line_is_counted() -> None:
    padding = b"." * 100_000
    values = [b"it broke" + padding, padding + b"it broke", padding + b"it broke" + padding, b"it broke"]
    found = scanned([a_rule("broke", "it broke")], values)
    assert fired(found) == [(1, "test.broke"), (2, "test.broke"), (4, "test.broke")]
    assert (found.shortened, found.quiet) == (3, 1)


def test_a_hostile_line_of_any_length_is_read_in_time() -> None:
    rule = a_rule("gap", "error .*?: failed now", extract=[r"error (?P<what>\w+).*?: (?P<why>\w+),"], unless=["no .*;"])
    begun_s = process_time()
    scanned([rule], [b"error no " * (size // 9) + b": failed now" for size in (1 << 14, 1 << 16, 1 << 20)])
    assert process_time() - begun_s < 60, "without bounds a megabyte takes hours"


def test_quiet_lines_are_counted_only() -> None:
    found = a_scanner().scan(batch([b"loading", b"still loading"]))
    assert (found.records, found.quiet, found.matched, found.dead, found.matches) == (2, 2, 0, 0, [])


def test_a_line_may_fit_several_rules_and_counts_once() -> None:
    found = scanned([a_rule("a", "went wrong"), a_rule("b", "wrong!", "^it went")], [b"it went wrong!"])
    assert fired(found) == [(1, "test.a"), (1, "test.b")]
    assert found.matched == 1


def test_harmless_wins_over_the_others() -> None:
    rules = [a_rule("a", "went wrong"), a_rule("b", "wrong again", role="harmless")]
    found = scanned(rules, [b"went wrong again", b"went wrong"])
    assert fired(found) == [(2, "test.a")]
    assert (found.harmless, found.matched) == (1, 2)


def test_a_match_across_two_records_belongs_to_neither() -> None:
    found = scanned([a_rule("a", "foo[^x]bar")], [b"foo", b"bar", b"foo bar", b"a foo\nbar"])
    assert fired(found) == [(3, "test.a"), (4, "test.a")]
    assert found.records == found.matched + found.quiet == 4


@pytest.mark.parametrize("invalid", [b"", b"oo bar " * MAX_RECORD_BYTES], ids=["empty", "too-large"])
def test_a_match_across_the_border_of_an_invalid_record_is_ignored(invalid: bytes) -> None:
    found = scanned([a_rule("a", "foo[^x]{2}", "foo bar")], [b"foo", invalid, b"foo bar"])
    assert fired(found) == [(3, "test.a")]
    assert (found.dead, found.matched, found.quiet) == (1, 1, 1)


def test_an_anchor_applies_to_its_alternative_only() -> None:
    found = scanned([a_rule("a", "^foo|bar")], [b"foo", b"a foo", b"a bar", b"12: foo"])
    assert fired(found) == [(1, "test.a"), (3, "test.a"), (4, "test.a")]


def test_of_many_bars_on_a_line_the_last_step_counts_and_no_failure_is_skipped() -> None:
    bars = "".join(f"train: {step}/900 [00:{step % 60:02d}<10:00, 1.00it/s]" for step in range(1, 61))
    rules = [a_rule("step", r"train: (?P<step>\d{1,9})/", role="progress"), a_rule("bad", "it broke")]
    scanner = BatchScanner(RuleSet(tuple(rules), ()), "default", keep_all=True)
    found = scanner.scan(batch([f"it broke train: 0/900 [00:00<?, ?it/s]{bars}".encode()]))
    assert {match.rule: match.fields.get("step") for match in found.matches} == {"test.bad": None, "test.step": "60"}


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        pytest.param("`broke`", ["test.quoted"], id="all-of-it-is-harmless"),
        pytest.param("`broke`: broke", ["test.bad", "test.quoted"], id="the-same-words-again-outside"),
        pytest.param("`broke` and `broke`", ["test.quoted"], id="harmless-twice"),
        pytest.param("`broke`: failed", ["test.bad", "test.quoted"], id="another-pattern-of-the-rule-outside"),
    ],
)
def test_harmless_text_hides_no_failure_next_to_it(line: str, fits: list[str]) -> None:
    rules = [a_rule("bad", "broke", "failed"), a_rule("quoted", "`broke`", role="harmless")]
    found = BatchScanner(RuleSet(tuple(rules), ()), "default", keep_all=True).scan(batch([line.encode()]))
    assert sorted(match.rule for match in found.matches) == fits


def test_a_pattern_for_whole_lines_ignores_prefixes() -> None:
    found = scanned([a_rule("a", "^foo$")], [b"foo", b"foo bar", b"a foo", b"12: foo", b"foo\r"])
    assert fired(found) == [(1, "test.a"), (4, "test.a"), (5, "test.a")]


@pytest.mark.parametrize("scanner", [HyperscanScanner, ReferenceScanner])
def test_an_empty_batch_has_no_result(scanner: type[HyperscanScanner] | type[ReferenceScanner]) -> None:
    assert scanner(["foo"]).scan([]) == []
    assert scanner(["foo"]).scan([b"", b""]) == []


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        pytest.param(b"", "empty", "empty value", id="empty"),
        pytest.param(
            b"x" * (MAX_RECORD_BYTES + 1), "too-large", "too large: 1048577 bytes, the limit is 1048576", id="too-large"
        ),
        pytest.param(b'{"message": null}', "wrong-shape", "field 'message' should be text, found NoneType", id="null"),
        pytest.param(b'{"message": 17}', "wrong-shape", "field 'message' should be text, found int", id="number"),
        pytest.param(
            b'{"message": null, "extra": "%s"}' % TRACEBACK.encode(),
            "wrong-shape",
            "found NoneType",
            id="null-with-a-hit",
        ),
        pytest.param(b'{"message": [300]}', "wrong-shape", "found list", id="list-that-is-no-bytes"),
        pytest.param(b'{"message":"cut off', "not-json", "not JSON", id="broken"),
        pytest.param(
            b"\0\0\0\0\x2a\x0c\x02hello\x06abc", "no-log-line", "Avro or Protobuf behind", id="schema-registry"
        ),
        pytest.param(
            b"\n\x18\n\x16\n\x12service.name\x12\x05train", "no-log-line", "no log line: Protobuf", id="otlp-proto"
        ),
        pytest.param(b"\x82\xa3log\xa5hello\xa4host\xa2n1", "no-log-line", "no log line: MessagePack", id="msgpack"),
        pytest.param(gzip.compress(b"x"), "no-log-line", "no log line: gzip", id="gzip"),
        pytest.param(
            b'{"resourceMetrics":[{"scopeMetrics":[]}]}', "no-log-line", "metrics of OpenTelemetry", id="otlp-metrics"
        ),
        pytest.param(b'{"resourceSpans":[]}', "no-log-line", "traces of OpenTelemetry", id="otlp-traces"),
        pytest.param(b'{"resourceLogs":[]}', "no-log-line", "send one record for each line", id="otlp-logs"),
        pytest.param(b'{"before":null,"after":{"id":1},"op":"c","ts_ms":1}', "no-log-line", "Debezium", id="debezium"),
        pytest.param(
            b'{"schema":{"type":"struct"},"payload":{"op":"c"}}', "no-log-line", "Debezium", id="debezium-with-schema"
        ),
        pytest.param(
            b'{"specversion":"1.0","type":"t","source":"/s","id":"1"}', "no-log-line", "CloudEvents", id="cloudevents"
        ),
        pytest.param(
            b'{"name":"n","kind":"absolute","gauge":{"value":1}}',
            "no-log-line",
            "a metric of Vector",
            id="vector-metric",
        ),
        pytest.param(
            b'{"message":"see ' + TRACEBACK.encode(),
            "not-json",
            "not JSON",
            id="broken-with-a-candidate-that-does-not-fit",
        ),
    ],
)
def test_an_invalid_record_is_a_dead_letter(value: bytes, kind: str, reason: str) -> None:
    found = a_scanner().scan(batch([b"before", value, TRACEBACK.encode()], first=7))
    (dead_letter,) = found.dead_letters
    assert reason in dead_letter.reason
    assert dead_letter.kind == kind
    assert (dead_letter.position.offset, dead_letter.size_bytes, dead_letter.value) == (
        8,
        len(value),
        value[:MAX_KEPT_DEAD_BYTES],
    )
    assert (found.matched, found.dead, found.quiet) == (1, 1, 1)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\0" * 4096 + b"step 3", id="a-file-that-was-cut-off-under-its-writer"),
        pytest.param(b"\nstep 3", id="a-newline-first"),
        pytest.param(b"\x8f\xa5\xe6 step 3", id="the-end-of-a-character"),
        pytest.param(bytes(range(1, 256)), id="any-bytes"),
        pytest.param(b'{"level":"info","event":"step"}', id="an-envelope-without-a-text"),
        pytest.param(b'[{"a": 1}]', id="a-list"),
    ],
)
def test_unusual_text_is_no_record_of_another_product(value: bytes) -> None:
    found = a_scanner().scan(batch([value]))
    assert (found.quiet, found.dead) == (1, 0)


def test_a_failure_in_another_product_s_record_is_found() -> None:
    value = b"\n\x18\n\x16\x12\x05" + XID.encode()
    assert fired(a_scanner().scan(batch([value]))) == [(1, "nvidia.xid_79")]


GIANT = b"x" * MAX_RECORD_BYTES


def test_a_failure_at_the_head_of_a_giant_line_is_found() -> None:
    found = a_scanner().scan(batch([kernel("n1", 5, XID) + GIANT, b"next"]))
    (match,) = found.matches
    assert (match.rule, match.event.node, match.event.event_time_ns) == ("nvidia.xid_79", "n1", at(5))
    assert len(match.event.text) <= MAX_KEPT_DEAD_BYTES
    assert [dead_letter.size_bytes > MAX_RECORD_BYTES for dead_letter in found.dead_letters] == [True]
    assert (found.records, found.matched, found.dead, found.quiet) == (2, 0, 1, 1)


def test_a_failure_at_the_head_of_a_giant_envelope_is_found() -> None:
    found = a_scanner().scan(batch([b'{"message":"' + XID.encode() + GIANT + b'"}']))
    assert (fired(found), found.dead, found.quiet) == ([(1, "nvidia.xid_79")], 1, 0)


BAR = "Loading:  45%|####5     | 9/20 [00:12<00:14, 1.31s/it]"


@pytest.mark.parametrize(
    ("line", "rank", "source"),
    [
        pytest.param(f" 10%\r 20%\r{TRACEBACK}", None, "", id="after-a-carriage-return"),
        pytest.param(f"{TRACEBACK}\r 10%\r 20%", None, "", id="before-a-carriage-return"),
        pytest.param(f" 10%\r[rank3]: {TRACEBACK}", 3, "", id="a-rank-after-a-carriage-return"),
        pytest.param(f" 7:  10%\r{TRACEBACK}", 7, "", id="the-rank-of-the-whole-line"),
        pytest.param(f"[rank1]:  10%\r[rank3]: {TRACEBACK}", 3, "", id="two-ranks"),
        pytest.param(f"{BAR}[rank3]: {TRACEBACK}", 3, "", id="glued-to-a-bar"),
        pytest.param(f"{BAR}{TRACEBACK}", None, "", id="glued-to-a-bar-without-a-prefix"),
        pytest.param(f"{BAR}[1,4]<stderr>:{TRACEBACK}", 4, "", id="glued-by-open-mpi"),
        pytest.param(f"\x1b[31m{BAR}\x1b[0m[rank3]: {TRACEBACK}", 3, "", id="in-colours"),
        pytest.param(f"\0\0{TRACEBACK}", None, "", id="after-nuls"),
        pytest.param(f"Trace\0back{TRACEBACK[9:]}\r\n", None, "", id="nul-inside-and-crlf"),
    ],
)
def test_a_record_that_shares_a_line_is_matched_once(line: str, rank: int | None, source: str) -> None:
    for value in (line.encode(), orjson.dumps({"message": line})):
        found = a_scanner().scan(batch([value]))
        (match,) = [match for match in found.matches if match.rule == "python.traceback"]
        assert (match.event.rank, match.event.source, match.event.text) == (rank, source, line.rstrip("\r\n"))
        assert found.matched == 1


def test_a_quoted_traceback_is_no_match() -> None:
    assert fired(a_scanner().scan(batch([f"log.error('{TRACEBACK} %s', text)".encode()]))) == []


def test_two_kernel_records_on_a_line_are_both_found() -> None:
    other = XID.replace("79, pid=48213, name=python3, GPU has fallen off the bus.", "48, pid=1, name=python3, DBE")
    found = a_scanner().scan(batch([f"[   12.300000] {other}[   12.400000] {XID}".encode()]))
    assert fired(found) == [(1, "nvidia.xid_48"), (1, "nvidia.xid_79")]
    assert ({match.event.source for match in found.matches}, found.matched) == ({"kernel"}, 1)


def test_a_kernel_record_behind_a_shell_s_message_is_the_kernel_s() -> None:
    found = scanned([a_rule("a", "^Kernel panic", source="kernel")], [b"/init: 3: .: [  271.403835] Kernel panic - x"])
    assert [match.event.source for match in found.matches] == ["kernel"]


def test_a_pattern_matches_across_two_pieces_of_a_line() -> None:
    assert fired(scanned([a_rule("a", "foo[^x]bar")], [b"foo\rbar"])) == [(1, "test.a")]


def test_harmless_text_of_a_piece_does_not_excuse_another() -> None:
    rules = [a_rule("a", "went wrong"), a_rule("b", "^it went", role="harmless")]
    assert fired(scanned(rules, [b"it went wrong"])) == []
    assert fired(scanned(rules, [b"50%\rit went wrong"])) == []
    assert fired(scanned(rules, [b"it went on\rall went wrong"])) == [(1, "test.a")]


def test_broken_json_with_a_hit_counts_as_a_plain_line() -> None:
    found = a_scanner().scan(batch([f'{{"message":"{XID}'.encode()]))
    assert fired(found) == [(1, "nvidia.xid_79")]
    assert found.dead == 0


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(kernel("n1", 5, XID), id="rsyslog"),
        pytest.param(vector("n1", 5, XID, source_type="journald_kernel"), id="vector"),
        pytest.param(journald("n1", 5, XID), id="journald"),
        pytest.param(journald("n1", 5, f"\x1b[31m{XID}"), id="journald-bytes"),
        pytest.param(python_json("n1", 5, f"é {XID}"), id="escapes"),
        pytest.param(python_json("n1", 5, XID.replace("Xid", "\x1b[1mXid\x1b[0m")), id="coloured-and-escaped"),
        pytest.param(
            f"{iso(5)} n1 kernel: NVRM: #033[31mXid#033[0m (PCI:0000:9a:00): 79, x".encode(), id="rsyslog-colour"
        ),
        pytest.param(kernel("n1", 5, XID) + b"\xff\xfe", id="not-utf-8"),
    ],
)
def test_a_line_matches_in_every_envelope(value: bytes) -> None:
    (match,) = a_scanner().scan(batch([value])).matches
    assert (match.rule, match.event.node, match.event.event_time_ns) == ("nvidia.xid_79", "n1", at(5))
    assert match.fields["pci"] == "0000:9a:00"


def test_a_second_copy_is_the_same_match_when_the_line_has_a_time() -> None:
    lines = [kernel("n1", 5, XID)] * 2
    first, second = a_scanner().scan(batch(lines)).matches
    assert first.match_id == second.match_id


def test_lines_without_a_time_are_distinguished_by_their_position() -> None:
    first, second = a_scanner().scan(batch([b"Fatal Python error: Aborted"] * 2)).matches
    assert first.match_id != second.match_id


def test_a_recorded_line_without_a_time_gets_that_of_the_lines_before_it() -> None:
    lines = [f"{iso(7)} epoch done".encode(), b"a", TRACEBACK.encode()]
    assert [match.event.event_time_ns for match in a_scanner().scan(batch(lines)).matches] == [at(7)]


def test_a_line_without_a_time_gets_that_of_the_batch_before() -> None:
    scanner = a_scanner()
    scanner.scan(batch([f"{iso(7)} epoch done".encode(), b"a"]))
    scanner.scan(batch([b"b"], first=3))
    (match,) = scanner.scan(batch([TRACEBACK.encode()], first=4)).matches
    assert (match.event.event_time_ns, match.event.has_own_time) == (at(7), False)


@pytest.mark.parametrize(("between", "expected_ns"), [(198, at(7)), (199, LATER_NS)])
@pytest.mark.parametrize("cut_after", [1, 50, 150, None])
def test_the_time_of_earlier_lines_counts_for_a_fixed_number_of_lines(
    between: int, expected_ns: int, cut_after: int | None
) -> None:
    lines = [f"{iso(7)} epoch done".encode(), *[b"a"] * between, TRACEBACK.encode()]
    scanner, cut = a_scanner(), cut_after or len(lines)
    matches = scanner.scan(batch(lines[:cut])).matches
    matches += scanner.scan(batch(lines[cut:], first=cut + 1)).matches
    assert [match.event.event_time_ns for match in matches] == [expected_ns]


def test_a_live_line_without_a_time_happened_when_it_was_received() -> None:
    lines = [f"{iso(7)} epoch done".encode(), TRACEBACK.encode()]
    (match,) = a_scanner().scan(replace(batch(lines, live=True), received_ns=[at(8), at(9)])).matches
    assert match.event.event_time_ns == at(9)


def test_a_step_is_one_heartbeat_however_many_ranks_report_it() -> None:
    step = "completed step: 3, seconds: 5.0, TFLOP/s/device: 380.1"
    lines = [vector("n1", second, step, job="A") for second in (10.5, 10.1, 10.9)]
    heartbeats = a_scanner().scan(batch(lines)).heartbeats
    assert [(heartbeat.event_time_ns, heartbeat.step) for heartbeat in heartbeats if isinstance(heartbeat, Step)] == [
        (at(10.1), 3)
    ]


def test_a_step_reported_again_minutes_later_is_another_heartbeat() -> None:
    step = "completed step: 3, seconds: 5.0, TFLOP/s/device: 380.1"
    heartbeats = a_scanner().scan(batch([vector("n1", second, step, job="A") for second in (10, 400)])).heartbeats
    assert [heartbeat.event_time_ns for heartbeat in heartbeats if isinstance(heartbeat, Step)] == [at(10), at(400)]


def test_every_writer_in_ten_seconds_has_one_heartbeat_a_batch() -> None:
    scanner = a_scanner()
    lines = [vector("n1", second, "loading", job="A") for second in range(60)]
    first, second = scanner.scan(batch(lines[:3])), scanner.scan(batch(lines[3:], first=4))
    assert [(heartbeat.event_time_ns, heartbeat.job, heartbeat.node) for heartbeat in first.heartbeats] == [
        (at(0), "A", "n1")
    ]
    assert (
        len({heartbeat.event_time_ns // (10 * NS_PER_S) for heartbeat in (*first.heartbeats, *second.heartbeats)}) == 6
    )


def test_time_is_never_ahead_of_receipt() -> None:
    ahead = vector("n1", 3600, "loading", job="A")
    live = Batch("s", [ahead], [b"k"], [START_NS], [1])
    assert a_scanner().scan(live).newest_ns == START_NS


def test_a_recording_without_times_does_not_move_time() -> None:
    assert a_scanner().scan(batch([b"loading", TRACEBACK.encode()])).newest_ns is None


def test_lines_after_a_block_cut_by_the_batch_end_wait_for_the_next_batch() -> None:
    lines = [vector("n1", 1, "loading"), vector("n1", 2, TRACEBACK), journald("n1", 3, XID)]
    found = a_scanner().scan(batch(lines[:2]), is_last=False)
    again = a_scanner().scan(batch([*lines, vector("n1", 3, TRACEBACK)]), is_last=False)
    assert (found.records, again.records) == (1, 1)
    assert {(heartbeat.node, heartbeat.source) for heartbeat in again.heartbeats} == {("n1", "worker")}


def test_every_node_of_one_file_has_a_heartbeat_every_ten_seconds() -> None:
    lines = [(vector, journald)[second % 2](f"n{second // 2 % 3}", second, "loading") for second in range(120)]
    whole, cut = a_scanner(), a_scanner()
    pieces = [cut.scan(batch(lines[first : first + 17], first=first + 1)) for first in range(0, 120, 17)]
    seen = {
        (heartbeat.node, heartbeat.source, heartbeat.event_time_ns // (10 * NS_PER_S))
        for heartbeat in whole.scan(batch(lines)).heartbeats
    }
    assert seen == {
        (heartbeat.node, heartbeat.source, heartbeat.event_time_ns // (10 * NS_PER_S))
        for p in pieces
        for heartbeat in p.heartbeats
    }
    assert len(seen) == 3 * 2 * 12


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_lines_without_a_time_hide_no_heartbeat(cut: int) -> None:
    lines = [
        b"Hello.",
        b"2026-03-02 09:00:01,000 - INFO - begins",
        b"2026-03-02 09:00:20,000 - INFO - epoch done",
        b"  of no time",
        b"2026-03-02 09:00:40,000 - INFO - epoch done",
        b"Good bye.",
    ]
    pieces = [batch(lines[:cut], key=b"n1"), batch(lines[cut:], first=cut + 1, key=b"n1")]
    whole, scanner = a_scanner().scan(batch(lines, key=b"n1")), a_scanner()
    buckets = {heartbeat.event_time_ns // BUCKET_NS for piece in pieces for heartbeat in scanner.scan(piece).heartbeats}
    assert buckets == {heartbeat.event_time_ns // BUCKET_NS for heartbeat in whole.heartbeats}
    assert len(buckets) == 3


def test_a_match_at_the_end_of_the_data_is_found() -> None:
    pattern = r"""^\s{1,80}(?:case [^\n]{1,40}: )?return [rf]?["'`][^\n]{1,250}["'`];"""
    line = b'\tcase 10069: return "WSAEDQUOT: Disk quota exceeded.";'
    assert HyperscanScanner([pattern]).scan([line]) == [(0, 0)]
    assert HyperscanScanner([pattern]).scan([b"x", line]) == [(1, 0)]


@pytest.mark.parametrize("received_ms", [2**63 - 1, -1])
def test_an_impossible_receipt_is_replaced_by_the_nearest_possible_one(received_ms: int) -> None:
    lines = Batch("test", [XID.encode()], [b"n1"], [received_ms * 1_000_000], [1])
    (match,) = a_scanner().scan(lines).matches
    engine = Engine(the_rules())
    engine.add([match], [])
    (incident,) = engine.flush()
    assert incident.nodes == ("n1",)


@pytest.mark.parametrize(
    "line",
    [
        b"Kernel panic - not syncing: Fatal exception" + b"\t" * 40_000 + b"x",
        b"=" * 40_000 + b"x == JOB SUMMARY ==",
        b"x" * 40_000 + b" run.sh^M: bad interpreter: No such file or directory",
    ],
    ids=["tabs", "equals-signs", "a-path"],
)
def test_a_long_line_is_searched_in_linear_time(line: bytes) -> None:
    begun_s = process_time()
    assert a_scanner().scan(batch([line])).matched == 1
    assert process_time() - begun_s < 2


def test_a_pattern_may_name_a_simpler_prefilter() -> None:
    pattern = r"^(?#sought:\d%\|)[\s\[]{0,8}Steps: {1,4}\d{1,3}%\|"
    lines = [b"Steps:  41%|####", b"Map:  41%|####", b"Steps: none"]
    assert HyperscanScanner([pattern]).scan(lines) == [(0, 0), (1, 0)]
    found = scanned([a_rule("steps", pattern)], lines)
    assert [match.event.text for match in found.matches] == ["Steps:  41%|####"]


def test_reported_pods_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicenter.stream.scan.scan.MAX_SPEAKERS", 3)
    scanner = a_scanner()

    def reported_pods(*jobs: str) -> list[str]:
        lines = [vector("n1", 1, "CUDA out of memory.", job) for job in jobs]
        return [rank_placement.pod for line in lines for rank_placement in scanner.scan(batch([line])).rank_placements]

    assert reported_pods("a", "b", "a", "c", "b", "c") == ["train-a", "train-b", "train-c"]
    assert reported_pods("d") == ["train-d"]
    assert reported_pods("a", "d") == ["train-a"]


@pytest.mark.parametrize(
    ("stated", "compute_ns"),
    [
        ("step_time=2.971s compute=2.686s comm_wait=0.285s", 2_686_000_000),
        ("step_time=2.971s (compute 2.686s, wait 0.285s)", 2_686_000_000),
        ("dt_ms=2971 compute_ms=2686", 2_686_000_000),
        ("dt: 2971 ms, fwd_bwd: 2686.5 ms", 2_686_500_000),
        ("t_step=2.971s t_compute=2.686s t_wait=0.285s", 2_686_000_000),
        ("lr=3e-4 grad_norm=1.2", None),
        ("compute_capability=9.0 grad_norm=1.2", None),
    ],
)
def test_a_step_has_the_time_that_its_rank_computed(stated: str, compute_ns: int | None) -> None:
    line = f"{iso(1)} INFO train rank=3 step=12 loss=2.31 {stated}"
    heartbeats = a_scanner().scan(batch([line.encode()])).heartbeats
    steps = {(found.step, found.rank, found.compute_ns) for found in heartbeats if type(found) is Step}
    assert steps == {(12, 3, compute_ns)}


@pytest.mark.parametrize(
    ("stated", "compute_ns"),
    [
        ('"sec": 5.724, "sync_sec": 0.458', 5_266_000_000),
        ('"dt_s": 5.724, "data_s": 0.011, "wait_s": 0.458', 5_266_000_000),
        ('"step_time": 5.724, "sync": 0.458', 5_266_000_000),
        ('"sec": 5.724, "data_sec": 0.458', None),
        ('"sync_sec": 0.458', None),
    ],
)
def test_what_a_rank_does_not_wait_of_a_step_it_computes(stated: str, compute_ns: int | None) -> None:
    line = f'{{"ts": 1793614272.6, "ev": "train_step", "rank": 3, "global_step": 12, "loss": 2.31, {stated}}}'
    heartbeats = a_scanner().scan(batch([line.encode()])).heartbeats
    assert {(found.step, found.compute_ns) for found in heartbeats if type(found) is Step} == {(12, compute_ns)}


def test_the_time_of_each_line_is_read_a_few_times_however_many_lines_lack_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[int]()
    monkeypatch.setattr(batch_lines, "stated_time", lambda record: read.append(record.position.offset))
    monkeypatch.setattr(batch_lines, "may_state_time", lambda value: True)
    a_scanner().scan(Batch("raw/0", [b"ValueError: no batch"] * 300, [None] * 300, [LATER_NS] * 300, range(300), False))
    assert 0 < len(read) <= 3 * 300
