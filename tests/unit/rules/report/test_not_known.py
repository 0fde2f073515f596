"""The answer "not known": given where evidence is missing, with what is known and what would settle it."""

from __future__ import annotations

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.model.signals import Signal
from tests.support.signals import a_signal
from tests.unit.rules.report.test_evidence import an_incident, timeouts

OUT_OF_MEMORY = a_signal("oom-gpu", 0, "n1", "A", role="root")
NO_KERNEL_LOG = IncidentContext(kernel_nodes={"n0"})


def not_known(signals: list[Signal], context: IncidentContext = NO_CONTEXT) -> tuple[str, str, tuple[str, ...]]:
    found = an_incident(signals, context).not_known
    return (found.failure_class, found.node, found.settled_by) if found else ("", "", ())


def test_complete_evidence_leaves_nothing_to_settle() -> None:
    assert an_incident([OUT_OF_MEMORY]).not_known is None


def test_node_is_known_and_class_is_not_without_its_kernel_log() -> None:
    assert not_known([OUT_OF_MEMORY], NO_KERNEL_LOG) == ("", "n1", ("the kernel log of n1",))


def test_class_is_known_and_node_is_not_where_no_line_names_it() -> None:
    preempted = a_signal("slurm-preempted", 0, "", "A", role="root")
    rivals = [a_signal("slurm-preempted", 0, node, "A", role="root") for node in ("n2", "n3")]
    found = not_known([preempted, *rivals], IncidentContext(kernel_nodes=()))
    assert found[:2] == ("slurm-preempted", "")


def test_ranks_that_never_logged_are_named() -> None:
    context = IncidentContext(world_size_by_job={"A": 4}, seen_ranks_by_job={"A": {0, 1}})
    assert not_known([OUT_OF_MEMORY], context)[2] == ("the logs of ranks 2, 3 of job A",)


def test_logs_that_stopped_or_are_cut_off_are_named() -> None:
    context = IncidentContext(mute_nodes_by_job={"A": ["n3"]}, cut_nodes={"n1"})
    settled_by = ("the logs of n3 after they stopped", "the rest of the log of n1, which is cut off")
    assert not_known([OUT_OF_MEMORY], context)[2] == settled_by


def test_waiting_alone_is_settled_by_what_the_awaited_rank_did() -> None:
    found = not_known(timeouts(0, 1, 2, 3, 4, 6, 7), IncidentContext(world_size_by_job={"A": 8}))
    assert found == ("", "n1", ("where rank 5 stood: its stack (`py-spy dump`), or its own log",))


def test_probabilities_of_the_answers_and_of_not_known_sum_to_at_most_one() -> None:
    rival = a_signal("nan-loss", 0, "n2", "A", role="root")
    incident = an_incident([OUT_OF_MEMORY, rival], NO_KERNEL_LOG)
    assert incident.not_known
    total = incident.not_known.confidence + sum(cause.confidence for cause in incident.candidates)
    assert 0.97 <= total <= 1.03


def test_candidates_that_could_be_the_cause_come_before_effects() -> None:
    effect = a_signal("connection-reset", 1, "n3", "A")
    rival = a_signal("nan-loss", 2, "n2", "A", role="confirmation")
    incident = an_incident([OUT_OF_MEMORY, effect, rival])
    assert [cause.failure_class for cause in incident.candidates] == ["oom-gpu", "nan-loss", "connection-reset"]
