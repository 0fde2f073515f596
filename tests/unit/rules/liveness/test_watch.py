"""Each verdict on missing logs, with the exact time at which it is declared; and healthy jobs, which get none."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pytest
from msgspec.structs import replace

from epicenter.rules.engine import Engine
from epicenter.rules.liveness.progress import JobProgress
from epicenter.rules.liveness.state import new_watch
from epicenter.rules.model.heartbeats import Advanced, Alive, Heartbeat, LineCut, NodeCount, Step, WorldSize
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.times import NS_PER_S, order_ns
from tests.support.heartbeats import PACE_S, alive_every, earlier_attempt, of_all, phase, run, steps, verdicts
from tests.support.logs import START_NS, at
from tests.support.signals import a_match, a_step


@pytest.mark.parametrize(
    ("pace_s", "wait_s"),
    [
        pytest.param(0.5, 119.5, id="two-minutes-of-short-steps"),
        pytest.param(5, 115, id="two-minutes"),
        pytest.param(60, 180, id="three-steps"),
    ],
)
def test_a_job_whose_cadence_is_known_has_stopped_when_a_step_is_late(
    fresh: Engine, pace_s: float, wait_s: float
) -> None:
    fresh.add([], earlier_attempt(pace_s))
    run(fresh, steps(113, pace_s=pace_s), 113 * pace_s + pace_s + wait_s - 0.001)
    assert verdicts(fresh) == []
    (hang,) = fresh.advance(at(114 * pace_s + wait_s))
    assert (hang.failure_class, hang.verdict, hang.jobs, hang.nodes) == ("hang", "hung", ("A",), ())
    assert hang.first_seen == hang.chain[0].onset
    assert verdicts(fresh) == [("hung", "", None, 114 * pace_s + wait_s)]
    assert fresh.advance(at(114 * pace_s + 3000)) == []


def test_a_job_that_reports_every_tenth_step_may_pause_after_its_next_report_was_due(fresh: Engine) -> None:
    reported = [step for step in steps(647, pace_s=6.5) if step.step % 10 == 7]
    run(fresh, reported, 647 * 6.5 + 65 + 119.999)
    assert verdicts(fresh) == []
    fresh.advance(at(647 * 6.5 + 65 + 120))
    assert verdicts(fresh) == [("hung", "", None, 647 * 6.5 + 65 + 120)]


def test_a_job_without_a_known_cadence_gets_a_quarter_of_an_hour(fresh: Engine) -> None:
    run(fresh, steps(8), 939.9)
    assert verdicts(fresh) == []
    run(fresh, [], 940)
    assert verdicts(fresh) == [("hung", "", None, 940)]


def test_a_silence_after_a_cause_of_failures_is_no_pause(fresh: Engine) -> None:
    fresh.add([a_match("nvidia.xid_79", 590, "n1", "")], [])
    run(fresh, [*steps(117), *alive_every("worker", "n1", 0, 585)], 604.999)
    assert verdicts(fresh) == []
    fresh.advance(at(605))
    assert verdicts(fresh) == [("hung", "", None, 605)]


def test_a_silence_after_an_error_that_jobs_survive_may_be_a_pause(fresh: Engine) -> None:
    fresh.add([a_match("nvme.timeout", 590, "n1", "")], [])
    run(fresh, [*steps(117), *alive_every("worker", "n1", 0, 585)], 640)
    assert verdicts(fresh) == []


def test_a_job_cancelled_while_it_may_pause_had_hung_when_it_was_silent_for_five_minutes(fresh: Engine) -> None:
    fresh.add([a_match("slurm.cancelled", 585 + 300, "n1", "A")], [])
    run(fresh, steps(117), 1000)
    assert verdicts(fresh) == [("hung", "", None, 885), ("cancelled", "", None, 885)]


def test_a_job_cancelled_soon_after_its_last_step_had_not_hung(fresh: Engine) -> None:
    fresh.add([a_match("slurm.cancelled", 585 + 299, "n1", "A")], [])
    run(fresh, steps(117), 1000)
    assert verdicts(fresh) == [("cancelled", "", None, 884)]


@pytest.mark.parametrize(("cancelled_s", "found"), [(1099, ["cancelled"]), (1100, ["hung", "cancelled"])])
def test_a_job_cancelled_soon_after_a_line_of_an_evaluation_had_not_hung(
    fresh: Engine, cancelled_s: int, found: list[str]
) -> None:
    fresh.add([a_match("slurm.cancelled", cancelled_s, "n1", "A")], [])
    run(fresh, [*steps(117), phase("evaluation", 800)], 1200)
    assert [verdict for verdict, *_ in verdicts(fresh)] == found


@pytest.mark.parametrize(("reports", "found"), [(5, ["hung", "cancelled"]), (4, ["cancelled"])])
def test_a_few_slow_reports_over_five_minutes_make_a_cadence(fresh: Engine, reports: int, found: list[str]) -> None:
    last_s = 90 * reports
    fresh.add([a_match("slurm.cancelled", last_s + 480, "n1", "A")], [])
    run(fresh, steps(reports, pace_s=90), last_s + 700)
    assert [verdict for verdict, *_ in verdicts(fresh)] == found


def test_a_cancelled_job_without_step_numbers_has_no_last_step() -> None:
    progress = JobProgress(0)
    assert progress.last_step_in_words == "it reported no step"
    progress.count(at(5))
    assert progress.last_step_in_words == "its progress has no step numbers"


def test_all_ranks_at_one_step_are_hung(engine: Engine) -> None:
    (hang,) = run(engine, of_all(117, nodes=4, gpus=2), 720)
    assert (hang.verdict, hang.root_cause.node, hang.root_cause.rank) == ("hung", "", None)
    assert hang.chain[0].text == (
        "no step after step 117; until then a step took 5.0 s; all 8 ranks that report steps are at step 117"
    )


def test_a_rank_without_the_step_of_the_others_is_dead(engine: Engine) -> None:
    (hang,) = run(engine, [heartbeat for heartbeat in of_all(117) if (heartbeat.rank, heartbeat.step) != (2, 117)], 700)
    assert (hang.failure_class, hang.verdict) == ("unknown-death", "rank-dead")
    assert (hang.root_cause.node, hang.root_cause.rank) == ("n2", 2)
    assert verdicts(engine) == [("rank-dead", "n2", 2, 117 * 5 + 20)]


def test_a_rank_behind_that_makes_steps_while_the_others_wait_is_a_straggler(engine: Engine) -> None:
    heartbeats = [heartbeat for heartbeat in of_all(117) if heartbeat.rank != 2 or heartbeat.step < 116]
    (found,) = run(engine, [*heartbeats, Step(at(595), "default", "A", "n2", 116, 2)], 700)
    assert (found.failure_class, found.verdict) == ("straggler", "straggler")
    assert verdicts(engine) == [("straggler", "n2", 2, 605)]


def test_a_rank_that_lags_more_and_more_is_a_straggler_until_it_has_caught_up(engine: Engine) -> None:
    slow = steps(100, pace_s=6, node="n2", rank=2)
    heartbeats = [heartbeat for heartbeat in of_all(300) if heartbeat.rank != 2 or heartbeat.step > 125]
    (found,) = run(engine, [*slow, *heartbeats], 1000)
    assert (found.failure_class, found.root_cause.node, found.root_cause.rank) == ("straggler", "n2", 2)
    assert found.status == "resolved"


def test_a_job_at_a_third_of_its_pace_has_a_straggler(engine: Engine) -> None:
    run(engine, [*steps(117), *steps(160, 118, 117 * 5 + 15, pace_s=15)], 117 * 5 + 600)
    assert [(verdict, node) for verdict, node, _, _ in verdicts(engine)] == [("straggler", "")]


SLOWER = [*steps(117), *steps(160, 118, 117 * 5 + 8, pace_s=8)]


def test_a_job_with_a_throttled_node_has_a_straggler_when_its_steps_take_half_as_long_again(engine: Engine) -> None:
    throttled = a_match("machine.cpu_throttled", 600, "n2", "", source="kernel")
    engine.add([throttled], alive_every("worker", "n2", 0, 580))
    (found,) = run(engine, SLOWER, 117 * 5 + 340)
    assert (found.root_cause.failure_class, found.root_cause.node) == ("cpu-thermal-throttle", "n2")


def test_a_processor_that_was_throttled_long_before_explains_no_slow_steps(engine: Engine) -> None:
    throttled = a_match("machine.cpu_throttled", 100, "n2", "", source="kernel")
    engine.add([throttled], alive_every("worker", "n2", 0, 580))
    assert run(engine, SLOWER, 117 * 5 + 340) == []


def test_steps_that_take_half_as_long_again_for_no_known_reason_are_no_straggler(engine: Engine) -> None:
    assert run(engine, SLOWER, 117 * 5 + 340) == []


@pytest.mark.parametrize(
    ("times", "minutes", "found"),
    [
        pytest.param(1.6, 11, ["straggler"], id="ten-minutes"),
        pytest.param(1.6, 9.5, [], id="less-than-ten-minutes"),
        pytest.param(1.6, 5, [], id="five-minutes"),
        pytest.param(1.4, 30, [], id="hardly-slower"),
    ],
)
def test_a_job_that_is_slower_by_half_for_ten_minutes_has_a_straggler(
    engine: Engine, times: float, minutes: float, found: list[str]
) -> None:
    pace_s = times * PACE_S
    count = int(60 * minutes / pace_s)
    run(engine, [*steps(117), *steps(117 + count, 118, 117 * PACE_S + pace_s, pace_s)], 117 * PACE_S + 60 * minutes)
    assert [verdict for verdict, *_ in verdicts(engine)] == found


def test_a_job_that_is_slower_by_half_for_ten_minutes_has_been_since_the_first_of_them(engine: Engine) -> None:
    (found,) = run(engine, [*steps(117), *steps(200, 118, 117 * PACE_S + 8, 8)], 117 * PACE_S + 640)
    assert found.chain[0].text == "each step now takes 8.0 s instead of 5.0 s; no rank says that it is the cause"
    assert "2026-03-02T09:09:45" <= found.chain[0].onset < "2026-03-02T09:10:00Z"


@pytest.mark.parametrize(
    ("minutes", "severity"), [pytest.param(29, "warning", id="a-spell"), pytest.param(31, "error", id="lasting")]
)
def test_steps_that_are_slow_for_no_known_reason_page_after_half_an_hour(
    engine: Engine, minutes: int, severity: str
) -> None:
    slow_s, count = 2 * PACE_S, 6 * minutes
    slow = steps(117 + count, 118, 117 * PACE_S + slow_s, slow_s)
    (found,) = run(engine, [*steps(117), *slow], 117 * PACE_S + 60 * minutes)
    assert (found.failure_class, found.severity) == ("straggler", severity)


def test_the_first_steps_after_a_restart_may_become_faster_slowly(engine: Engine) -> None:
    times_s, now_s = [], 117 * PACE_S + 100
    for number in range(60):
        now_s += max(PACE_S, 4 * PACE_S * 0.95**number)
        times_s.append(now_s)
    again = [Step(at(second), "default", "A", "n1", 100 + number, None) for number, second in enumerate(times_s)]
    run(engine, [*steps(117), *again], now_s)
    assert verdicts(engine) == []


@pytest.mark.parametrize("per_burst", [12, 14, 16])
def test_output_in_bursts_from_one_rank_after_another_shows_how_long_steps_take(fresh: Engine, per_burst: int) -> None:
    pace_s, begin_s, last, bursts = 10.4, 0.0, 1_000, list[Step]()
    for burst in range(60):
        count, pause_s = (5, 60) if burst % 16 == 0 else (per_burst, 0)
        begin_s += count * pace_s + pause_s
        for rank in (0, 1):
            times = [at(begin_s + rank * pace_s + number / 1000) for number in range(count)]
            bursts += [Step(time, "default", "A", "n1", last + rank + n, rank) for n, time in enumerate(times)]
        last += count
    run(fresh, bursts, begin_s + pace_s)
    assert verdicts(fresh) == []


def test_a_job_of_fast_steps_that_is_slower_by_half_for_ten_minutes_has_a_straggler(engine: Engine) -> None:
    fast_s = PACE_S / 5
    slower = steps(2000, 1001, 1000 * fast_s + 1.7, 1.7)
    (found,) = run(engine, [*steps(1000, 1, fast_s, fast_s), *slower], 1000 * fast_s + 700)
    assert found.chain[0].text == "each step now takes 1.7 s instead of 1.0 s; no rank says that it is the cause"


def test_the_first_slow_steps_count_though_they_seemed_to_be_pauses(engine: Engine) -> None:
    often = [step for step in steps(220) if step.step % 11 == 0]
    seldom = [step for step in steps(300, 221, 220 * PACE_S + 15, 15) if step.step % 11 == 0]
    (found,) = run(engine, [*often, *seldom[:6]], 220 * PACE_S + 66 * 15)
    assert found.root_cause.failure_class == "straggler"


def test_progress_without_step_numbers_that_slows_down_for_no_known_reason_is_no_straggler(fresh: Engine) -> None:
    moments = [*range(0, 1000, 5), *range(1000, 2000, 8)]
    run(fresh, [Advanced(at(second), "default", "A", "n1") for second in moments], 2000)
    assert verdicts(fresh) == []


@pytest.mark.parametrize(("phases", "found"), [([], ["straggler"]), (["serving"], [])])
def test_a_server_on_a_throttled_node_that_has_fewer_requests_is_no_straggler(
    fresh: Engine, phases: list[str], found: list[str]
) -> None:
    moments = [*range(0, 1000, 5), *range(1000, 2000, 12)]
    fresh.add([a_match("machine.cpu_throttled", 900, "n1", source="kernel")], [])
    advanced = [Advanced(at(second), "default", "A", "n1") for second in moments]
    run(fresh, [*advanced, *(phase(name, second) for second in moments for name in phases)], 2000)
    assert [verdict for verdict, *_ in verdicts(fresh)] == found


def computing(heartbeats: Iterable[Step], slow_ranks: Collection[int], since_s: float) -> list[Step]:
    """The same steps with the time that each rank computed: 4 s, and from a second on 7 s on slow ranks."""
    return [
        replace(
            step,
            compute_ns=(7 if step.rank in slow_ranks and step.event_time_ns >= at(since_s) else 4) * NS_PER_S,
        )
        for step in heartbeats
    ]


SLOW_S: Final = 117 * 5 + 8
ALL_SLOWER: Final = [
    *of_all(117, nodes=2, gpus=4),
    *(replace(step, rank=rank, node=f"n{rank // 4}") for step in SLOWER[118:] for rank in range(8)),
]


@pytest.mark.parametrize(
    ("slow_ranks", "place"),
    [
        pytest.param([6], ("n1", 6), id="one-rank"),
        pytest.param([4, 6, 7], ("n1", None), id="ranks-of-a-node"),
        pytest.param([2, 6], None, id="ranks-of-two-nodes"),
        pytest.param(range(8), None, id="all"),
        pytest.param([], None, id="none"),
    ],
)
def test_ranks_of_one_node_that_compute_for_longer_explain_slow_steps(
    engine: Engine, slow_ranks: Collection[int], place: tuple[str, int | None] | None
) -> None:
    found = run(engine, computing(ALL_SLOWER, slow_ranks, SLOW_S), 117 * 5 + 340)
    places = [(incident.root_cause.node, incident.root_cause.rank) for incident in found]
    assert places == ([place] if place else [])


@pytest.mark.parametrize("pause_s", [15, 69])
def test_slow_steps_that_a_check_explains_are_reported_by_the_next_step(engine: Engine, pause_s: int) -> None:
    slow = [s for r in range(4) for s in steps(200, 118, 117 * 5 + pause_s, 15, f"n{r}", r)]
    found = run(engine, computing([*of_all(117), *slow], [3], 117 * 5 + 1), 117 * 5 + 600)
    assert [(incident.root_cause.node, incident.root_cause.rank) for incident in found] == [("n3", 3)]


def test_a_slow_rank_that_no_line_names_is_known_by_its_node(engine: Engine) -> None:
    of_ranks = computing(ALL_SLOWER, [6], SLOW_S)
    unnamed = [replace(step, rank=None, node=f"n{step.rank // 2}") for step in of_ranks if step.rank is not None]
    (found,) = run(engine, unnamed, 117 * 5 + 340)
    assert (found.root_cause.node, found.root_cause.rank) == ("n3", None)


def test_the_rank_that_computes_for_longer_is_named_with_how_much(engine: Engine) -> None:
    (found,) = run(engine, computing(ALL_SLOWER, [6], SLOW_S), 117 * 5 + 340)
    assert found.chain[0].text == (
        "each step now takes 8.0 s instead of 5.0 s; "
        "rank 6 on n1 computes for 1.8 times as long as before, others don't"
    )


def test_slow_ranks_whose_nodes_are_unknown_explain_nothing_as_they_may_be_on_several(engine: Engine) -> None:
    placeless = [replace(step, node="") for step in computing(ALL_SLOWER, [2, 6], SLOW_S)]
    assert run(engine, placeless, 117 * 5 + 340) == []


def test_a_rank_that_always_computes_for_longer_explains_no_slow_steps(engine: Engine) -> None:
    assert run(engine, computing(ALL_SLOWER, [6], 0), 117 * 5 + 340) == []


def ever(slow_ranks: Collection[int], slow_s: float, usual_s: float) -> list[Step]:
    """Even steps of 5 s of 8 ranks, of which each computes as long from the first to the last."""
    computed_s = {rank: slow_s if rank in slow_ranks else usual_s for rank in range(8)}
    even = of_all(117, nodes=2, gpus=4)
    return [replace(step, compute_ns=round(computed_s[step.rank or 0] * NS_PER_S)) for step in even]


@pytest.mark.parametrize(
    ("slow_ranks", "slow_s", "usual_s", "place"),
    [
        pytest.param([6], 4.8, 1.2, ("n1", 6), id="one-rank"),
        pytest.param([4, 6, 7], 4.8, 1.2, ("n1", None), id="ranks-of-a-node"),
        pytest.param([2, 6], 4.8, 1.2, None, id="ranks-of-two-nodes"),
        pytest.param([6], 4.8, 3.2, None, id="a-longer-stage-of-a-pipeline"),
        pytest.param([6], 0.8, 0.2, None, id="computation-is-a-small-part-of-a-step"),
    ],
)
def test_ranks_of_one_node_that_compute_for_far_longer_than_the_others_slow_down_the_job_from_the_start(
    engine: Engine, slow_ranks: Collection[int], slow_s: float, usual_s: float, place: tuple[str, int | None] | None
) -> None:
    found = run(engine, ever(slow_ranks, slow_s, usual_s), 117 * 5)
    assert [(incident.root_cause.node, incident.root_cause.rank) for incident in found] == ([place] if place else [])
    assert [name for name, *_ in verdicts(engine)] == (["straggler"] if place else [])


def test_a_rank_that_computes_for_far_longer_from_the_start_is_named_with_how_much(engine: Engine) -> None:
    (found,) = run(engine, ever([6], 4.8, 1.2), 117 * 5)
    assert found.chain[0].text == (
        "each step takes 5.0 s; rank 6 on n1 computes for 4.0 times as long as most others, which wait for it"
    )


def test_a_job_that_reports_round_steps_only_is_slow_too(engine: Engine) -> None:
    engine.add([a_match("machine.cpu_throttled", 5 * 200 + 30, "n2", "", source="kernel")])
    engine.add([], alive_every("worker", "n2", 0, 980))
    reported = [step for step in [*steps(200), *steps(300, 201, 1008, pace_s=8)] if step.step % 5 == 0]
    (found,) = run(engine, reported, 1800)
    assert (found.root_cause.failure_class, found.root_cause.node) == ("cpu-thermal-throttle", "n2")


def test_a_throttled_node_whose_job_keeps_its_pace_is_no_straggler(engine: Engine) -> None:
    throttled = a_match("machine.cpu_throttled", 300, "n2", "", source="kernel")
    engine.add([throttled], alive_every("worker", "n2", 0, 580))
    assert run(engine, steps(117), 590) == []


def test_progress_without_step_numbers_that_becomes_rarer_is_no_straggler(engine: Engine) -> None:
    bars = [Advanced(at(5 * number), "default", "A", "n1") for number in range(100)]
    bars += [Advanced(at(500 + 30 * number), "default", "A", "n1") for number in range(30)]
    run(engine, bars, 1400)
    assert verdicts(engine) == []


@pytest.mark.parametrize(("pace_s", "pause_s", "ahead_s"), [(5, 110, 85), (6.2, 60, 75), (6.5, 60, 87), (6.5, 80, 75)])
def test_a_rank_with_a_fast_clock_is_no_straggler_in_pauses_nor_after_them(
    fresh: Engine, pace_s: float, pause_s: int, ahead_s: int
) -> None:
    runs = (steps(100 * n + 99, 100 * n, n * (100 * pace_s + pause_s), pace_s) for n in range(6))
    reported = [step for of_run in runs for step in of_run]
    ranks = [replace(step, node=f"n{rank}", rank=rank) for rank in range(4) for step in reported]
    ahead_ns = ahead_s * NS_PER_S
    run(
        fresh,
        [replace(s, event_time_ns=s.event_time_ns + ahead_ns * (s.rank == 2)) for s in ranks],
        600 * pace_s + 5 * pause_s,
    )
    assert "straggler" not in [verdict for verdict, *_ in verdicts(fresh)]


@pytest.mark.parametrize("deliveries", [1, 2])
def test_the_steps_of_a_fast_clock_are_no_restart_after_the_others_stopped(deliveries: int) -> None:
    watch = new_watch(steps(1)[0])
    ranks = [*steps(117, node="n1", rank=1), *steps(117, start_s=180, node="n2", rank=2)]
    for step in sorted(ranks * deliveries, key=lambda step: step.event_time_ns):
        watch.step(step)
    assert watch.progress.attempt == 1
    watch.step(steps(80, 80, 900, node="n2", rank=2)[0])
    assert watch.progress.attempt == 2


@pytest.mark.parametrize(
    ("is_finished", "resumes_s", "attempt"),
    [
        pytest.param(False, 900, 2, id="long-after-it-failed"),
        pytest.param(False, 600, 1, id="at-once"),
        pytest.param(True, 900, 1, id="after-the-end-of-a-part"),
    ],
)
def test_a_job_that_failed_and_makes_its_next_step_is_in_a_new_attempt(
    is_finished: bool, resumes_s: int, attempt: int
) -> None:
    watch = new_watch(steps(1)[0])
    for step in [*steps(116), *steps(120, 117, resumes_s)]:
        if step.step == 117:
            watch.progress.end(is_finished)
        watch.step(step)
    assert (watch.progress.attempt, watch.progress.last_step) == (attempt, 120)


def test_a_rank_with_a_fast_clock_is_not_dead_when_its_last_steps_are_still_to_come(fresh: Engine) -> None:
    ahead_s = {1: 19.0, 2: 37.5}
    fresh.add([a_match("nvidia.xid_79", 590, "n0", "")], [])
    run(fresh, [s for r in range(6) for s in steps(117, start_s=ahead_s.get(r, 0), node=f"n{r}", rank=r)], 700)
    assert [verdict for verdict, *_ in verdicts(fresh)] == ["hung"]


def beside_steps(node: str, start_s: int) -> list[Alive]:
    return alive_every("worker", node, start_s, start_s + 117 * PACE_S)


def test_a_node_without_kernel_and_worker_lines_is_dead(engine: Engine) -> None:
    streams = [
        alive
        for number in range(4)
        for source in ("kernel", "worker")
        for alive in alive_every(source, f"n{number}", 0, 580 if number == 3 else 1500)
    ]
    found = run(engine, [*steps(117), *streams], 1500)
    assert found[-1].failure_class == "node-fail"
    assert (found[-1].verdict, found[-1].root_cause.node) == ("node-dead", "n3")
    assert [(verdict, node) for verdict, node, _, _ in verdicts(engine)] == [("node-dead", "n3")]
    assert verdicts(engine)[0][3] <= 605 + 120


def test_workers_of_a_node_whose_clock_is_behind_are_not_dead_as_the_others_report_the_same_steps_later(
    fresh: Engine,
) -> None:
    behind_s = 170
    of_ranks = [*steps(117, node="n0", rank=0), *steps(117, start_s=behind_s, node="n1", rank=1)]
    lines = [alive for node, start_s in (("n0", 0), ("n1", behind_s)) for alive in beside_steps(node, start_s)]
    kernels = [alive for node in ("n0", "n1") for alive in alive_every("kernel", node, 0, 1500)]
    run(fresh, [*of_ranks, *lines, *kernels], 1500)
    assert [verdict for verdict, *_ in verdicts(fresh)] == ["hung"]


def test_a_listed_node_whose_kernel_falls_silent_is_dead_although_no_line_of_the_job_names_it(fresh: Engine) -> None:
    names = [f"n{number}" for number in range(4)]
    fresh.add([], [], [RankPlacement(at(0), "default", "A", node, is_listed=True) for node in names])
    kernels = [alive for node in names for alive in alive_every("kernel", node, 0, 580 if node == "n3" else 1500)]
    found = run(fresh, [*steps(117, node=""), *kernels], 1500)
    assert (found[-1].verdict, found[-1].root_cause.node) == ("node-dead", "n3")


def test_a_node_whose_kernel_rarely_logs_is_not_dead_since_others_log_often(fresh: Engine) -> None:
    of_ranks = [step for rank in range(4) for step in steps(117, node=f"n{rank}", rank=rank)]
    kernels = [alive for rank in range(3) for alive in alive_every("kernel", f"n{rank}", 0, 1500)]
    run(fresh, [*of_ranks, *kernels, *alive_every("kernel", "n3", 300, 300)], 1500)
    assert [verdict for verdict, *_ in verdicts(fresh)] == ["hung"]


def test_workers_without_lines_on_a_node_with_kernel_lines_are_dead(engine: Engine) -> None:
    streams = [alive for number in range(4) for alive in alive_every("kernel", f"n{number}", 0, 1500)]
    streams += [
        alive
        for number in range(1, 4)
        for alive in alive_every("worker", f"n{number}", 0, 580 if number == 3 else 1500)
    ]
    (found,) = run(engine, [*steps(117), *streams], 1500)
    assert (found.failure_class, found.verdict, found.root_cause.node) == ("unknown-death", "rank-dead", "n3")


def test_the_only_node_that_reports_steps_is_not_suspected_for_its_silence(engine: Engine) -> None:
    streams = [alive for number in range(2, 5) for alive in alive_every("worker", f"n{number}", 0, 3000)]
    (found,) = run(engine, [*steps(117), *alive_every("worker", "n1", 0, 585), *streams], 3000)
    assert (found.verdict, found.root_cause.node) == ("hung", "")


def test_missing_logs_of_all_nodes_are_the_shipper_s_until_a_line_arrives(engine: Engine) -> None:
    streams = [alive for number in range(8) for alive in alive_every("kernel", f"n{number}", 0, 585)]
    workers = [alive for number in range(8) for alive in alive_every("worker", f"n{number}", 0, 585)]
    assert run(engine, [*steps(117), *streams, *workers], 1200) == []
    assert [verdict for verdict, *_ in verdicts(engine)] == ["shipper-silent"]
    (found,) = run(engine, alive_every("kernel", "n4", 1300, 1400), 1500)
    assert found.verdict == "hung"


def test_missing_logs_of_a_single_node_are_a_hang(engine: Engine) -> None:
    (found,) = run(
        engine, [*steps(117), *alive_every("kernel", "n1", 0, 585), *alive_every("worker", "n1", 0, 585)], 720
    )
    assert found.verdict == "hung"


def test_a_node_whose_streams_stop_while_the_job_makes_steps_has_a_silent_shipper(engine: Engine) -> None:
    streams = [
        alive
        for number in range(4)
        for source in ("kernel", "worker")
        for alive in alive_every(source, f"n{number}", 0, 600 if number == 3 else 3000)
    ]
    assert run(engine, [*steps(600), *streams], 3000) == []
    assert [(verdict, node) for verdict, node, _, _ in verdicts(engine)] == [("shipper-silent", "n3")]


def test_ranks_that_never_started_are_named(fresh: Engine) -> None:
    banners = [WorldSize(at(rank), "default", "A", f"n{rank}", 8, rank) for rank in range(8) if rank != 5]
    (found,) = run(fresh, banners, 2000)
    assert (found.failure_class, found.verdict, found.root_cause.rank) == ("rendezvous-timeout", "never-started", 5)
    assert verdicts(fresh) == [("never-started", "", 5, 900)]
    assert found.chain[0].text == "no first step; 1 of 8 ranks never started: 5"


def test_banners_whose_time_is_unknown_start_no_clock(fresh: Engine) -> None:
    banners = [WorldSize(order_ns(rank), "default", "A", f"n{rank}", 8, rank) for rank in range(8) if rank != 5]
    assert run(fresh, [*banners, Alive(at(1), "default", "B", "n1")], 2000) == []
    assert verdicts(fresh) == []


def test_nodes_that_never_joined_are_counted(fresh: Engine) -> None:
    node_count = NodeCount(at(0), "default", "A", "n0", 8)
    heartbeats = [Alive(at(1), "default", "A", f"n{number}") for number in range(7)]
    (found,) = run(fresh, [node_count, *heartbeats], 2000)
    assert (found.failure_class, found.verdict) == ("rendezvous-timeout", "never-started")
    assert verdicts(fresh) == [("never-started", "", None, 900)]
    assert found.chain[0].text == "no first step; 1 of 8 nodes never logged"


def test_a_log_of_one_node_gives_no_verdict_on_the_others(fresh: Engine) -> None:
    assert run(fresh, [NodeCount(at(0), "default", "A", "n0", 8)], 2000) == []


def test_a_last_line_that_ends_in_the_middle_is_cut_off(engine: Engine) -> None:
    workers = [*alive_every("worker", "n1", 0, 585), *alive_every("worker", "n2", 0, 585)]
    (found,) = run(engine, [*steps(117), *workers, LineCut(at(586), "default", "", "n2")], 700)
    assert (found.failure_class, found.verdict, found.root_cause.node) == ("log-truncated", "cut-off", "n2")


def test_lines_that_always_end_in_the_middle_are_not_cut_off(engine: Engine) -> None:
    cuts = [LineCut(at(5 * number + 1), "default", "", "n1") for number in range(118)]
    (found,) = run(engine, [*steps(117), *alive_every("worker", "n1", 0, 585), *cuts], 720)
    assert found.verdict == "hung"


@pytest.mark.parametrize(("rule", "expected"), [("progress.finished", "finished"), ("slurm.cancelled", "cancelled")])
def test_a_job_that_has_ended_is_only_recorded(engine: Engine, rule: str, expected: str) -> None:
    engine.add([a_match(rule, 590, "n1", "A")])
    assert run(engine, steps(117), 5000) == []
    assert verdicts(engine) == [(expected, "", None, 590)]


@pytest.mark.parametrize(("last_s", "expected"), [(605, ["cancelled"]), (700, ["cancelled", "hung"])])
def test_a_step_that_was_under_way_when_its_job_ended_does_not_revive_it(
    engine: Engine, last_s: int, expected: list[str]
) -> None:
    engine.add([a_match("slurm.cancelled", 590, "n1", "A")])
    run(engine, [*steps(117), a_step(118, last_s)], 5000)
    assert [verdict for verdict, *_ in verdicts(engine)] == expected


@pytest.mark.parametrize("rule", ["slurm.time_limit", "elastic.worker_failed"])
def test_a_job_that_failed_was_not_cancelled(engine: Engine, rule: str) -> None:
    engine.add([a_match(rule, 590, "n1", "A")])
    run(engine, steps(117), 5000)
    assert verdicts(engine) == [("failed", "", None, 590)]


def bursts(count: int, size: int = 40, every_s: float = 200) -> list[Step]:
    steps_at = [(size * burst + n, every_s * (burst + 1) + n / 1000) for burst in range(count) for n in range(size)]
    return [a_step(step, second) for step, second in steps_at]


def test_output_in_bursts_is_no_hang(fresh: Engine) -> None:
    assert run(fresh, bursts(21), 4200 + 500) == []
    (found,) = run(fresh, [], 4201 + 500)
    assert found.verdict == "hung"
    assert [verdict for verdict, *_ in verdicts(fresh)] == ["buffered", "hung"]


def checkpoints(announced: bool, pause_s: float = 90, period: int = 100, upto: int = 1000) -> list[Heartbeat]:
    heartbeats, second = [], 0.0
    for step in range(1, upto + 1):
        second += PACE_S
        heartbeats.append(a_step(step, second))
        if step % period == 0:
            if announced:
                heartbeats.append(phase("checkpoint", second + 0.2))
            second += pause_s
    return heartbeats


def jittered(heartbeats: list[Step]) -> list[Step]:
    return [
        replace(heartbeat, event_time_ns=heartbeat.event_time_ns + (7919 * number % 1000) * 1_500_000)
        for number, heartbeat in enumerate(heartbeats)
    ]


HEALTHY = {
    "steady": steps(1000),
    "uneven-by-a-second": jittered(steps(1000)),
    "checkpoints-announced": checkpoints(True),
    "checkpoints-announced-at-odd-steps": checkpoints(True, period=37),
    "checkpoints-unannounced": checkpoints(False),
    "checkpoints-unannounced-every-30": checkpoints(False, period=30),
    "checkpoints-of-nine-minutes": checkpoints(False, pause_s=540, period=250),
    "counted-from-zero": [
        a_step(step.step - 1, (step.event_time_ns - START_NS) / NS_PER_S) for step in checkpoints(False)
    ],
    "evaluation": [*steps(340), phase("evaluation", 1701), *steps(1000, 341, 2200)],
    "warm-up": [*steps(5, pace_s=90), *steps(1000, 6, 460)],
    "compile-after-the-first": [*steps(1), *steps(1000, 2, 700)],
    "slower-and-slower": [a_step(number, 5 * number + number**2 / 400) for number in range(1000)],
    "reported-every-tenth": [a_step(10 * number, 50 * number) for number in range(200)],
    "reported-every-hundredth": [a_step(100 * number, 500 * number) for number in range(40)],
    "bursts": bursts(30),
    "one-step-of-three": [*steps(117), *steps(1000, 118, 117 * 5 + 15)],
    "slow-for-a-minute": [*steps(117), *steps(123, 118, 595, 12), *steps(1000, 124, 660)],
    "restart": [*steps(340), phase("startup", 1712), *steps(900, 300, 1900)],
    "ranks": of_all(300, nodes=4, gpus=2),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_gets_no_verdict(fresh: Engine, name: str) -> None:
    heartbeats = HEALTHY[name]
    last_s = max(heartbeat.event_time_ns for heartbeat in heartbeats) / NS_PER_S - START_NS / NS_PER_S
    assert run(fresh, heartbeats, last_s) == []
    assert verdicts(fresh) == []


def test_a_stopped_job_that_makes_steps_again_recovers(engine: Engine) -> None:
    run(engine, steps(117), 700)
    (found,) = run(engine, steps(120, 118, 800), 900)
    assert (found.verdict, found.status) == ("hung", "resolved")


def test_jobs_and_nodes_without_lines_for_a_day_are_forgotten(fresh: Engine) -> None:
    run(fresh, [*steps(3), *alive_every("kernel", "n1", 0, 100)], 1000)
    size_bytes = len(fresh.snapshot())
    later_s = 25 * 3600
    run(
        fresh,
        [a_step(1, later_s, "B", "n2"), *alive_every("kernel", "n2", later_s, later_s + 100, job="B")],
        later_s + 7200,
    )
    assert len(fresh.snapshot()) < 1.5 * size_bytes


def test_a_job_that_has_ended_is_forgotten_after_two_hours(fresh: Engine) -> None:
    fresh.add([a_match("progress.finished", 590, "n1", "A")])
    run(fresh, [*steps(117), a_step(1, 600, "B", "n2")], 700)
    assert fresh.snapshot().count(b"last_step_ns") == 2
    run(fresh, [a_step(2, 3 * 3600 + 600, "C", "n3")], 3 * 3600 + 700)
    assert fresh.snapshot().count(b"last_step_ns") == 2
