"""Which incidents page: those that hurt a job."""

from __future__ import annotations

import pytest

from epicenter.rules.correlate.harm import hurts_a_job, is_harmless
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.records import Position
from epicenter.rules.model.signals import Signal
from tests.support.logs import a_scanner, at, batch, the_rules, vector
from tests.support.signals import a_match, a_signal, a_step, alive

OOM_RULE = "memory.host_oom_kill"
LINE = Position("n1.log", 1)
IN_A_TEST = ("Traceback (most recent call last):", '  File "tests/test_ops.py", line 41, in test_timeout')
IN_A_THREAD = (
    "Exception in thread Thread-3:",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner',
)
LEFT = "3: [rank3]:[{level}302 09:00:05.001209091 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=62)"
IN_A_SANDBOX = (
    "Traceback (most recent call last):",
    '  File "/tmp/tmp4k2x9a_b/main.py", line 3, in <module>',
    '  File "<string>", line 7, in solve',
)
IN_A_LIBRARY = (*IN_A_SANDBOX[:2], '  File "/w/lib.py", line 7, in load')
IN_A_COMMAND = (IN_A_SANDBOX[0], '  File "<string>", line 1, in <module>')
IN_A_READER = ("Traceback (most recent call last):", '  File "/w/reader.py", line 41, in read')


def incident_of(*signals: Signal) -> IncidentState:
    incident = IncidentState("i", "default")
    for signal in signals:
        incident.add(signal, {signal.job} - {""})
    return incident


@pytest.mark.parametrize(
    ("established", "pages"), [({"A"}, False), ({"A", "B"}, True), (None, True)], ids=["other", "both", "every"]
)
def test_the_error_of_a_single_program_hurts_no_other_job_of_its_incident(
    established: set[str] | None, pages: bool
) -> None:
    of_b = a_signal("oom-gpu", 9, "n1", "B", position=LINE)
    incident = incident_of(a_signal("slurm-cancelled", 5, "n2", "A", position=LINE), of_b)
    assert hurts_a_job(incident, established) is pages


@pytest.mark.parametrize(
    ("signal", "harmless"),
    [
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_TEST), True, id="test"),
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_READER), False, id="reader"),
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_SANDBOX), True, id="sandbox"),
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_LIBRARY), False, id="library"),
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_COMMAND), False, id="python-c"),
        pytest.param(a_signal("python-exception", 5, job="A", position=LINE, block=IN_A_THREAD), True, id="thread"),
        pytest.param(a_signal("host-oom-kill", 5, job="A", position=LINE, rule=OOM_RULE), True, id="quoted-kill"),
        pytest.param(
            a_signal("host-oom-kill", 5, "n1", "A", position=LINE, rule=OOM_RULE, source="kernel"), False, id="kill"
        ),
        pytest.param(
            a_signal("nccl-timeout", 5, job="A", text="Timeout(ms)=5000) ran for 5020"), True, id="short-wait"
        ),
        pytest.param(a_signal("nccl-timeout", 5, job="A", text="Timeout(ms)=60000) ran for 60020"), False, id="wait"),
        *(
            pytest.param(
                a_signal("connection-reset", 5, job="A", position=LINE, source="any", text=LEFT.format(level=level)),
                level == "W",
                id=f"c10d-{level}",
            )
            for level in "WE"
        ),
        pytest.param(
            a_signal("dataloader-worker-died", 5, job="A", position=LINE, text="worker exited (restart 1 of 10)"),
            True,
            id="tried-again",
        ),
        pytest.param(
            a_signal("dataloader-worker-died", 5, job="A", position=LINE, text="worker exited (restart 10 of 10)"),
            False,
            id="last-try",
        ),
    ],
)
def test_what_a_test_raises_a_model_writes_or_a_program_tries_again_is_harmless(signal: Signal, harmless: bool) -> None:
    assert is_harmless(signal, {"A"}) is harmless


def severities(engine: Engine) -> set[str]:
    return {incident.severity for incident in engine.flush()}


@pytest.mark.parametrize(("others", "expected"), [(("B", "C"), {"warning"}), ((), {"error"})], ids=["several", "one"])
def test_jobs_are_several_by_their_names_where_no_line_names_a_node(
    others: tuple[str, ...], expected: set[str]
) -> None:
    engine = Engine(the_rules())
    engine.add([a_match("memory.oom_gpu", 50, "", "A")], [alive(1, job, "") for job in ("A", *others)])
    assert severities(engine) == expected


@pytest.mark.parametrize(
    ("heartbeats", "expected"),
    [
        pytest.param([alive(1, "A", "")], {"warning"}, id="shell"),
        pytest.param([a_step(number, 2 * number) for number in range(20)], {"error"}, id="training-in-a-shell"),
    ],
)
def test_what_a_person_at_a_shell_runs_opens_no_page_unless_it_trains(
    heartbeats: list[Heartbeat], expected: set[str]
) -> None:
    engine = Engine(the_rules())
    engine.add([a_match("slurm.shell", 1, "", "A"), a_match("memory.oom_gpu", 50, "", "A")], heartbeats)
    assert severities(engine) == expected


def test_the_exception_of_a_cancelled_job_is_no_effect_of_a_later_ticket() -> None:
    engine = Engine(the_rules())
    engine.add(
        [
            a_match("slurm.cancelled", 90, "n1", "A"),
            a_match("python.exception_line", 92, "n1", "A", "ValueError: no batch"),
            a_match("nic.link_down", 95, "n1", source="kernel"),
        ],
        [a_step(number, 5 * number) for number in range(17)],
    )
    assert severities(engine) == {"warning"}


def test_a_line_of_a_node_with_a_ticket_leaves_an_error_pending_that_the_job_survives() -> None:
    engine = Engine(the_rules())
    link_down, again = (a_match("nic.link_down", second, "n1", source="kernel") for second in (98, 403))
    engine.add([link_down], [a_step(number, 5 * number) for number in range(20)])
    (ticket,) = engine.advance(at(150))
    error = a_match("python.exception_line", 402, "n1", "A", "ValueError: no batch")
    engine.add([error, again], [a_step(number, 400 + 5 * number) for number in range(20)])
    changed = [*engine.advance(at(404)), *engine.advance(at(499)), *engine.flush()]
    assert {incident.severity for incident in [ticket, *changed]} == {"warning"}


def test_a_warning_that_announces_another_try_opens_no_page() -> None:
    line = "2026-03-02 09:00:53,110 WARNING loader: DataLoader worker (pid 41) exited unexpectedly with exit code 1"
    scanned = a_scanner().scan(batch([vector("n1", 50, line, job="A")]))
    engine = Engine(the_rules())
    engine.add(scanned.matches, [alive(1, "A", "n1"), alive(2, "B", "n2")])
    assert severities(engine) <= {"warning"}


@pytest.mark.parametrize(
    ("pods", "heard", "pages"),
    [
        pytest.param(("a-0",), (), False, id="one-of-a-job-never-heard"),
        pytest.param(("a-0", "a-1"), (), True, id="several"),
        pytest.param(("a-0",), ("A",), True, id="job-that-logs"),
    ],
)
def test_the_delay_of_a_single_pod_hurts_no_job_that_never_logged(
    pods: tuple[str, ...], heard: tuple[str, ...], pages: bool
) -> None:
    delays = [
        a_signal("k8s-image-pull", second, "n1", "A", position=LINE, fields={"pod": pod}, rank=second)
        for second, pod in enumerate(pods)
    ]
    assert hurts_a_job(incident_of(*delays), {"B"}, heard) is pages
