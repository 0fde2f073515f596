"""Orders of arrival that must change nothing: a core that depends on one of them is found."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from random import Random

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scenarios.delivery import Delivery, as_written, cut_up, lagging, reordered, repeated
from epicenter.stream.scenarios.play import CLUSTER, MakeCore
from epicenter.stream.scenarios.variations import Checker, chapters_of
from tests.support.logs import the_rules
from tests.support.scenarios import A_SCENARIO, ForgetfulCore, RecordingCore, scenario

LATENESS_NS = 5_000_000_000


@cache
def _searcher() -> HyperscanScanner:
    return HyperscanScanner(the_rules().expressions)


def failures(tmp_path: Path, make_core: MakeCore) -> list[str]:
    checker = Checker(scenario(tmp_path), make_core, lambda: BatchScanner(the_rules(), CLUSTER, _searcher()))
    return checker.outcome().failures


def changes(tmp_path: Path, make_core: MakeCore) -> set[str]:
    """The variations that changed the incidents."""
    differences = [failure for failure in failures(tmp_path, make_core) if " changed the incidents: " in failure]
    ways = {"order": ("other order", "lag"), "copies": ("twice",), "cuts": ("cuts",), "restarts": ("restart",)}
    return {way for way, words in ways.items() if any(word in failure for failure in differences for word in words)}


def test_the_real_core_passes(tmp_path: Path) -> None:
    assert failures(tmp_path, lambda snapshot: Engine(the_rules(), snapshot)) == []


def in_order_of_arrival(pieces: list[list[str]]) -> str:
    return " ".join(dict.fromkeys(line for piece in pieces for line in piece))


def with_copies(pieces: list[list[str]]) -> str:
    return " ".join(sorted(line for piece in pieces for line in piece))


def by_pieces(pieces: list[list[str]]) -> str:
    return " ".join(sorted({"+".join(sorted(piece)) for piece in pieces}))


def each_once(pieces: list[list[str]]) -> str:
    return " ".join(sorted({line for piece in pieces for line in piece}))


CORES = [
    pytest.param(RecordingCore, each_once, set(), id="sound"),
    pytest.param(RecordingCore, in_order_of_arrival, {"order"}, id="order"),
    pytest.param(RecordingCore, with_copies, {"copies"}, id="copies"),
    pytest.param(RecordingCore, by_pieces, {"cuts"}, id="cuts"),
    pytest.param(ForgetfulCore, each_once, {"restarts"}, id="forgets"),
]


@pytest.mark.parametrize(("core", "summary", "caught"), CORES)
def test_dependence_on_arrival_order_is_found(
    core: type[RecordingCore], summary: object, caught: set[str], tmp_path: Path
) -> None:
    assert changes(tmp_path, partial(core, summary)) == caught


def test_the_report_names_the_change(tmp_path: Path) -> None:
    (first, *_) = [
        failure for failure in failures(tmp_path, partial(RecordingCore, with_copies)) if "changed" in failure
    ]
    assert first.startswith(f"{tmp_path / 'story.yaml'}:15: lines that come twice (try ")
    assert "at the end of step 1, incident " in first
    assert ": title: '" in first


# the variations


def deliveries(tmp_path: Path) -> tuple[Delivery, ...]:
    text = A_SCENARIO.replace(
        "lines:\n", "lines:\n      - {every: 2s, from: +0s, to: +2m, job: A, ranks: all, text: hello}\n"
    )
    (chapter,) = chapters_of(scenario(tmp_path, text).spec)
    return chapter.deliveries


def by_file(varied: list[Delivery]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for delivery in varied:
        found.setdefault(delivery.file, []).extend(line.number for line in delivery.lines)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_reordered_keeps_each_file_in_order_and_within_the_lateness(seed: int, tmp_path: Path) -> None:
    before = deliveries(tmp_path)
    after = reordered(before, LATENESS_NS, Random(seed))
    assert by_file(after) == by_file(list(before))
    assert [delivery.lines for delivery in after] != [delivery.lines for delivery in before]
    assert [delivery.arrival_ns for delivery in after] == sorted(delivery.arrival_ns for delivery in after)
    assert all(0 <= delivery.arrival_ns - delivery.lines[0].time_ns < LATENESS_NS for delivery in after)


@pytest.mark.parametrize("first_most", [True, False])
def test_one_of_two_files_lags_by_nearly_the_lateness(first_most: bool, tmp_path: Path) -> None:
    before = deliveries(tmp_path)
    after = lagging(before, LATENESS_NS, Random(0), first_most)
    assert by_file(after) == by_file(list(before))
    written_ns = {delivery.lines: delivery.arrival_ns for delivery in before}
    lags_ns = {(delivery.file, delivery.arrival_ns - written_ns[delivery.lines]) for delivery in after}
    lag_ns = LATENESS_NS - 1_000_000_001
    assert lags_ns >= {("n1/A.log", lag_ns * first_most), ("n2/kernel.log", lag_ns * (not first_most))}


@pytest.mark.parametrize("seed", range(5))
def test_repeated_adds_copies_within_the_lateness(seed: int, tmp_path: Path) -> None:
    before = deliveries(tmp_path)
    after = repeated(before, LATENESS_NS, Random(seed))
    assert len(before) < len(after) < 2 * len(before)
    assert {delivery.lines for delivery in after} == {delivery.lines for delivery in before}
    assert [delivery.arrival_ns for delivery in after] == sorted(delivery.arrival_ns for delivery in after)
    assert all(0 <= delivery.arrival_ns - delivery.lines[0].time_ns < LATENESS_NS for delivery in after)


@pytest.mark.parametrize("seed", range(5))
def test_cut_up_keeps_every_line_once(seed: int, tmp_path: Path) -> None:
    before = deliveries(tmp_path)
    after = cut_up(before, LATENESS_NS, Random(seed))
    assert len(after) > len(before)
    assert by_file(after) == by_file(list(before))


def test_an_unfinished_block_waits_while_its_rest_is_near(tmp_path: Path) -> None:
    lines = [line for delivery in deliveries(tmp_path) for line in delivery.lines]
    for delivery in as_written(lines, 0):
        of_file = [line for line in lines if line.file == delivery.file]
        later = [line for line in of_file if line.number > delivery.lines[-1].number]
        is_near = bool(later) and later[0].time_ns - delivery.lines[-1].time_ns < 1_000_000_000
        assert delivery.continues == is_near


def test_a_line_of_an_earlier_time_arrives_late(tmp_path: Path) -> None:
    late = A_SCENARIO + "  - lines: [{at: +5s, on: n1, text: late}]\n"
    first, second = chapters_of(scenario(tmp_path, late).spec)
    (delivery,) = second.deliveries
    assert delivery.arrival_ns == first.end_ns - LATENESS_NS
    assert delivery.arrival_ns > delivery.lines[0].time_ns
