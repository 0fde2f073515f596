"""An incident's life, with time passed in."""

from __future__ import annotations

import pytest
from msgspec import structs

from epicenter.rules.correlate.lifecycle import RESOLVE_AFTER_NS
from epicenter.rules.detect.signal import pci_address
from epicenter.rules.engine import STALL_FLOOR_NS, Engine
from epicenter.rules.model.heartbeats import Alive, Heartbeat, LineCut, Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.times import NS_PER_S, iso_from_ns, order_ns
from epicenter.rules.packs.ruleset import RuleSet
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, a_timeout, alive, an_xid

DAY_S = 86_400
RESOLVE_AFTER_S = RESOLVE_AFTER_NS // NS_PER_S
STALL_FLOOR_S = STALL_FLOOR_NS // NS_PER_S


@pytest.fixture
def engine() -> Engine:
    return Engine(the_rules())


def fed(*matches: Match, heartbeats: tuple[Heartbeat, ...] = ()) -> list[Incident]:
    engine = Engine(the_rules())
    engine.add(matches, heartbeats)
    return engine.flush()


def steps(count: int, job: str = "A", first: int = 0, start_s: float = 0, cluster: str = "default") -> list[Step]:
    return [a_step(first + number, start_s + 5 * number, job, cluster=cluster) for number in range(count)]


def test_opens_is_updated_and_is_resolved_by_quiet_time(engine: Engine) -> None:
    engine.add([an_xid(79, 10, "n1")], [alive(0, "A", "n1")])
    assert engine.advance(at(9)) == []
    (opened,) = engine.advance(at(10))
    assert (opened.status, opened.revision, opened.failure_class, opened.jobs) == ("open", 1, "xid-79", ("A",))
    engine.add([a_timeout(610, "n2", "A", 8)])
    (updated,) = engine.advance(at(620))
    assert (updated.incident_id, updated.status, updated.revision) == (opened.incident_id, "open", 2)
    assert engine.advance(at(610 + RESOLVE_AFTER_S) - 1) == []
    (resolved,) = engine.advance(at(610 + RESOLVE_AFTER_S))
    assert (resolved.incident_id, resolved.status, resolved.revision) == (opened.incident_id, "resolved", 3)
    assert resolved.root_cause == updated.root_cause


def test_is_resolved_when_its_job_makes_three_further_steps(engine: Engine) -> None:
    engine.add([a_match("nccl.remote_error", 100, "n1", "A")], steps(10))
    engine.advance(at(100))
    engine.add([], steps(2, first=10, start_s=200))
    assert engine.advance(at(210)) == []
    engine.add([], steps(1, first=12, start_s=210))
    (resolved,) = engine.advance(at(210))
    assert resolved.status == "resolved"
    assert resolved.progress["A"].last_step == 12


def test_an_error_in_between_begins_the_count_again(engine: Engine) -> None:
    engine.add([a_match("nccl.remote_error", second, "n1", "A") for second in (100, 207)], steps(10))
    engine.add([], steps(4, first=10, start_s=200))
    assert [incident.status for incident in engine.advance(at(300))] == ["open"]


def test_the_steps_of_a_namesake_in_another_cluster_resolve_nothing(engine: Engine) -> None:
    engine.add([a_match("nccl.remote_error", 100, "n1", "A")], steps(10))
    engine.add([], steps(20, first=10, start_s=110, cluster="other"))
    assert [incident.status for incident in engine.advance(at(300))] == ["open"]


def test_a_late_signal_is_counted_and_joins(engine: Engine) -> None:
    engine.add([a_timeout(610, "n1", "A", 0)], [alive(0, "A", "n2")])
    (first,) = engine.advance(at(700))
    engine.add([an_xid(79, 5, "n2")])
    (joined,) = engine.advance(at(701))
    assert (joined.incident_id, joined.signal_count) == (first.incident_id, 2)
    assert joined.root_cause.failure_class == "xid-79"
    assert engine.counts.late == 1


def test_a_job_that_was_requeued_is_a_straggler_when_it_is_slow_after_that(engine: Engine) -> None:
    engine.add([a_match("slurm.requeued", 501, "n1", "A")], steps(100))
    engine.add([], [a_step(80 + number, 700 + 40 * number, "A") for number in range(20)])
    assert [incident.verdict for incident in engine.advance(at(1500)) if incident.status == "open"] == ["straggler"]


def test_an_error_that_stays_and_comes_again_has_its_new_time(engine: Engine) -> None:
    failures = [an_xid(48, second, "n1") for second in (500, 1000)]
    failures += [a_match("nccl.remote_error", second, "n1", "A") for second in (503, 1003)]
    engine.add(failures, [*steps(100), *steps(60, first=80, start_s=700), alive(0, "A", "n1")])
    (again,) = [incident for incident in engine.advance(at(1010)) if incident.status == "open"]
    assert (again.failure_class, again.root_cause.event_time) == ("xid-48", "2026-03-02T09:16:40.000000000Z")
    assert again.signal_count == 2


def test_a_peer_known_by_its_address_joins_what_the_kernel_of_its_node_reports() -> None:
    lost = a_match("nccl.peer_gone", 30, "ip-10-0-3-18", "A", fields={"peer": "10.0.3.17:41520"})
    (incident,) = fed(an_xid(79, 10, "ip-10-0-3-17"), lost)
    assert (incident.failure_class, incident.jobs) == ("xid-79", ("A",))


BANNER_S, STOP_S = 3, 653


def a_stop_seen_by_a_node_whose_clock_is_off(off_s: float) -> list[Incident]:
    """All nodes print a banner and train; n1's GPU fails, and n3, whose clock is off, reports that n1 went away."""
    nodes = {"n1": 0.0, "n2": 0.0, "n3": off_s, "n4": 0.0}
    banners = [
        RankPlacement(at(BANNER_S + seconds), "default", "A", node, moment="Init COMPLETE")
        for node, seconds in nodes.items()
    ]
    lost = a_match("nccl.peer_gone", STOP_S + 2 + off_s, "n3", "A", fields={"peer": "n1"})
    engine = Engine(the_rules())
    engine.add(
        [an_xid(79, STOP_S, "n1"), lost],
        [*(alive(BANNER_S + seconds, "A", node) for node, seconds in nodes.items()), *steps(130, start_s=5)],
        banners,
    )
    return engine.flush()


@pytest.mark.parametrize("off_s", [-420, -60, 0, 60, 420])
def test_a_failure_that_a_clock_far_off_dates_wrongly_is_the_same_incident(off_s: int) -> None:
    (incident,) = a_stop_seen_by_a_node_whose_clock_is_off(off_s)
    assert (incident.failure_class, incident.root_cause.node) == ("xid-79", "n1")
    lost = incident.chain[1]
    assert (lost.failure_class, lost.node) == ("connection-reset", "n3")
    assert lost.event_time == "2026-03-02T09:10:55.000000000Z"


@pytest.mark.parametrize(("off_s", "last_s"), [(-420, 1585), (420, 2005)])
def test_the_newest_step_by_a_clock_that_is_ahead_keeps_its_time(engine: Engine, off_s: int, last_s: int) -> None:
    of_nodes = {"n1": off_s, "n2": 0, "n3": 0, "n4": 0}
    banners = [
        RankPlacement(at(500 + seconds), "default", "A", node, moment="Init COMPLETE")
        for node, seconds in of_nodes.items()
    ]
    reported = [a_step(number, 505 + off_s + 5 * number, "A", "n1") for number in range(300)]
    signs = [alive(500 + 20 * number, "A", node) for node in ("n2", "n3", "n4") for number in range(75)]
    now_s = 505 + 1500 + min(0, off_s)
    engine.add([an_xid(79, now_s, "n2")], [*reported, *signs], banners)
    (incident,) = engine.advance(at(now_s))
    assert incident.progress["A"].last_step_time == iso_from_ns(at(last_s))


def test_an_engine_that_is_snapshotted_corrects_clocks_as_one_that_is_not() -> None:
    nodes = {"n1": 0.0, "n2": 0.0, "n3": -420.0, "n4": 0.0}
    whole, cut = Engine(the_rules()), Engine(the_rules())
    for engine in (whole, cut):
        banners = [
            RankPlacement(at(500 + seconds), "default", "A", node, moment="Init COMPLETE")
            for node, seconds in nodes.items()
        ]
        engine.add([], steps(20, start_s=505), banners)
        engine.advance(at(610))
        engine.add([a_match("nccl.remote_error", 700 - 420, "n3", "A")])
        assert engine.advance(at(650)) == []
    cut = Engine(the_rules(), cut.snapshot())
    assert cut.advance(at(700)) == whole.advance(at(700)) != []


def test_a_kernel_line_with_the_earliest_onset_is_the_root() -> None:
    (incident,) = fed(
        *(a_timeout(611 + rank / 10, f"n{1 + rank // 8}", "A", rank) for rank in range(16)),
        an_xid(79, 10, "n2"),
        heartbeats=(alive(0, "A", "n1"), alive(0, "A", "n2")),
    )
    assert [link.failure_class for link in incident.chain] == ["xid-79", "nccl-timeout", "nccl-timeout", "nccl-timeout"]
    assert (incident.chain[0].role, incident.root_cause.node, incident.root_cause.gpu) == ("root", "n2", "0000:9a:00")
    assert (incident.chain[1].event_time, incident.chain[1].onset) == (
        "2026-03-02T09:10:11.000000000Z",
        "2026-03-02T09:00:11.000000000Z",
    )
    assert (incident.signal_count, incident.blast_radius.ranks, incident.blast_radius.nodes) == (17, 16, 2)
    assert incident.first_seen == "2026-03-02T09:00:10.000000000Z"


def test_a_node_s_kernel_line_reaches_both_of_its_jobs() -> None:
    (incident,) = fed(
        a_match("memory.host_oom_kill", 10, "n2"),
        a_timeout(611, "n1", "A", 0),
        a_timeout(612, "n3", "B", 0),
        heartbeats=(alive(0, "A", "n2"), alive(0, "B", "n2")),
    )
    assert incident.jobs == ("A", "B")
    assert incident.failure_class == "host-oom-kill"


def test_a_job_that_stops_is_a_hang(engine: Engine) -> None:
    engine.add([], steps(10))
    assert engine.advance(at(45 + STALL_FLOOR_S) - 1) == []
    (hang,) = engine.advance(at(45 + STALL_FLOOR_S))
    assert (hang.failure_class, hang.jobs, hang.title) == (
        "hang",
        ("A",),
        "The job stopped making progress after step 9, job A",
    )
    assert hang.chain[0].onset == "2026-03-02T09:00:45.000000000Z"
    assert hang.chain[0].text == "no step after step 9; until then a step took 5.0 s"
    assert engine.advance(at(45 + 2 * STALL_FLOOR_S)) == []


def test_a_node_whose_lines_name_no_job_can_hang_too(engine: Engine) -> None:
    engine.add([], [a_step(number, 5 * number, job="", node="n/1", cluster="c/1") for number in range(10)])
    (hang,) = engine.advance(at(2000))
    assert (hang.cluster, hang.nodes, hang.jobs) == ("c/1", ("n/1",), ())


@pytest.mark.parametrize("job", ["ns/A", "a\x1fb"])
def test_a_job_s_name_may_hold_anything(engine: Engine, job: str) -> None:
    engine.add([], [a_step(number, 5 * number, job, cluster="eks:1/prod") for number in range(10)])
    (hang,) = engine.advance(at(2000))
    assert (hang.cluster, hang.jobs, hang.progress[job].last_step) == ("eks:1/prod", (job,), 9)


@pytest.mark.parametrize("rule", ["progress.finished", "slurm.cancelled"])
def test_an_ended_job_does_not_hang(engine: Engine, rule: str) -> None:
    engine.add([a_match(rule, 50, "n1", "A")], steps(10))
    assert engine.advance(at(5000)) == []


def test_a_time_limit_is_reported_and_the_job_does_not_hang(engine: Engine) -> None:
    engine.add([a_match("slurm.time_limit", 50, "n1", "A")], steps(10))
    (ended,) = engine.advance(at(3000))
    assert (ended.failure_class, set(ended.jobs)) == ("slurm-time-limit", {"A"})
    assert {link.failure_class for link in ended.chain} == {"slurm-time-limit"}


def test_a_restart_from_a_checkpoint_does_not_hang(engine: Engine) -> None:
    engine.add([], steps(100))
    engine.add([], steps(40, first=50, start_s=1000))
    assert engine.advance(at(1795) - 1) == []
    (hang,) = engine.advance(at(1795))
    assert hang.chain[0].text.startswith("no step after step 89;")


def test_a_job_that_makes_steps_again_recovers_from_its_hang(engine: Engine) -> None:
    engine.add([], steps(10))
    engine.advance(at(1000))
    engine.add([], steps(3, first=10, start_s=1100))
    (recovered,) = engine.advance(at(1200))
    assert (recovered.failure_class, recovered.status) == ("hang", "resolved")
    (second_hang,) = engine.advance(at(1110 + 2 * STALL_FLOOR_S))
    assert (second_hang.incident_id, second_hang.status) == (recovered.incident_id, "open")
    assert [change.what for change in second_hang.history] == [
        "opened: hang on job A",
        "resolved: job A completed 1 more step",
        "reopened: hang on job A",
    ]


def test_lines_after_an_incident_do_not_change_it() -> None:
    """However far time has advanced when it is reported."""
    cut = [LineCut(at(second), "default", "A", "n1") for second in (3, 11.5)]
    of_a = [RankPlacement(at(1), "default", "A", "n1", rank=rank, world_size=4) for rank in range(3)]
    later = [
        RankPlacement(at(11), "default", "A", "n3", rank=3, world_size=8, is_start=True),
        RankPlacement(at(11), "default", "B", "n4", rank=1, world_size=2),
    ]
    kernel = Alive(at(12), "default", "", "n4", source="kernel")
    heartbeats = [alive(0, "A", "n1"), alive(0, "A", "n2"), *cut, kernel, alive(11, "A", "n3")]
    failures = [
        *(a_timeout(10, "n1", "A", rank, 5) for rank in range(3)),
        a_match("cuda.illegal_access", 10, "n4", "B"),
    ]

    def reported(until_s: float) -> list[Incident]:
        engine = Engine(the_rules())
        engine.add(failures, heartbeats, [*of_a, RankPlacement(at(1), "default", "B", "n4", rank=0), *later])
        return sorted(engine.advance(at(until_s)), key=lambda incident: incident.jobs)

    of_a_now, of_b_now = reported(10)
    assert [of_a_now, of_b_now] == reported(100)
    assert [text.split()[0] for text in of_a_now.missing] == ["there", "only", "job", "a"]
    assert [text.split()[0] for text in of_b_now.missing] == ["there"]


def test_a_failure_that_is_found_a_day_late_is_open_for_an_hour_from_then(engine: Engine) -> None:
    engine.advance(at(DAY_S))
    engine.add([an_xid(79, 10, "n1")])
    (opened,) = engine.advance(at(DAY_S + 1))
    assert (opened.status, opened.first_seen) == ("open", iso_from_ns(at(10)))
    engine.advance(at(DAY_S + 2000))
    engine.add([an_xid(79, 2000, "n1")])
    assert [again.status for again in engine.advance(at(DAY_S + 2001))] == ["open"]
    assert engine.advance(at(DAY_S + 2000 + RESOLVE_AFTER_S) - 1) == []
    (resolved,) = engine.advance(at(DAY_S + 2000 + RESOLVE_AFTER_S))
    assert resolved.status == "resolved"


def test_what_is_found_late_and_was_survived_sends_no_notification(engine: Engine) -> None:
    engine.add([], [alive(0, "A", "n1"), *steps(2000)])
    engine.advance(at(9_990))
    engine.add([a_match("nccl.remote_error", 100, "n1", "A")])
    assert [found.status for found in engine.advance(at(9_991))] == ["resolved"]


def test_a_match_of_a_removed_rule_is_counted(engine: Engine) -> None:
    engine.add([a_match("gone.rule", 1)])
    assert engine.flush() == []
    assert (engine.counts.unknown, engine.counts.signals) == (1, 0)


def test_a_snapshot_outlives_the_rule_of_its_root(engine: Engine) -> None:
    engine.add([an_xid(79, 10, "n1")])
    engine.flush()
    rules = RuleSet(tuple(rule for rule in the_rules().rules if rule.spec.id != "nvidia.xid"), the_rules().edges)
    later = Engine(rules, engine.snapshot())
    (resolved,) = later.advance(at(10 + RESOLVE_AFTER_S))
    assert (resolved.title, resolved.action, resolved.status) == ("xid-79 on n1, GPU 0000:9a:00", "none", "resolved")


def test_every_signal_is_counted(engine: Engine) -> None:
    engine.add([an_xid(79, 10, "n1"), an_xid(79, 10, "n1"), a_match("slurm.cancelled", 20, "n9", "Z")])
    engine.flush()
    counts = engine.counts
    assert (counts.signals, counts.duplicate, counts.alone) == (3, 1, 1)


def test_resumes_from_a_snapshot_with_the_same_incidents() -> None:
    def inputs(engine: Engine, restart: bool) -> tuple[Engine, list[Incident]]:
        engine.add([an_xid(79, 60, "n2")], [alive(0, "A", "n2"), *steps(10)])
        found = engine.advance(at(61))
        engine.add([a_timeout(611, "n1", "A", 0)])
        if restart:
            engine = Engine(the_rules(), engine.snapshot())
        return engine, found + engine.advance(at(5000))

    plain, restarted = inputs(Engine(the_rules()), False), inputs(Engine(the_rules()), True)
    assert plain[1] == restarted[1]
    assert [incident.status for incident in plain[1]] == ["open", "resolved"]
    assert plain[0].watermark_ns == restarted[0].watermark_ns == at(5000)
    assert plain[0].counts == restarted[0].counts


def test_time_does_not_decrease(engine: Engine) -> None:
    engine.advance(at(100))
    engine.advance(at(50))
    assert engine.watermark_ns == at(100)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("0000:9A:00", "0000:9a:00"),
        ("00000000:9a:00.0", "0000:9a:00"),
        ("0008:06:00", "0008:06:00"),
        ("9a:00.0", "0000:9a:00"),
        ("", ""),
    ],
)
def test_every_notation_of_an_address_is_the_same_gpu(address: str, expected: str) -> None:
    assert pci_address(address) == expected


@pytest.mark.parametrize(("text", "expected"), [("7", 7), ("²", None), ("", None), ("123456789", None)])
def test_a_rank_is_a_number(text: str, expected: int | None) -> None:
    (incident,) = fed(a_match("cuda.illegal_access", 1, "n1", "A", fields={"rank": text}))
    assert incident.root_cause.rank == expected


def test_clocks_are_compared_by_the_steps_that_all_nodes_report(engine: Engine) -> None:
    timings = [(step, node, ahead_s) for step in range(10) for node, ahead_s in (("n1", 0.0), ("n2", 1.5), ("n3", 0.0))]
    engine.add([], [a_step(step, 5 * step + ahead_s, node=node) for step, node, ahead_s in timings])
    engine.advance(at(100))
    assert engine.skews_ns() == {"default/n1": 0, "default/n2": round(1.5 * NS_PER_S), "default/n3": 0}


def test_an_incident_of_lines_without_times_is_the_same_next_to_a_job_with_times() -> None:
    log = [a_match("store.rendezvous_timeout", 0, node, "U") for node in ("n1", "n2")]
    untimed = [
        structs.replace(match, event=structs.replace(match.event, event_time_ns=order_ns(line)))
        for line, match in enumerate(log)
    ]
    hosts = [RankPlacement(order_ns(0), "default", "U", node, is_listed=True) for node in ("n1", "n2", "n3")]

    def found(heartbeats: list[Step]) -> list[Incident]:
        engine = Engine(the_rules())
        engine.add(untimed, heartbeats, hosts)
        return [incident for incident in engine.advance(at(10_000)) if incident.jobs == ("U",)] + engine.flush()

    (alone,), (mixed,) = found([]), found(steps(10, "A"))
    assert (mixed.status, mixed.root_cause.node) == ("open", "n3")
    assert mixed == alone


@pytest.mark.parametrize(
    ("rule", "jobs"),
    [pytest.param("k8s.image_pull", {"A"}, id="can-t-start"), pytest.param("k8s.oomkilled", {"A", "B"}, id="ran")],
)
def test_a_pod_that_can_t_start_places_no_job_on_its_node(engine: Engine, rule: str, jobs: set[str]) -> None:
    engine.add([a_match(rule, 10, "n1", "B")], [alive(0, "A", "n1"), alive(0, "B", "n2")])
    engine.advance(at(10))
    assert engine.jobs_of(a_match("nfs.not_responding", 20, "n1", source="kernel")) == jobs


def test_an_eviction_of_a_pod_whose_label_no_log_has_is_the_cause_of_what_its_job_reports(engine: Engine) -> None:
    pod = "long-ctx-worker-0"
    workers = (*steps(20, "long-ctx"), *(alive(second, "long-ctx", "n2") for second in range(0, 100, 10)))
    labelled = RankPlacement(at(100), "default", "run-1ff09c", "n2", pod=pod)
    eviction = a_match("k8s.evicted", 100, "n2", "run-1ff09c", source="kubernetes", pod=pod)
    engine.add([eviction, a_timeout(700, "n1", "long-ctx", 0)], workers, [labelled])
    (found,) = engine.flush()
    assert (found.failure_class, found.root_cause.node, found.jobs) == ("k8s-evicted", "n2", ("long-ctx",))
