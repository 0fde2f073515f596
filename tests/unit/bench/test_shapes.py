"""How often a line is parsed, in logs of every shape of `make bench-shapes`: counted, so that no clock is needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from bench.shapes import SHAPES, Shape, batches_of_file, batches_of_records, scan_all, write_file
from bench.work_count import Calls
from epicenter.ingest.parse.envelope import parse, stated_time
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.prefilter import scanner_of

LINES = 4_000
FOR_ITS_CLOCK = 60
"""At most this many lines of a batch are read to find out whether its first clock can be right."""

MAX_LOOKS = 2.1
"""A line is parsed once, and again with the rest of its block if that comes with the next batch."""


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.finds], ids=lambda shape: shape.name)
def test_match_parses_no_quiet_line_however_its_clock_runs(shape: Shape, tmp_path: Path) -> None:
    looks, _, batches = parsed(shape, tmp_path, is_file=True)
    assert looks <= FOR_ITS_CLOCK * batches


@pytest.mark.parametrize("is_file", [True, False], ids=["match", "worker"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_line_of_any_shape_is_parsed_a_few_times(shape: Shape, is_file: bool, tmp_path: Path) -> None:
    looks, records, _ = parsed(shape, tmp_path, is_file)
    assert 0 < looks <= MAX_LOOKS * records


def parsed(shape: Shape, folder: Path, is_file: bool) -> tuple[int, int, int]:
    """How often records are parsed, whole or for their time alone; the records, and the batches."""
    count = max(20, round(LINES * shape.share))
    rules, scanner = searched(in_triage=is_file)
    read = batches_of_file(write_file(shape, count, folder)) if is_file else batches_of_records(shape, count)
    batches = list(read)
    records = sum(map(len, batches))
    calls = Calls(lambda: scan_all(batches, rules, scanner, is_file))
    return calls.of(parse, stated_time), records, len(batches)


@cache
def searched(in_triage: bool) -> tuple[RuleSet, Scanner]:
    """The shipped rules, compiled."""
    rules = load()
    return rules, scanner_of(rules, in_triage)
