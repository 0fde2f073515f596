"""Checks that the program makes, their answers, and the steps that remain."""

from __future__ import annotations

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Position
from epicenter.rules.model.signals import Signal
from epicenter.rules.report.checks import steps_left
from epicenter.rules.report.report import report
from tests.support.logs import the_rules
from tests.support.signals import a_signal

FOUR_NODES = IncidentContext(
    world_size_by_job={"A": 16},
    seen_ranks_by_job={"A": set(range(16))},
    node_of_rank={("A", rank): f"n{rank // 4}" for rank in range(16)},
    nodes_by_job={"A": {"n0", "n1", "n2", "n3"}},
    kernel_nodes={"n0", "n1", "n2", "n3"},
)


def an_incident(*signals: Signal, context: IncidentContext = FOUR_NODES) -> Incident:
    state = IncidentState("00000000000000a1", "default")
    for signal in signals:
        state.add(signal, {"A"})
    return report(state, the_rules(), context)


def answers(incident: Incident) -> dict[str, str]:
    return {check.question: check.answer for check in incident.checks}


def a_line(failure_class: str, second: float, node: str, rule: str, rank: int | None = None, **fields: str) -> Signal:
    position = Position(f"{node}.log", int(second))
    more = {"rule": rule, "rank": rank, "position": position, "fields": fields}
    return a_signal(failure_class, second, node, "A", **more)


def timeouts(*ranks: int) -> list[Signal]:
    fields = {"seq": "90", "op": "ALLREDUCE", "ran_ms": "1800042"}
    return [
        a_line("nccl-timeout", 600 + rank / 100, f"n{rank // 4}", "nccl.watchdog_timeout", rank, **fields)
        for rank in ranks
    ]


def test_ranks_in_the_title_are_no_check_and_answer_the_first_step() -> None:
    incident = an_incident(*timeouts(*range(12)))
    assert incident.title == "ranks 0–11 timed out in ALLREDUCE 90 after 30 min; ranks 12–15 (n3) never reported"
    assert "Which rank do the others wait for?" not in answers(incident)
    assert answers(incident)["What does the kernel log of n3 say?"] == "no failure that a rule knows"
    assert not any(step.startswith(("Find the rank", "Read the kernel log")) for step in incident.next_steps)


def test_awaited_rank_is_a_check_where_the_title_is_about_its_failure() -> None:
    failed = a_line("python-exception", 1, "n3", "python.shape_or_type", 12)
    incident = an_incident(failed, *timeouts(*range(12)))
    assert incident.failure_class == "python-exception"
    assert answers(incident)["Which rank do the others wait for?"] == "ranks 12–15 (n3) never reported"


def test_step_remains_where_the_check_can_not_be_made() -> None:
    incident = an_incident(*timeouts(*range(16)), context=NO_CONTEXT)
    assert incident.checks == ()
    assert incident.next_steps[0].startswith("Find the rank that did not report")


def test_kernel_log_answers_with_its_failures_and_their_times() -> None:
    kernel = a_line("nvme-timeout", 30, "n1", "nvme.timeout", device="nvme2")
    kernel = a_signal(
        "nvme-timeout", 30, "n1", "A", rule="nvme.timeout", source="kernel", severity="warning", fields=kernel.fields
    )
    incident = an_incident(kernel, a_line("ray-worker-died", 10, "n1", "ray.worker_died", pid="7"))
    assert incident.failure_class == "ray-worker-died"
    assert answers(incident)["What does the kernel log of n1 say?"] == "09:00:30Z NVMe drive nvme2 timed out"


def test_kernel_root_has_the_kernel_failures_before_it() -> None:
    first = a_signal("pcie-aer-fatal", 9, "n1", rule="machine.aer_fatal", source="kernel", severity="info")
    root = a_signal("xid-79", 10, "n1", rule="nvidia.xid_79", source="kernel", role="root", fields={"code": "79"})
    assert answers(an_incident(first, root)) == {
        "Did the kernel of n1 report a failure before it?": "09:00:09Z Fatal PCIe error"
    }


def test_other_nodes_with_the_same_failure_are_named() -> None:
    question = "Which other nodes report the same?"
    alone = an_incident(a_line("import-error", 1, "n2", "python.import_error"))
    many = an_incident(*(a_line("import-error", number, f"n{number}", "python.import_error") for number in range(3)))
    assert answers(alone)[question] == "none, only n2"
    assert answers(many)[question] == "n1, n2"


def test_ranks_that_never_logged_are_named() -> None:
    context = IncidentContext(world_size_by_job={"A": 16}, seen_ranks_by_job={"A": set(range(12))})
    incident = an_incident(a_line("rendezvous-timeout", 1, "n0", "store.rendezvous_timeout"), context=context)
    assert answers(incident) == {"Which ranks never logged?": "ranks 12–15, of 16"}
    assert not any(step.startswith("Find the node whose launcher") for step in incident.next_steps)


def test_steps_left_are_those_that_no_check_made() -> None:
    assert steps_left(("a", "b", "c"), {"awaited-rank": 1, "kernel-log": 3}, {"kernel-log", "other-nodes"}) == (
        "a",
        "b",
    )


def test_every_checked_step_of_the_catalogue_is_about_its_check() -> None:
    words = {
        "awaited-rank": ("rank", "node that did not report"),
        "kernel-log": ("kernel log",),
        "kernel-before": ("before", "earlier"),
        "other-nodes": ("other nodes", "Many nodes", "several ranks"),
        "silent-ranks": ("did not start",),
    }
    for rule in the_rules().rules:
        for name, number in rule.spec.checks.items():
            step = rule.spec.next_steps[number - 1]
            assert any(word in step for word in words[name]), f"{rule.spec.id}: {name}: {step}"
