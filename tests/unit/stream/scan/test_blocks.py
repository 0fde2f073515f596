"""Lines that belong together become one match, wherever the batches are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.records import Match
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.block_buffer import MAX_BLOCK_WAIT_NS, BlockBuffer
from epicenter.stream.scan.scan import BatchScanner
from tests.support.logs import a_scanner, batch
from tests.unit.stream.scan.test_scan import a_rule

TRACEBACK = {"goes_on": r"^(?:\s|$|During handling|Traceback)", "and_one_more": True}
CAUGHT = {
    "only_if_next": "^Traceback",
    "goes_on": '^(?:Traceback|  File "[^"]+", line [0-9]+, in (?!<module>)|    )',
    "and_one_more": True,
    "covers": True,
}
RULES = RuleSet(
    (
        a_rule("traceback", r"^Traceback \(most recent call last\):", fallback=True, block=TRACEBACK),
        a_rule("any_error", r"^[A-Z]\w{1,40}Error: ", fallback=True, **{"class": "traceback"}),
        a_rule("oom", "CUDA out of memory"),
        a_rule(
            "report", "invoked oom-killer", block={"ends": "Killed process", "most_lines": 6}, **{"class": "killed"}
        ),
        a_rule("killed", "Killed process", **{"class": "killed"}),
        a_rule("warned", "^WARNING: .*skipping", role="context", block=CAUGHT),
        a_rule("quoted", "^```$", role="harmless", block={"ends": "^```$", "covers": True}),
        a_rule("later", "^Later failures:", role="context", block={"goes_on": "^ ", "covers": True}),
        a_rule(
            "first", "^First failure:", fallback=True, block={"goes_on": "^ ", "extract": [r" rank: (?P<rank>\d+)"]}
        ),
        a_rule("signal", r"^ signal: (?P<signal>\d)", **{"class": "signal"}),
    ),
    (),
)
FRAMES = ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', "    step()"]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
CHAINED = [
    *FRAMES,
    "ValueError: bad shape",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    *FRAMES,
    OOM,
]
REPORT = ["a invoked oom-killer: x", "b", "Killed process 1 (a)"]


def a_text(lines: Sequence[str], first: int = 1) -> Batch:
    return replace(batch([line.encode() for line in lines], first=first), is_text=True)


def found(lines: Sequence[str], cuts: Sequence[int] = ()) -> list[tuple[int, str, int]]:
    """(line, rule, lines of the block) of each match, with batches that end at `cuts`."""
    return [(match.event.position.offset, match.rule, len(match.block)) for match in matches(lines, cuts)]


def matches(lines: Sequence[str], cuts: Sequence[int] = ()) -> list[Match]:
    borders = [0, *cuts, len(lines)]
    pieces = [a_text(lines[start:end], start + 1) for start, end in pairwise(borders) if end > start]
    return [match for scanned in BlockBuffer(BatchScanner(RULES, "c")).scan_all(pieces) for match in scanned.matches]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([*FRAMES, OOM, "next"], [(4, "test.oom", 4)], id="the-exception-says-what-it-is"),
        pytest.param([*FRAMES, "KeyError: 1", "next"], [(4, "test.any_error", 4)], id="an-exception-of-no-other-rule"),
        pytest.param([*FRAMES, "Oops: my own"], [(1, "test.traceback", 4)], id="an-unknown-exception"),
        pytest.param(CHAINED, [(11, "test.oom", 11)], id="chained"),
        pytest.param(
            [*FRAMES, "ValueError: x", *FRAMES, OOM],
            [(4, "test.any_error", 4), (8, "test.oom", 4)],
            id="one-right-after-the-other",
        ),
        pytest.param(FRAMES[:2], [(1, "test.traceback", 2)], id="cut-off"),
        pytest.param([*REPORT, OOM], [(3, "test.killed", 3), (4, "test.oom", 0)], id="up-to-an-end"),
        pytest.param(
            [REPORT[0], *"bcdefgh", REPORT[2]], [(1, "test.report", 0), (9, "test.killed", 0)], id="no-end-near-enough"
        ),
        pytest.param(["KeyError: 'x'"], [(1, "test.any_error", 0)], id="no-block-at-all"),
    ],
)
def test_a_block_is_one_match(lines: list[str], expected: list[tuple[int, str, int]]) -> None:
    assert found(lines) == expected


def test_failures_in_a_block_have_its_fields() -> None:
    (match,) = matches(["First failure:", " rank: 3", " signal: 9", "next", " rank: 4"])
    assert (match.rule, match.fields) == ("test.signal", {"rank": "3", "signal": "9"})


def test_failures_in_a_block_that_covers_them_are_not_reported() -> None:
    lines = ["Later failures:", " signal: 6", "First failure:", " rank: 3", " signal: 9"]
    assert [(match.event.position.offset, match.fields["signal"]) for match in matches(lines)] == [(5, "9")]


def test_interleaved_ranks_are_separate_matches() -> None:
    first, second = ([f"[rank{rank}]: {line}" for line in [*FRAMES, OOM]] for rank in (0, 1))
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    assert found(mixed) == [(7, "test.oom", 4), (8, "test.oom", 4)]
    assert [match.block[0][:7] for match in matches(mixed)] == ["[rank0]", "[rank1]"]


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_cut_anywhere_changes_nothing(cut: int) -> None:
    lines = [*CHAINED, "next", *REPORT]
    assert matches(lines, [cut]) == matches(lines)
    assert matches(lines, [cut, cut + 2]) == matches(lines)


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_block_that_reaches_into_an_unfinished_one_waits_with_it(cut: int) -> None:
    first, second = ([f"[rank{rank}]: {line}" for line in [*FRAMES, OOM, "next"]] for rank in (0, 1))
    mixed = [*first[:2], second[0], *first[2:], *second[1:]]
    assert matches(mixed, [cut]) == matches(mixed)


def test_records_held_back_are_scanned_when_the_source_is_idle() -> None:
    scanner = BlockBuffer(BatchScanner(RULES, "c"))
    first = scanner.scan(a_text(["CUDA out of memory", *FRAMES]))
    assert (first.records, [match.rule for match in first.matches]) == (1, ["test.oom"])
    ((source, rest),) = scanner.rest()
    assert (source, rest.records, [match.rule for match in rest.matches]) == ("test", 3, ["test.traceback"])
    assert scanner.rest() == []


def test_records_of_an_idle_source_are_overdue_while_another_is_read() -> None:
    scanner = BlockBuffer(BatchScanner(RULES, "c"))
    scanner.scan(a_text(FRAMES), read_ns=5)
    scanner.scan(replace(a_text(FRAMES), source="busy"), read_ns=6)
    assert scanner.overdue(4 + MAX_BLOCK_WAIT_NS) == []
    assert scanner.overdue(5 + MAX_BLOCK_WAIT_NS) == ["test"]
    assert scanner.rest_of("test").records == len(FRAMES)
    assert scanner.overdue(9 * MAX_BLOCK_WAIT_NS) == ["busy"]


def test_block_of_an_idle_writer_is_completed_soon() -> None:
    lines = [f"[rank0]: {FRAMES[0]}", *(f"[rank1]: step {number}" for number in range(2000)), f"[rank1]: {OOM}"]
    scanned = BlockBuffer(BatchScanner(RULES, "c")).scan(a_text(lines))
    assert scanned.records == len(lines)
    assert [match.rule for match in scanned.matches] == ["test.traceback", "test.oom"]


def test_a_block_holds_back_its_own_source_only() -> None:
    scanner = BlockBuffer(BatchScanner(RULES, "c"))
    scanner.scan(a_text(FRAMES))
    other = Batch("other", [OOM.encode()], [None], [0], [1])
    assert [match.rule for match in scanner.scan(other).matches] == ["test.oom"]


def test_a_long_block_keeps_its_head_and_tail() -> None:
    frames = [f"  frame {number}" for number in range(150)]
    (match,) = matches([FRAMES[0], *frames, OOM])
    assert len(match.block) == 121
    assert (match.block[0], match.block[60], match.block[-1]) == (FRAMES[0], "[32 lines left out]", OOM)


def by_speaker(first: str, second: str) -> list[str]:
    """Two tracebacks, interleaved line by line."""
    mine, yours = [*FRAMES, OOM], [*FRAMES, "KeyError: 1"]
    return [line for a, b in zip(mine, yours, strict=True) for line in (f"{first}{a}", f"{second}{b}")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("[rank0]: ", "[rank1]: "),
        ("(W pid=4) ", "(W pid=5) "),
        ("[default0]:", "[default1]:"),
        ("10.1.0.7: ", "10.1.0.8: "),
        ("[1,0]<stderr>:", "[1,0]<stdout>:"),
        ("worker-0  | ", "worker-1  | "),
        ("2026-03-02T09:00:05Z stdout F ", "2026-03-02T09:00:05Z stderr F "),
    ],
)
def test_interleaved_speakers_are_separate_matches(first: str, second: str) -> None:
    assert found(by_speaker(first, second)) == [(7, "test.oom", 4), (8, "test.any_error", 4)]


def test_a_block_may_begin_behind_a_progress_bar() -> None:
    opener = f" 50%|#5   | 1/2 [00:12<00:12, 12.1s/it]\r[rank3]: {FRAMES[0]}"
    lines = [opener, *(f"[rank3]: {line}" for line in [*FRAMES[1:], OOM])]
    assert found(lines) == [(4, "test.oom", 4)]


IGNORED_FRAMES = ["Traceback (most recent call last):", '  File "loader.py", line 1478, in __del__', "    self._stop()"]
CONNECTION_RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize(
    "first",
    [
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f01aa00b420>",
        "Exception ignored in atexit callback: <function dump_logs at 0x7f01aa00b420>",
        "Exception ignored while calling deallocator <function Store.__del__ at 0x7f01aa00b420>:",
        "[rank3]: Exception ignored in: <generator object batches at 0x7f01aa00b420>",
    ],
)
@pytest.mark.parametrize("last", ["TypeError: 'NoneType' object is not callable", CONNECTION_RESET, OOM])
def test_an_ignored_exception_is_harmless_with_its_last_line(first: str, last: str) -> None:
    prefix = "[rank3]: " if first.startswith("[rank3]") else ""
    lines = [first, *(prefix + line for line in [*IGNORED_FRAMES, last])]
    assert a_scanner().scan(a_text(lines)).matches == []
    assert a_scanner().scan(a_text([first, prefix + last])).matches == []


def test_a_failure_after_an_ignored_exception_is_found() -> None:
    first = "Exception ignored in: <function Store.__del__ at 0x7f01aa00b420>"
    lines = [first, *IGNORED_FRAMES, "TypeError: 'NoneType' object is not callable", *FRAMES, OOM]
    (match,) = a_scanner().scan(a_text(lines)).matches
    assert match.rule == "memory.oom_gpu"


def test_an_exception_in_a_thread_is_a_failure() -> None:
    lines = ["Exception in thread Thread-4 (save_async):", *FRAMES, CONNECTION_RESET]
    assert [match.rule for match in a_scanner().scan(a_text(lines)).matches] == ["network.connection_reset"]


IN_READ = ["Traceback (most recent call last):", '  File "/w/read.py", line 88, in read', "    open(path)"]
CAPTURED = "----------------------------- Captured stderr call -----------------------------"
SPARK = "26/03/02 09:14:01 WARN TaskSetManager: Lost task 7.1 in stage 2.0 (TID 88) (n1 executor 4): FetchFailed("
IN_MODULE = [
    "Traceback (most recent call last):",
    '  File "/w/norm.py", line 8, in <module>',
    "    import apex",
    "ModuleNotFoundError: No module named 'apex'",
]
REFUSED = "Error in preprocessing prompt inputs"
PASSED = "tests/test_ops.py::test_attention[bf16] PASSED                     [ 12%]"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["Exception in thread Thread-4 (_pin_memory_loop):", *FRAMES, CONNECTION_RESET], id="pin-memory"),
        pytest.param([CAPTURED, *IN_READ, OOM, PASSED], id="pytest"),
        pytest.param(
            ["=== generated samples (step 577) ===", f"A: {OOM} means", "=== end of samples ==="], id="samples"
        ),
        pytest.param(
            ["2026-03-02 09:00:53,110 ERROR decode: sample 8 is broken, skipped", *IN_READ, OOM], id="skipped"
        ),
        pytest.param(
            ["2026-03-02 09:00:53,110 WARNING autotune: batch 16 does not fit, trying 8", OOM], id="tries-less"
        ),
        pytest.param(
            ["09:00:53 WARNING reward: sandbox run of sample 8 failed: exit=139 Segmentation fault"], id="sandbox"
        ),
        pytest.param(
            [SPARK, "org.apache.spark.shuffle.FetchFailedException: Broken pipe", "\tat a.b", ")"], id="spark"
        ),
        pytest.param(["WARNING: apex is missing, falling back to LayerNorm", *IN_MODULE], id="import"),
        pytest.param(
            ["[rank0] WARNING: apex is missing, falling back to eager", *("[rank0] " + line for line in IN_MODULE)],
            id="behind-a-head",
        ),
        pytest.param(["[n1/3] 09:00:53 WARNING tuner: 16 is too much, trying 8", "[n1/3] " + OOM], id="tries-behind"),
        pytest.param(
            ["ERROR:opentelemetry.sdk._shared_internal:Exception while exporting Metric.", *IN_READ, CONNECTION_RESET],
            id="telemetry",
        ),
        pytest.param(
            [f"(APIServer pid=3210) ERROR 03-02 09:00:53 [serving.py:323] {line}" for line in [REFUSED, *IN_READ, OOM]],
            id="request",
        ),
        pytest.param(
            [">>> sample: The server printed", FRAMES[0], '  File "app.py", line 12, in <module>', CONNECTION_RESET],
            id="sample",
        ),
        pytest.param(
            [
                '  File "/tmp/sandbox/prog_7.py", line 2',
                "    def f(x:",
                "         ^",
                "SyntaxError: '(' was never closed",
            ],
            id="sandbox-syntax",
        ),
    ],
)
def test_what_a_program_caught_tested_or_quoted_is_no_failure(lines: list[str]) -> None:
    assert a_scanner().scan(a_text([*lines, "step 8"])).matches == []


def test_what_python_can_t_parse_is_no_part_of_the_traceback_before_it() -> None:
    unparsed = ['  File "/tmp/sandbox/prog_8.py", line 2', "    def f(x:", "         ^", "SyntaxError: invalid syntax"]
    (match,) = a_scanner().scan(a_text([*IN_READ, "MemoryError", *unparsed, "step 8"])).matches
    assert match.block == (*IN_READ, "MemoryError")


def test_a_traceback_of_the_program_s_own_after_a_sample_is_a_failure() -> None:
    lines = [">>> sample: The server", FRAMES[0], '  File "/w/train.py", line 12, in <module>', CONNECTION_RESET]
    (match,) = a_scanner().scan(a_text([*lines, "step 8"])).matches
    assert match.rule == "network.connection_reset"


def test_failures_between_two_fences_are_not_reported() -> None:
    assert found(["```", *FRAMES, OOM, "```", OOM]) == [(7, "test.oom", 0)]


def test_a_fence_that_is_not_closed_covers_nothing() -> None:
    assert [rule for _, rule, _ in found(["```", OOM])] == ["test.oom"]


def test_a_warning_behind_another_head_announces_no_exception() -> None:
    lines = ["[n1/4] WARNING: apex is missing, falling back to eager", *("[n1/3] " + line for line in IN_MODULE)]
    assert [match.rule for match in a_scanner().scan(a_text([*lines, "step 8"])).matches] == ["python.import_error"]


WARNING = "WARNING: failed to read shard 7, skipping"


@pytest.mark.parametrize(
    ("lines", "rules"),
    [
        pytest.param([WARNING, FRAMES[0], '  File "r.py", line 7, in read', "    open()", OOM], [], id="caught"),
        pytest.param([WARNING, *FRAMES, OOM], ["test.oom"], id="not-caught"),
        pytest.param([WARNING, OOM], ["test.oom"], id="no-traceback-follows"),
    ],
)
def test_an_exception_that_a_warning_announces_is_not_reported(lines: list[str], rules: list[str]) -> None:
    assert [rule for _, rule, _ in found([*lines, "step 8"])] == rules


BEHIND_HEADS = RuleSet(
    (
        a_rule("traceback", r"Traceback \(most recent call last\):", fallback=True, block=TRACEBACK),
        a_rule("oom", "CUDA out of memory"),
    ),
    (),
)
IN_HOUSE = [
    "E20260302T090005.250Z n1 agent] ",
    "2026-03-02 09:00:05,250 | ERROR | trainer:213 | ",
    "[1772442005.250] [n1/3] ",
]


def found_behind_heads(lines: Sequence[str]) -> list[tuple[int, str, int]]:
    found = BatchScanner(BEHIND_HEADS, "c").scan(a_text(lines)).matches
    return [(match.event.position.offset, match.rule, len(match.block)) for match in found]


@pytest.mark.parametrize("head", IN_HOUSE)
def test_a_traceback_behind_the_head_of_a_site_s_own_logger_is_one_match(head: str) -> None:
    later = head.replace("05", "06")
    lines = [head + FRAMES[0], *(later + line for line in FRAMES[1:]), later + OOM, head + "going down"]
    assert found_behind_heads(lines) == [(4, "test.oom", 4)]


def test_lines_behind_another_head_are_no_part_of_a_traceback() -> None:
    lines = ["[n1/3] " + FRAMES[0], "[n1/3] " + FRAMES[1], "[n1/4] " + FRAMES[2], "[n1/4] " + OOM]
    assert (4, "test.oom", 0) in found_behind_heads(lines)


def test_unnamed_lines_in_a_traceback_that_is_cut_off_take_nothing_from_it() -> None:
    frames = ['  File "/w/a.py", line 3, in f', '    why = "Failed to light the lamp"', "    error: unable to light it"]
    (match,) = a_scanner().scan(a_text(["Traceback (most recent call last):", *frames])).matches
    assert match.rule == "python.traceback"


IN_LOADING = '  File "/w/train.py", line 88, in load_checkpoint'


@pytest.mark.parametrize("first", [["Traceback (most recent call last):"], []], ids=["whole", "without its head"])
@pytest.mark.parametrize(
    ("last", "rules"),
    [
        ("ValueError: a text that no rule knows", ["frame.checkpoint_load"]),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", ["cuda.illegal_access"]),
        ("KeyboardInterrupt", ["signals.sigterm"]),
    ],
)
def test_a_frame_names_an_exception_that_no_rule_knows(first: list[str], last: str, rules: list[str]) -> None:
    lines = [*first, IN_LOADING, "    state = read(path)", last]
    assert [match.rule for match in a_scanner().scan(a_text(lines)).matches] == rules
