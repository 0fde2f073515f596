"""Pending, dropped, reopened, flapping, recurring: an incident's life, with time passed in."""

from __future__ import annotations

import orjson
import pytest

from epicenter.rules.correlate.attempts import Attempt
from epicenter.rules.correlate.lifecycle import REOPENED_TO_FLAP, RESOLVE_AFTER_NS, STEPS_TO_RECOVER, Lifecycle
from epicenter.rules.correlate.pending import HOLD_NS
from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Advanced, Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import a_scanner, at, batch, iso, the_rules
from tests.support.signals import a_match, a_signal, a_step, a_timeout, an_xid, related

HOLD_S = HOLD_NS // NS_PER_S
PACE_S = 5


@pytest.fixture
def engine() -> Engine:
    return Engine(the_rules())


def steps(first: int, count: int, start_s: float, job: str = "A") -> list[Step]:
    return [a_step(first + number, start_s + PACE_S * number, job) for number in range(count)]


def history_of(incident: Incident) -> list[str]:
    return [change.what for change in incident.history]


def test_a_lone_exception_opens_an_incident_after_its_hold(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 100, "n1", "A")])
    assert engine.advance(at(100 + HOLD_S) - 1) == []
    (incident,) = engine.advance(at(100 + HOLD_S))
    assert (incident.failure_class, incident.status) == ("python-exception", "open")


def test_an_exception_opens_an_incident_at_once_when_more_follows(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 100, "n1", "A"), an_xid(79, 101, "n1")])
    assert [incident.failure_class for incident in engine.advance(at(101))] == ["xid-79"]


def test_an_exception_opens_an_incident_when_the_input_ends(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 100, "n1", "A")])
    assert [incident.failure_class for incident in engine.flush()] == ["python-exception"]


def test_a_job_that_makes_two_steps_after_it_has_survived_it(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 60, "n1", "A")], [*steps(0, 11, 5), *steps(11, 2, 61)])
    assert engine.flush() == []
    assert engine.counts.signals == 1


@pytest.mark.parametrize(("failure_class", "stays"), [("python-exception", False), ("elastic-worker-failed", True)])
def test_a_job_that_a_slow_rank_holds_back_survives_what_is_pending_and_recovers_from_nothing(
    failure_class: str, stays: bool
) -> None:
    lifecycle = Lifecycle()
    lifecycle.on_signal(a_signal(failure_class, 100, "n1", "A", role="root"), related, lambda *_: 0)
    for step in steps(21, STEPS_TO_RECOVER, 101):
        lifecycle.on_step(
            step,
            is_restart=False,
            is_recovering=False,
            attempt_of=lambda state, _: Attempt(state.incident_id, 0, "", (), -1),
        )
    assert bool(lifecycle.correlator.open) is stays


def test_steps_from_before_a_failure_that_come_late_do_not_show_that_the_job_survived_it(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 61, "n1", "A")], steps(0, 11, 0))
    assert engine.advance(at(62)) == []
    engine.add([], [a_step(11, 52), a_step(12, 56), a_step(13, 60)])
    assert [incident.failure_class for incident in engine.flush()] == ["python-exception"]


def test_a_slow_job_has_the_time_of_two_steps_to_survive_an_exception(engine: Engine) -> None:
    slow = [a_step(number, 20 * number) for number in range(10)]
    engine.add([a_match("python.traceback", 185, "n1", "A")], [*slow, a_step(10, 200), a_step(11, 220)])
    assert engine.advance(at(230)) == []


def test_a_job_that_trains_on_after_the_notice_of_its_end_is_ended_by_it(engine: Engine) -> None:
    notice = a_match("capacity.preemption_notice", 60, "n1", "A")
    engine.add([notice, a_timeout(760, "n2", "A", 8)], steps(0, 30, 5))
    (incident,) = [incident for incident in engine.flush() if incident.status == "open"]
    assert (incident.root_cause.failure_class, incident.root_cause.node) == ("preemption-notice", "n1")


def test_a_job_whose_progress_has_no_step_numbers_has_as_much_time(engine: Engine) -> None:
    moves = [Advanced(at(20 * number), "default", "A", "n1") for number in range(13)]
    engine.add([a_match("python.traceback", 185, "n1", "A")], moves)
    assert engine.advance(at(240)) == []


def test_a_job_that_has_made_one_step_has_two_minutes_for_the_next(engine: Engine) -> None:
    engine.add([a_match("python.traceback", 60, "n1", "A")], [a_step(0, 50), a_step(1, 140), a_step(2, 230)])
    assert engine.flush() == []


def test_a_checkpoint_before_the_next_report_leaves_time_to_survive_an_exception(engine: Engine) -> None:
    regular = [a_step(number, 20 * number) for number in range(10)]
    engine.add([a_match("python.traceback", 181, "n1", "A")], [*regular, a_step(10, 215), a_step(11, 236)])
    assert engine.advance(at(240)) == []


def test_an_incident_that_progress_resolved_too_early_is_reopened_by_what_it_explains(engine: Engine) -> None:
    engine.add([an_xid(79, 52, "n1", source="kernel")], [*steps(0, 11, 0), *steps(11, 4, 55)])
    (resolved,) = engine.advance(at(80))
    engine.add([a_timeout(680, "n2", "A", 8)])
    (again,) = engine.advance(at(700))
    assert (again.incident_id, again.status, again.failure_class) == (resolved.incident_id, "open", "xid-79")
    assert history_of(again)[1:] == ["resolved: job A completed 3 more steps", "reopened: hang on job A"]


def test_what_ends_the_job_a_minute_after_progress_resolved_an_incident_reopens_it(engine: Engine) -> None:
    """The node of the first one has a slow clock: the steps are from before."""
    lost = a_match("elastic.first_failure", 100, "n2", "A")
    engine.add([lost, a_match("memory.oom_gpu", 165, "n1", "A")], steps(0, 32, 5))
    incidents = {incident.incident_id: incident for incident in engine.flush()}
    assert [incident.status for incident in incidents.values()] == ["open"]


def test_a_flapping_incident_stays_open_until_it_is_quiet(engine: Engine) -> None:
    for number in range(REOPENED_TO_FLAP + 1):
        start_s = 100 * number
        engine.add([an_xid(94, start_s, "n1", source="kernel")], steps(10 * number, 5, start_s + 1))
    (flapping,) = engine.advance(at(600))
    assert (flapping.status, history_of(flapping)[-1]) == ("open", "reopened: xid-94 on n1, GPU 0000:9a:00")
    (resolved,) = engine.advance(at(3000) + RESOLVE_AFTER_NS)
    assert history_of(resolved)[-1] == "resolved: quiet for 60 minutes"


def test_progress_does_not_resolve_a_loss_that_is_no_number(engine: Engine) -> None:
    engine.add([a_match("training.nan_loss", 52, "n1", "A")], [*steps(0, 11, 0), *steps(11, 10, 55)])
    assert [incident.status for incident in engine.advance(at(200))] == ["open"]


def test_a_job_that_fails_every_run_near_the_same_step_recurs(engine: Engine) -> None:
    incidents: list[Incident] = []
    failures = (an_xid(79, 60, "n7", job="A"), a_match("memory.oom_gpu", 1060, "n7", "A"), an_xid(31, 2060, "n7"))
    for run, failure in enumerate(failures):
        start_s = 1000 * run
        engine.add([failure], steps(4090, 12, start_s))
        incidents += engine.advance(at(start_s + 900))
    last = incidents[-1]
    assert history_of(incidents[0])[-1] == "opened: xid-79 on n7, GPU 0000:9a:00"
    assert history_of(incidents[1])[-1] == "resolved: job A restarted and completed 3 more steps"
    assert last.recurrence is not None
    assert (last.recurrence.attempts, last.recurrence.near_step, last.recurrence.nodes) == (3, 4101, ("n7",))
    assert last.recurrence.classes == ("xid-79", "oom-gpu", "xid-31")


def test_a_node_recurs_that_most_failures_that_ended_a_run_suspect(engine: Engine) -> None:
    failures = [an_xid(79, 1000 * run + 60, node, job="A") for run, node in enumerate(("n3", "n7", "n7"))]
    incidents: list[Incident] = []
    for run, failure in enumerate(failures):
        engine.add([failure], steps(4090, 12, 1000 * run))
        incidents += engine.advance(at(1000 * run + 900))
    recurrence = incidents[-1].recurrence
    assert recurrence is not None
    assert (recurrence.attempts, recurrence.nodes) == (3, ("n7",))


def test_a_failure_after_which_the_same_run_trained_on_is_no_failed_run(engine: Engine) -> None:
    engine.add([a_match("cuda.illegal_access", 30, "n3", "A"), an_xid(79, 300, "n7", job="A")], steps(0, 60, 0))
    found = {incident.incident_id: incident for incident in engine.advance(at(400))}
    assert [(incident.status, incident.recurrence) for incident in found.values()] == [
        ("resolved", None),
        ("open", None),
    ]


def test_the_first_failure_of_a_job_has_no_recurrence(engine: Engine) -> None:
    engine.add([an_xid(79, 60, "n7", job="A")], steps(0, 12, 0))
    (incident,) = engine.advance(at(100))
    assert incident.recurrence is None


def test_a_line_that_reports_recovery_resolves_its_incident(engine: Engine) -> None:
    down = a_match("nic.link_down", 10, "n1")
    engine.add([down, a_match("nic.link_up", 20, "n2"), a_match("nic.link_up", 30, "n1", text="eth2: Link up")])
    (resolved,) = engine.advance(at(40))
    assert (resolved.status, history_of(resolved)[-1]) == ("resolved", "resolved: cleared: eth2: Link up")
    assert resolved.resolved_by == "cleared"


def test_a_recovery_resolves_nothing_while_something_else_is_broken(engine: Engine) -> None:
    engine.add([a_match("nic.link_down", 10, "n1"), an_xid(79, 11, "n1"), a_match("nic.link_up", 30, "n1")])
    assert [incident.status for incident in engine.advance(at(40))] == ["open"]


def test_a_failure_after_a_recovery_reopens_its_incident(engine: Engine) -> None:
    engine.add([a_match(f"nic.link_{way}", second, "n1") for way, second in (("down", 10), ("up", 30), ("down", 50))])
    (again,) = engine.advance(at(60))
    assert (again.status, len(again.history), again.resolved_by) == ("open", 3, "")


def pod_event(second: int, reason: str, message: str, pod: str = "run7-worker-3") -> bytes:
    """A line of `kubectl get events --watch -o json`, on one line."""
    time = f"{iso(second)[:19]}Z"
    fields = {
        "apiVersion": "v1",
        "count": 1,
        "eventTime": None,
        "firstTimestamp": time,
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": "ml", "uid": "4e0b7f52"},
        "kind": "Event",
        "lastTimestamp": time,
        "message": message,
        "metadata": {"creationTimestamp": time, "name": f"{pod}.18a2c4d1f0b3", "namespace": "ml"},
        "reason": reason,
        "source": {"component": "kubelet", "host": "n4"},
        "type": "Warning" if reason == "Failed" else "Normal",
    }
    return orjson.dumps(fields)


PULL = 'Failed to pull image "registry.local/llm:1": rpc error: code = '
REFUSED = f"{PULL}Unavailable desc = dial tcp 10.0.0.9:443: connect: connection refused"
UNKNOWN = f"{PULL}NotFound desc = registry.local/llm:1: manifest unknown"
PULLED = 'Successfully pulled image "registry.local/llm:1" in 42.1s (42.1s including waiting)'
STARTED = "Started container pytorch"
NOT_PULLED = pod_event(10, "Failed", REFUSED)


def after(second: float, *events: bytes) -> list[tuple[str, str]]:
    """Class and severity of the incidents by that second, with what Kubernetes reports by then."""
    engine, scanned = Engine(the_rules()), a_scanner().scan(batch(events))
    engine.add([*scanned.matches, *scanned.observed], scanned.heartbeats)
    return [(incident.failure_class, incident.severity) for incident in engine.advance(at(second))]


PAGED = [("k8s-image-pull", "error")]


@pytest.mark.parametrize(("reason", "message"), [("Started", STARTED), ("Pulled", PULLED)])
def test_an_image_that_a_pod_gets_in_the_end_is_no_incident(reason: str, message: str) -> None:
    assert after(1200, NOT_PULLED, pod_event(300, reason, message)) == []


@pytest.mark.parametrize(("second", "expected"), [(609, []), (611, PAGED)])
def test_an_image_that_a_pod_does_not_get_pages_after_ten_minutes(
    second: float, expected: list[tuple[str, str]]
) -> None:
    assert after(second, NOT_PULLED) == expected


def test_a_pod_that_starts_shows_nothing_about_another_pod_of_its_job() -> None:
    assert after(1200, NOT_PULLED, pod_event(300, "Started", STARTED, "run7-worker-4")) == PAGED


def test_of_two_pods_that_wait_for_an_image_both_must_start() -> None:
    waiting = [NOT_PULLED, pod_event(12, "Failed", REFUSED, "run7-worker-4")]
    first, second = pod_event(300, "Started", STARTED), pod_event(310, "Started", STARTED, "run7-worker-4")
    assert after(1200, *waiting, first) == PAGED
    assert after(1200, *waiting, first, second) == []


def test_an_image_that_a_pod_lacks_again_after_its_start_pages() -> None:
    assert after(1200, NOT_PULLED, pod_event(100, "Started", STARTED), pod_event(200, "Failed", REFUSED)) == PAGED


def test_an_image_that_does_not_exist_pages_at_once() -> None:
    assert after(11, pod_event(10, "Failed", UNKNOWN)) == PAGED


def test_a_pod_that_starts_ends_the_incident_of_its_image() -> None:
    engine = Engine(the_rules())
    scanned = a_scanner().scan(batch([NOT_PULLED, pod_event(700, "Started", STARTED)]))
    engine.add([*scanned.matches, *scanned.observed], scanned.heartbeats)
    (opened,) = engine.advance(at(650))
    (resolved,) = engine.advance(at(700))
    assert (resolved.incident_id, resolved.status) == (opened.incident_id, "resolved")
    assert history_of(resolved)[-1] == f"resolved: cleared: {STARTED}"
