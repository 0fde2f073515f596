"""The lines of scenarios: their speakers, times and records."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from epicenter.ingest.parse.envelope import parse
from epicenter.rules.model.records import Position, RawRecord
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scenarios.lines import Line, written_out
from epicenter.stream.scenarios.shippers import WrittenLine, record_of
from epicenter.stream.scenarios.spec import SHIPPERS_OF, Source
from tests.support.logs import START_NS, at
from tests.support.scenarios import scenario

HEAD = "title: T\nstory: S\njobs: {A: {nodes: n1..n2, ranks_per_node: 2}}\nexpect: none\nlines:\n"


def lines_of(tmp_path: Path, *entries: str) -> list[Line]:
    text = HEAD + "".join(f"  - {entry}\n" for entry in entries)
    (lines,) = written_out(scenario(tmp_path, text).spec)
    return lines


def texts(lines: list[Line]) -> list[str]:
    return [
        parse(RawRecord(line.value, Position(line.file, line.number), line.time_ns), "c").event.text for line in lines
    ]


def test_lines_of_ranks_are_from_their_nodes(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "{at: +1s, job: A, ranks: all, spread: 2s, text: '{node} {rank}.{local_rank}/{world}'}")
    assert texts(lines) == ["n1 0.0/4", "n1 1.1/4", "n2 2.0/4", "n2 3.1/4"]
    assert [line.time_ns - START_NS for line in lines] == [n * NS_PER_S // 2 for n in (2, 3, 4, 5)]
    assert [(line.file, line.number) for line in lines] == [
        *(("n1/A.log", 1), ("n1/A.log", 2), ("n2/A.log", 1), ("n2/A.log", 2)),
    ]


def test_a_repeated_line_counts_its_step(tmp_path: Path) -> None:
    entry = (
        "{every: 5s, from: +10s, to: +20s, job: A, ranks: 0, step: 100, stride: 10, text: 'step {step} {iso} {clock}'}"
    )
    assert texts(lines_of(tmp_path, entry)) == [
        "step 100 2026-03-02T09:00:10 09:00:10.000000",
        "step 110 2026-03-02T09:00:15 09:00:15.000000",
        "step 120 2026-03-02T09:00:20 09:00:20.000000",
    ]


def test_lines_are_in_the_order_of_their_times_and_those_of_a_text_together(tmp_path: Path) -> None:
    lines = lines_of(
        tmp_path,
        "{at: +2s, on: n1, text: later}",
        r'{at: +1s, job: A, ranks: [0, 1], text: "r{rank} one\nr{rank} two\n"}',
    )
    assert texts(lines) == ["r0 one", "r0 two", "r1 one", "r1 two", "later"]
    assert [line.time_ns - START_NS for line in lines[:2]] == [NS_PER_S, NS_PER_S + 1000]


def test_placeholders_of_a_gpu_and_of_a_c10_head_are_filled_in(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, "{at: +1s, job: A, ranks: 3, text: '{pci} {bus} {pid} E{c10}'}")
    assert texts([line]) == ["0000:2a:00 2a000 40003 E302 09:00:01.000000000"]


PAIRS = [(source, shipper) for source in get_args(Source) for shipper in SHIPPERS_OF[source]]


@pytest.mark.parametrize(("source", "shipper"), PAIRS)
def test_the_parser_reads_the_line_back_from_its_record(source: str, shipper: str) -> None:
    job, rank = ("A", 3) if source == "worker" else ("", None)
    written = WrittenLine(at(61.25), "NVRM: something", source, shipper, "n3", job, rank)
    event = parse(RawRecord(record_of(written), Position("f", 1), at(61.25), b"n3"), "c").event
    assert (event.event_time_ns, event.node, event.text.endswith(written.text)) == (at(61.25), "n3", True)
    if shipper != "plain":
        assert (event.job, event.rank) == (job, rank)
        assert event.source in (("", source) if shipper in ("file", "rsyslog") else (source,))
