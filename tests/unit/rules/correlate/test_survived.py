"""What a job survives is neither an incident of its own nor the cause of a later one."""

from __future__ import annotations

import pytest
from msgspec import structs

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Alive, Heartbeat, NodeCount, PhaseBegan, Step, WorldSize
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match, RankPlacement
from tests.support.logs import a_scanner, at, batch, the_rules, vector
from tests.support.signals import a_match, a_step, a_timeout, alive, an_xid

PACE_S = 5


@pytest.fixture
def engine() -> Engine:
    return Engine(the_rules())


def training(seconds: int, job: str = "A", node: str = "n1", start_s: int = 0) -> list[Step]:
    return [a_step(number, start_s + PACE_S * number, job, node) for number in range(seconds // PACE_S)]


def on_two_nodes(job: str = "A") -> list[Alive]:
    return [alive(0, job, "n1"), alive(0, job, "n2")]


def roots(incidents: list[Incident]) -> list[tuple[str, str]]:
    newest = {incident.incident_id: incident for incident in incidents}
    return [(incident.root_cause.failure_class, incident.root_cause.node) for incident in newest.values()]


@pytest.mark.parametrize("rule", ["nic.link_down", "nfs.not_responding", "nvidia.xid_31", "nvidia.xid_13"])
def test_a_failure_after_which_its_job_trains_on_opens_no_incident(engine: Engine, rule: str) -> None:
    engine.add([a_match(rule, 100, "n2", source="kernel")], [*on_two_nodes(), *training(200)])
    assert engine.advance(at(200)) == []


@pytest.mark.parametrize(("trains_s", "pages"), [(2000, False), (100, True)])
def test_a_job_survives_an_error_on_a_node_where_another_job_makes_no_steps(
    engine: Engine, trains_s: int, pages: bool
) -> None:
    server = [alive(second, "server", "n1") for second in range(0, 2000, 20)]
    matches = [a_match("storage.io_error", 99, "n1", "A"), a_match("nfs.not_responding", 100, "n1", source="kernel")]
    engine.add(matches, [*on_two_nodes(), *training(trains_s), *server])
    assert bool(engine.advance(at(2000))) is pages


@pytest.mark.parametrize(("rule", "cause"), [("nic.link_down", "nic-link-down"), ("nvidia.xid_31", "xid-31")])
def test_a_failure_after_which_its_job_stops_opens_an_incident(engine: Engine, rule: str, cause: str) -> None:
    engine.add([a_match(rule, 100, "n2", source="kernel")], [*on_two_nodes(), *training(100)])
    assert roots(engine.advance(at(200)))[0] == (cause, "n2")


@pytest.mark.parametrize(
    ("collective", "cause"),
    [
        pytest.param("5000", "nccl-timeout", id="the-job-trained-until-it-waited"),
        pytest.param("12", "segfault", id="the-job-had-just-begun"),
        pytest.param("", "segfault", id="the-line-names-no-collective"),
    ],
)
def test_what_is_long_before_the_wait_that_ranks_report_did_not_stop_their_job(
    engine: Engine, collective: str, cause: str
) -> None:
    crash = a_match("kernel.segfault", 100, "n1", fields={"comm": "python3", "pid": "41220"})
    waited = {"ran_ms": "600000", "seq": collective}
    timeouts = [a_match("nccl.watchdog_timeout", 1900, node, "A", fields=waited) for node in ("n1", "n2")]
    engine.add([crash, *timeouts], on_two_nodes())
    assert roots(engine.flush())[-1][0] == cause


def test_a_report_of_a_wait_that_is_repeated_minutes_later_shows_no_training(engine: Engine) -> None:
    waited = {"ran_ms": "600000", "seq": "5000"}
    reports = [a_match("nccl.watchdog_timeout", second, "n2", "A", fields=waited) for second in (710, 1300)]
    engine.add([an_xid(79, 100, "n1"), *reports], on_two_nodes())
    assert roots(engine.flush())[-1][0] == "xid-79"


@pytest.mark.parametrize(("last_s", "expected"), [(104, [("host-oom-kill", "n1")]), (106, [])])
def test_a_step_at_the_moment_of_an_error_does_not_show_that_its_job_survived(
    engine: Engine, last_s: float, expected: list[tuple[str, str]]
) -> None:
    killed = a_match("memory.host_oom_kill", 100, "n1", source="kernel", fields={"comm": "python3"})
    engine.add([killed], [*training(100), a_step(20, last_s)])
    assert roots(engine.flush()) == expected


def test_a_broken_gpu_is_reported_although_a_job_on_its_node_trains_on(engine: Engine) -> None:
    engine.add([an_xid(79, 100, "n2", source="kernel")], [*on_two_nodes(), *training(200)])
    assert roots(engine.advance(at(101))) == [("xid-79", "n2")]


def test_a_link_that_healed_minutes_before_is_not_the_cause_of_a_failure_elsewhere(engine: Engine) -> None:
    healed = [a_match("nic.link_down", 100, "n1"), a_match("nic.link_up", 102, "n1")]
    failure = a_match("elastic.first_failure", 400, "n2", "A")
    engine.add([*healed, failure], [*on_two_nodes(), *training(400)])
    assert roots(engine.flush()) == [("elastic-worker-failed", "n2")]


def test_a_link_that_healed_gives_way_to_one_that_failed_for_good_on_another_node(engine: Engine) -> None:
    healed = [a_match("nic.link_down", 98, "n1"), a_match("nic.link_up", 101, "n1")]
    failure = a_match("elastic.first_failure", 140, "n2", "A")
    engine.add([*healed, a_match("nic.link_down", 120, "n2"), failure], [*on_two_nodes(), *training(95)])
    assert roots(engine.flush()) == [("nic-link-down", "n2")]


def test_what_a_program_calls_a_warning_does_not_stop_the_ranks_of_other_nodes(engine: Engine) -> None:
    text = "WARNING:data.reader:shard 01268: [Errno 5] Input/output error, reading again"
    failed_read = a_match("storage.io_error", 98, "n1", "A", text)
    engine.add([failed_read, a_timeout(710, "n2", "A", 1)], [*on_two_nodes(), *training(100)])
    assert roots(engine.flush()) == [("hang", "n1")]


def test_what_a_program_warns_that_it_has_waited_for_stops_the_ranks_of_other_nodes(engine: Engine) -> None:
    text = "WARNING:data.prefetch: no batch from worker 3 for 60 s (queue empty, 8 workers alive)"
    starved = a_match("data.no_batch", 170, "n1", "A", text, fields={"waited_s": "60"})
    engine.add([starved, a_timeout(710, "n2", "A", 1)], [*on_two_nodes(), *training(100)])
    assert roots(engine.flush()) == [("dataloader-starved", "n1")]


def test_a_link_that_was_down_when_its_job_stopped_is_the_cause_of_a_failure_elsewhere(engine: Engine) -> None:
    failure = a_match("elastic.first_failure", 402, "n2", "A")
    engine.add([a_match("nic.link_down", 398, "n1"), failure], [*on_two_nodes(), *training(400)])
    assert roots(engine.flush()) == [("nic-link-down", "n1")]


def test_a_failure_of_a_disk_stays_a_possible_cause_although_its_job_trained_on(engine: Engine) -> None:
    full, failure = a_match("disk.full", 100, "n1", "A"), a_match("data.checkpoint_save_fail", 400, "n1", "A")
    engine.add([full, failure], [*on_two_nodes(), *training(400)])
    assert "disk-full" in {cause for cause, _ in roots(engine.flush())}


def a_process_of(job: str, node: str, pid: int) -> RankPlacement:
    return RankPlacement(at(0), "default", job, node, 0, pid=pid)


@pytest.mark.parametrize(
    ("rule", "comm", "pid"),
    [
        ("nvidia.xid_13", "a.out", 90_000),
        ("nvidia.xid_31", "jupyter-lab", 90_000),
        ("nvidia.xid_31", "python3", 90_000),
        ("memory.host_oom_kill", "dcgm-exporter", 90_000),
    ],
)
def test_a_process_that_is_not_the_job_s_does_not_end_the_job(engine: Engine, rule: str, comm: str, pid: int) -> None:
    foreign = a_match(rule, 398, "n2", source="kernel", fields={"comm": comm, "pid": str(pid)})
    failure = a_match("elastic.first_failure", 402, "n1", "A")
    placed = [a_process_of("A", "n1", 40_000), a_process_of("A", "n2", 50_000)]
    engine.add([foreign, failure], [*on_two_nodes(), *training(400)], placed)
    assert roots(engine.flush()) == [("elastic-worker-failed", "n1")]


def test_a_process_of_the_job_ends_it_whatever_its_name(engine: Engine) -> None:
    own = a_match("memory.host_oom_kill", 398, "n2", source="kernel", fields={"comm": "a.out", "pid": "50000"})
    failure = a_match("elastic.first_failure", 402, "n1", "A")
    placed = [a_process_of("A", "n1", 40_000), a_process_of("A", "n2", 50_000)]
    engine.add([own, failure], [*on_two_nodes(), *training(400)], placed)
    assert roots(engine.flush()) == [("host-oom-kill", "n2")]


def test_a_process_in_the_cgroup_of_another_job_does_not_end_the_job(engine: Engine) -> None:
    fields = {"comm": "python3", "pid": "7", "cgroup": "/slurm/uid_1000/job_99/step_0"}
    failure = a_match("elastic.first_failure", 402, "n1", "A")
    engine.add(
        [a_match("memory.host_oom_kill", 398, "n2", source="kernel", fields=fields), failure],
        [*on_two_nodes(), *training(400)],
    )
    assert roots(engine.flush()) == [("elastic-worker-failed", "n1")]


def test_links_of_two_nodes_that_go_down_at_once_are_two_incidents(engine: Engine) -> None:
    engine.add([a_match("nic.link_down", 100, "n1"), a_match("nic.link_down", 110, "n2")])
    assert sorted(roots(engine.flush())) == [("nic-link-down", "n1"), ("nic-link-down", "n2")]


def test_links_of_three_nodes_that_go_down_at_once_are_one_incident(engine: Engine) -> None:
    engine.add([a_match("nic.link_down", 100 + number, f"n{number}") for number in (1, 2, 3)])
    newest = {incident.incident_id: incident for incident in engine.flush()}
    (whole,) = [incident for incident in newest.values() if not incident.merged_into]
    assert whole.nodes == ("n1", "n2", "n3")


def test_a_server_that_answered_again_before_the_failure_is_not_its_cause_although_no_step_was_logged(
    engine: Engine,
) -> None:
    outage = [a_match("nfs.not_responding", 100, "n1", source="kernel"), a_match("nfs.server_ok", 130, "n1")]
    engine.add([*outage, a_match("elastic.first_failure", 600, "n1", "A")], on_two_nodes())
    assert roots(engine.flush())[-1] == ("elastic-worker-failed", "n1")


def test_a_server_that_answered_again_after_the_job_had_stopped_is_the_cause(engine: Engine) -> None:
    outage = [a_match("nfs.not_responding", 100, "n1", source="kernel"), a_match("nfs.server_ok", 580, "n1")]
    hung = a_match("nccl.watchdog_timeout", 720, "n1", "A", rank=0, fields={"ran_ms": "600000"})
    engine.add([*outage, hung], on_two_nodes())
    assert roots(engine.flush())[0][0] == "nfs-server-not-responding"


def test_corrected_errors_minutes_before_are_less_likely_than_the_failure_itself(engine: Engine) -> None:
    full = a_match("disk.full_text", 600, "n2", "A")
    engine.add([an_xid(92, 100, "n2", source="kernel"), full], [*on_two_nodes(), *training(600)])
    assert roots(engine.flush()) == [("disk-full", "n2")]


@pytest.mark.parametrize("source", ["worker", "any"])
@pytest.mark.parametrize("rule", ["storage.io_error", "network.connection_reset", "python.exception_line"])
def test_an_error_of_a_program_that_trains_on_opens_no_incident(engine: Engine, rule: str, source: str) -> None:
    engine.add([a_match(rule, 100, "n2", "A", source=source)], [*on_two_nodes(), *training(200)])
    assert engine.advance(at(200)) == []


@pytest.mark.parametrize("rule", ["storage.io_error", "nfs.not_responding"])
def test_an_error_in_an_announced_pause_waits_for_the_steps_after_it(engine: Engine, rule: str) -> None:
    source = "kernel" if rule.startswith("nfs") else "worker"
    caught = a_match(rule, 110, "n1", "A", source=source)
    evaluation = [PhaseBegan(at(second), "default", "A", "n1", "evaluation") for second in range(102, 700, 30)]
    engine.add([caught], [*on_two_nodes(), *training(100), *evaluation, *training(100, start_s=705)])
    assert engine.advance(at(800)) == []


def test_an_exception_that_ended_its_rank_does_not_wait_for_the_end_of_a_pause(engine: Engine) -> None:
    text = "[rank0]: ValueError: token 70000 is out of range"
    raised = a_match("python.exception_line", 110, "n1", "A", text=text)
    evaluation = PhaseBegan(at(102), "default", "A", "n1", "evaluation")
    engine.add([raised], [*on_two_nodes(), *training(100), evaluation])
    assert roots(engine.advance(at(140)))[0] == ("python-exception", "n1")


def test_an_error_in_a_pause_longer_than_any_opens_an_incident(engine: Engine) -> None:
    evaluation = PhaseBegan(at(102), "default", "A", "n1", "evaluation")
    engine.add([a_match("storage.io_error", 110, "n1", "A")], [*on_two_nodes(), *training(100), evaluation])
    assert roots(engine.advance(at(110 + 3600)))[0] == ("block-io-error", "n1")


def test_an_error_while_the_first_step_is_compiled_waits_for_the_steps(engine: Engine) -> None:
    compilation = PhaseBegan(at(5), "default", "A", "n1", "compile")
    engine.add([a_match("storage.io_error", 60, "n1", "A")], [*on_two_nodes(), compilation, *training(60, start_s=600)])
    assert engine.advance(at(700)) == []


SOFT = ["memory.oom_gpu", "storage.io_error", "python.exception_line"]


def writing(first_s: int, last_s: int) -> list[Alive]:
    return [alive(second, "A", "n1") for second in range(first_s, last_s + 1, 20)]


@pytest.mark.parametrize("rule", SOFT)
def test_an_error_in_start_up_waits_while_the_job_writes_and_is_dropped_after_two_steps(
    engine: Engine, rule: str
) -> None:
    engine.add([a_match(rule, 60, "n1", "A")], [*on_two_nodes(), *writing(0, 1000), *training(15, start_s=1005)])
    assert engine.advance(at(1000)) == []
    assert engine.flush() == []


@pytest.mark.parametrize("rule", SOFT)
def test_an_error_in_start_up_of_a_job_that_falls_silent_opens_an_incident(engine: Engine, rule: str) -> None:
    engine.add([a_match(rule, 60, "n1", "A")], [*on_two_nodes(), *writing(0, 100)])
    assert engine.advance(at(399)) == []
    assert len(engine.advance(at(1100))) == 1


def test_an_error_opens_an_incident_after_half_an_hour_although_its_job_writes(engine: Engine) -> None:
    engine.add([a_match("memory.oom_gpu", 60, "n1", "A")], [*on_two_nodes(), *writing(0, 3600)])
    assert engine.advance(at(60 + 1800) - 1) == []
    assert roots(engine.advance(at(60 + 1800))) == [("oom-gpu", "n1")]


def test_an_uncaught_exception_does_not_wait_although_its_job_writes(engine: Engine) -> None:
    frame = '  File "/w/train.py", line 90, in <module>'
    lines = ["Traceback (most recent call last):", frame, "    main()", "ValueError: bad shape", "next"]
    found = a_scanner().scan(batch([vector("n1", 60 + n / 1000, line, "A") for n, line in enumerate(lines)]))
    engine.add(found.matches, [*on_two_nodes(), *writing(0, 1000)])
    assert roots(engine.advance(at(80))) == [("python-exception", "n1")]


@pytest.mark.parametrize(
    ("rule", "second", "expected"),
    [
        pytest.param("memory.oom_gpu", 100, [("oom-gpu", "n1")], id="gpu-memory"),
        pytest.param("python.exception_line", 100, [], id="exception"),
        pytest.param("storage.io_error", 100, [], id="storage"),
    ],
)
def test_an_error_just_before_its_job_is_cancelled_is_dropped_unless_a_cancellation_can_t_cause_it(
    engine: Engine, rule: str, second: int, expected: list[tuple[str, str]]
) -> None:
    cancelled = a_match("slurm.cancelled", 102, "n1", "A")
    engine.add([a_match(rule, second, "n1", "A"), cancelled], [*on_two_nodes(), *training(100)])
    assert roots(engine.flush()) == expected


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        pytest.param('File "/w/reader.py", line 7, in fetch', [], id="caught"),
        pytest.param('File "/w/train.py", line 7, in <module>', [("python-exception", "n1")], id="uncaught"),
    ],
)
def test_a_caught_error_is_dropped_if_its_job_is_cancelled_before_it_misses_a_step(
    engine: Engine, frame: str, expected: list[tuple[str, str]]
) -> None:
    lines = ["Traceback (most recent call last):", f"  {frame}", "    main()", "ValueError: bad shape", "next"]
    found = a_scanner().scan(batch([vector("n1", 700 + n / 1000, line, "A") for n, line in enumerate(lines)]))
    slow_steps = [a_step(number, 75 * number, "A", "n1") for number in range(10)]
    engine.add([*found.matches, a_match("slurm.cancelled", 729, "n1", "A")], [*on_two_nodes(), *slow_steps])
    assert roots(engine.flush()) == expected


def test_an_error_in_the_last_evaluation_of_a_job_that_finishes_opens_no_incident(engine: Engine) -> None:
    evaluation = PhaseBegan(at(102), "default", "A", "n1", "evaluation")
    matches = [a_match("storage.io_error", 110, "n1", "A"), a_match("progress.finished", 300, "n1", "A")]
    engine.add(matches, [*on_two_nodes(), *training(100), evaluation])
    assert engine.flush() == []


def test_a_kernel_error_just_before_its_job_is_cancelled_stays_an_incident(engine: Engine) -> None:
    cancelled = a_match("slurm.cancelled", 102, "n1", "A")
    engine.add([a_match("nvidia.xid_31", 100, "n2", source="kernel"), cancelled], [*on_two_nodes(), *training(100)])
    assert roots(engine.flush())[0] == ("xid-31", "n2")


def test_a_rank_that_exited_by_a_clock_that_is_slow_did_not_survive_it(engine: Engine) -> None:
    exited = a_match("elastic.first_failure", 100, "n2", "A")
    lost = a_match("network.connection_reset", 128, "n1", "A")
    engine.add([exited, lost], [*on_two_nodes(), *training(126)])
    assert roots(engine.flush())[0] == ("elastic-worker-failed", "n2")


@pytest.mark.parametrize(("cooled_s", "root"), [(201, "hang"), (None, "cpu-thermal-throttle")])
def test_a_processor_that_cooled_down_long_before_a_stall_did_not_cause_it(
    engine: Engine, cooled_s: int | None, root: str
) -> None:
    hot = a_match("machine.cpu_throttled", 200, "n2", source="kernel")
    cooled = [a_match("machine.cpu_cooled", cooled_s, "n2", source="kernel")] if cooled_s else []
    hung = a_match("nccl.watchdog_timeout", 900, "n1", "A", rank=0, fields={"ran_ms": "600000"})
    engine.add([hot, *cooled, hung], [*on_two_nodes(), *training(290)])
    assert roots(engine.flush())[0][0] == root


@pytest.mark.parametrize(
    ("node", "rank", "second", "expected"),
    [
        pytest.param("n1", 3, 70, [], id="the-same-process"),
        pytest.param("n1", 4, 70, [("oom-gpu", "n1")], id="another-rank"),
        pytest.param("n2", 3, 70, [("oom-gpu", "n1")], id="another-node"),
        pytest.param("n1", 3, 121, [("oom-gpu", "n1")], id="much-later"),
    ],
)
def test_an_error_whose_process_reports_that_it_continues_opens_no_incident(
    engine: Engine, node: str, rank: int, second: int, expected: list[tuple[str, str]]
) -> None:
    failure = a_match("memory.oom_gpu", 60, "n1", "A", rank=3)
    continues = a_match("workers.handled", second, node, "A", "skipping this batch", rank=rank)
    engine.add([failure, continues], [*on_two_nodes(), *writing(0, 130)])
    assert roots(engine.flush()) == expected


CAUGHT = (
    "Traceback (most recent call last):",
    '  File "/w/data/reader.py", line 41, in fetch',
    "    raise TimeoutError(url)",
    "TimeoutError: shard 7",
)


@pytest.mark.parametrize(
    ("errors_s", "expected"),
    [
        pytest.param([60], [], id="one"),
        pytest.param([60, 1500], [("python-exception", "n1")], id="still-repeated"),
    ],
)
def test_an_exception_that_a_function_caught_is_dropped_after_half_an_hour_of_other_lines(
    engine: Engine, errors_s: list[int], expected: list[tuple[str, str]]
) -> None:
    errors = [a_match("python.traceback", second, "n1", "A", CAUGHT[-1]) for second in errors_s]
    caught = [structs.replace(error, block=CAUGHT) for error in errors]
    engine.add(caught, [*on_two_nodes(), *writing(0, 3600)])
    assert roots(engine.advance(at(60 + 1800))) == expected
    assert roots(engine.flush()) == []


def lost_node(second: int, node: str) -> Match:
    return a_match("kernel.hard_lockup", second, node, source="kernel")


def killed(second: int, node: str, comm: str) -> Match:
    return a_match("memory.host_oom_kill", second, node, source="kernel", fields={"comm": comm, "pid": "716263"})


@pytest.mark.parametrize(
    ("lost", "root"),
    [
        pytest.param([lost_node(100, "n9")], ("hard-lockup", "n9"), id="as-the-job-stopped"),
        pytest.param([lost_node(100, "n8"), lost_node(101, "n9")], ("nccl-timeout", "n1"), id="one-of-two"),
        pytest.param([lost_node(30, "n9")], ("nccl-timeout", "n1"), id="before-the-job-stopped"),
        pytest.param([lost_node(700, "n9")], ("nccl-timeout", "n1"), id="as-the-job-reports-it"),
        pytest.param([killed(100, "n9", "python3")], ("host-oom-kill", "n9"), id="by-the-end-of-a-rank"),
        pytest.param([killed(100, "n9", "node_exporter")], ("nccl-timeout", "n1"), id="by-the-end-of-another-program"),
    ],
)
def test_a_node_without_known_jobs_that_breaks_as_a_job_stops_is_of_that_job(
    engine: Engine, lost: list[Match], root: tuple[str, str]
) -> None:
    engine.add([*lost, a_timeout(702, "n1", "A", 1)], [alive(0, "A", "n1")])
    newest = {incident.incident_id: incident for incident in engine.flush()}.values()
    (of_job,) = (incident for incident in newest if incident.jobs == ("A",))
    assert (of_job.root_cause.failure_class, of_job.root_cause.node) == root


def test_a_node_that_breaks_half_a_minute_before_its_job_stops_is_of_that_job(engine: Engine) -> None:
    engine.add([lost_node(72, "n9"), a_timeout(702, "n1", "A", 1)], [alive(0, "A", "n1")])
    (found,) = {incident.incident_id: incident for incident in engine.flush()}.values()
    assert (found.root_cause.node, found.jobs) == ("n9", ("A",))


@pytest.mark.parametrize("broke_s", [pytest.param(95, id="before"), pytest.param(101, id="after")])
def test_a_node_that_breaks_as_another_stops_a_job_is_not_of_that_job(engine: Engine, broke_s: int) -> None:
    of_job = [lost_node(100, "n2"), a_timeout(702, "n1", "A", 1)]
    engine.add([*of_job, lost_node(broke_s, "n9")], [alive(0, "A", "n1"), alive(0, "A", "n2")])
    newest = {incident.incident_id: incident for incident in engine.flush()}.values()
    assert sorted((incident.root_cause.node, incident.jobs) for incident in newest) == [("n2", ("A",)), ("n9", ())]


def test_a_job_whose_nodes_all_log_lacks_no_node(engine: Engine) -> None:
    heartbeats = [alive(0, "A", "n1"), NodeCount(at(0), "default", "A", "n1", nodes=1)]
    engine.add([lost_node(100, "n9"), a_timeout(702, "n1", "A", 1)], heartbeats)
    assert sorted(roots(engine.flush())) == [("hard-lockup", "n9"), ("nccl-timeout", "n1")]


def test_an_exception_that_nothing_caught_is_not_taken_back_by_another_line_of_its_stream(engine: Engine) -> None:
    frames = ("Traceback (most recent call last):", '  File "/w/train.py", line 9, in <module>', "    main()", "E: x")
    failure = structs.replace(a_match("python.traceback", 60, "n1", "A", "E: x"), block=frames)
    engine.add([failure, a_match("workers.handled", 62, "n1", "A", "retrying")], [*on_two_nodes(), *writing(0, 130)])
    assert roots(engine.flush()) == [("python-exception", "n1")]


@pytest.mark.parametrize(
    ("text", "root"),
    [
        pytest.param("[rank1]: ValueError: no batch", ("python-exception", "n1"), id="uncaught"),
        pytest.param("ValueError: no batch", ("elastic-worker-failed", "n1"), id="maybe-caught"),
    ],
)
def test_steps_by_the_clocks_of_other_nodes_do_not_outlive_an_exception_that_ended_its_process(
    engine: Engine, text: str, root: tuple[str, str]
) -> None:
    failure = a_match("python.exception_line", 60, "n1", "A", text)
    engine.add(
        [failure, a_match("elastic.first_failure", 64, "n1", "A"), a_timeout(730, "n2", "A", 1)],
        [*on_two_nodes(), *training(130, node="n2")],
    )
    assert roots(engine.flush()) == [root]


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        pytest.param("nccl.error", "connect failed, attempt 1/3", [], id="tried-again"),
        pytest.param("nccl.error", "connect failed, attempt 3/3", [("nccl-error", "n1")], id="last-attempt"),
        pytest.param("nvidia.xid_79", "NVRM: Xid (PCI:0000:9a:00): 79", [], id="text-of-a-kernel"),
    ],
)
def test_an_error_whose_program_tries_again_is_dropped_after_half_an_hour_of_other_lines(
    engine: Engine, rule: str, text: str, expected: list[tuple[str, str]]
) -> None:
    engine.add([a_match(rule, 60, "n1", "A", text)], [*on_two_nodes(), *writing(0, 3600)])
    assert roots(engine.advance(at(60 + 1800))) == expected
    assert engine.flush() == []


def test_a_relative_module_s_exception_in_a_model_s_answer_opens_no_incident_while_its_job_trains_on(
    engine: Engine,
) -> None:
    frames = ("Traceback (most recent call last):", '  File "solution.py", line 9, in <module>', "    main()", "E: x")
    failure = structs.replace(a_match("python.traceback", 100, "n1", "A", "E: x"), block=frames)
    engine.add([failure], [*on_two_nodes(), *writing(0, 200)])
    assert engine.advance(at(200)) == []


def peer_lost(second: int, job: str = "A", node: str = "n1") -> Match:
    return a_match("network.connection_reset", second, node, job, "RuntimeError: Connection reset by peer")


def not_ready(second: int, node: str = "n9", **more: str) -> Match:
    return a_match("k8s.node_not_ready", second, node, text="Node is not ready", source="kubernetes", **more)


def of_sixteen_ranks(job: str, node: str) -> list[Heartbeat]:
    return [alive(0, job, node), WorldSize(at(0), "default", job, node, 16)]


def causes(incidents: list[Incident]) -> dict[tuple[str, ...], tuple[str, str]]:
    """The cause and its node by the jobs of each incident that is not merged into another."""
    newest = {incident.incident_id: incident for incident in incidents}.values()
    whole = [incident for incident in newest if not incident.merged_into]
    return {incident.jobs: (incident.root_cause.failure_class, incident.root_cause.node) for incident in whole}


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        pytest.param(not_ready(140), "k8s-node-notready", id="not-ready"),
        pytest.param(an_xid(79, 140, "n9", source="kernel"), "xid-79", id="gpu"),
        pytest.param(lost_node(159, "n9"), "hard-lockup", id="within-a-minute"),
    ],
)
def test_a_node_without_known_jobs_that_breaks_soon_after_a_job_lost_a_peer_is_of_that_job(
    engine: Engine, broken: Match, cause: str
) -> None:
    engine.add([peer_lost(100), broken], of_sixteen_ranks("A", "n1"))
    assert causes(engine.flush()) == {("A",): (cause, "n9")}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(not_ready(161), id="after-a-minute"),
        pytest.param(not_ready(140, cluster="west"), id="another-cluster"),
        pytest.param(an_xid(13, 140, "n9", source="kernel"), id="what-jobs-survive"),
        pytest.param(a_match("k8s.rebooted", 140, "n9", source="kubernetes"), id="booted-so-it-broke-before"),
    ],
)
def test_a_node_that_breaks_later_or_elsewhere_is_of_no_job(engine: Engine, broken: Match) -> None:
    engine.add([peer_lost(100), broken], of_sixteen_ranks("A", "n1"))
    assert set(causes(engine.flush())) == {("A",), ()}


def test_a_node_of_another_job_is_not_the_node_that_a_job_lacks(engine: Engine) -> None:
    engine.add([peer_lost(100), not_ready(140)], [*of_sixteen_ranks("A", "n1"), alive(0, "C", "n9")])
    assert set(causes(engine.flush())) == {("A",), ("C",)}


def test_a_node_that_breaks_as_two_jobs_lose_peers_is_of_none(engine: Engine) -> None:
    heartbeats = [*of_sixteen_ranks("A", "n1"), *of_sixteen_ranks("B", "n2")]
    engine.add([peer_lost(100), peer_lost(101, "B", "n2"), not_ready(140)], heartbeats)
    assert set(causes(engine.flush())) == {("A",), ("B",), ()}


def test_a_node_that_breaks_as_two_jobs_lose_peers_is_of_the_only_job_that_lacks_one(engine: Engine) -> None:
    complete = [alive(0, "B", "n2"), NodeCount(at(0), "default", "B", "n2", nodes=1)]
    heartbeats = [*of_sixteen_ranks("A", "n1"), *complete]
    engine.add([peer_lost(100), peer_lost(101, "B", "n2"), not_ready(140)], heartbeats)
    assert causes(engine.flush()) == {("A",): ("k8s-node-notready", "n9"), ("B",): ("connection-reset", "n2")}


def test_a_node_that_breaks_as_a_job_without_missing_nodes_loses_a_peer_is_of_no_job(engine: Engine) -> None:
    heartbeats = [alive(0, "A", "n1"), NodeCount(at(0), "default", "A", "n1", nodes=1)]
    engine.add([peer_lost(100), not_ready(140)], heartbeats)
    assert set(causes(engine.flush())) == {("A",), ()}


def raised(second: int) -> Match:
    return a_match("python.exception_line", second, "n1", "A", "ValueError: no batch")


def with_a_link_down(engine: Engine) -> Incident:
    """A link of job A's node is down, and the job makes no step: a ticket, since no failure follows."""
    engine.add([a_match("nic.link_down", 98, "n1", source="kernel")], [*on_two_nodes(), *training(100)])
    (ticket,) = engine.advance(at(150))
    assert (ticket.failure_class, ticket.severity, ticket.signal_count) == ("nic-link-down", "warning", 1)
    return ticket


def test_an_exception_that_a_job_survives_joins_no_ticket(engine: Engine) -> None:
    ticket = with_a_link_down(engine)
    engine.add([raised(402)], training(100, start_s=400))
    changed = [*engine.advance(at(404)), *engine.advance(at(499)), *engine.flush()]
    assert {incident.incident_id for incident in changed} == {ticket.incident_id}
    assert {(incident.severity, incident.signal_count) for incident in changed} == {("warning", 1)}
    assert changed[-1].status == "resolved"


def test_an_exception_that_a_job_does_not_survive_makes_a_page_of_the_older_ticket(engine: Engine) -> None:
    ticket = with_a_link_down(engine)
    engine.add([raised(160)])
    assert engine.advance(at(169)) == []
    (page,) = engine.advance(at(400))
    assert (page.incident_id, page.severity, page.signal_count) == (ticket.incident_id, "error", 2)
    assert (page.failure_class, page.status) == ("nic-link-down", "open")
    assert "a job did not survive it" in page.history[-1].what


def test_an_exception_at_the_end_of_the_input_makes_a_page_of_the_older_ticket(engine: Engine) -> None:
    ticket = with_a_link_down(engine)
    engine.add([raised(160)])
    (page,) = engine.flush()
    assert (page.incident_id, page.severity, page.signal_count) == (ticket.incident_id, "error", 2)


def test_an_exception_joins_a_page_at_once(engine: Engine) -> None:
    engine.add([a_match("elastic.first_failure", 100, "n1", "A")], on_two_nodes())
    (page,) = engine.advance(at(150))
    engine.add([raised(151)])
    (joined,) = engine.advance(at(151))
    assert (joined.incident_id, joined.signal_count) == (page.incident_id, 2)
