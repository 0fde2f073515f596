"""Which signal explains the others, and why."""

from __future__ import annotations

import pytest

from epicenter.rules.cause.ranking import CLOCK_SKEW_NS, Candidate, explains, rank
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.model.signals import Signal, is_cut_traceback
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.spec import EdgeSpec
from tests.support.logs import the_rules
from tests.support.signals import a_signal

XID = {"source": "kernel", "role": "root"}


def jobs_of(signal: Signal) -> set[str]:
    return {signal.job} if signal.job else {"A"}


def ranked(*signals: Signal) -> list[Candidate]:
    return rank(signals, the_rules().edges_between, jobs_of, the_rules().cause_model)


def classes(candidates: list[Candidate]) -> list[str]:
    return [candidate.signal.failure_class for candidate in candidates]


def test_a_broken_gpu_explains_time_outs_reported_ten_minutes_later() -> None:
    best, *others = ranked(
        a_signal("nccl-timeout", 600, "n1", "A", onset=0.5),
        a_signal("xid-79", 0, "n2", **XID),
        a_signal("nccl-timeout", 601, "n2", "A", onset=1),
    )
    assert best.signal.failure_class == "xid-79"
    assert not best.is_explained
    assert all(other.is_explained for other in others)
    assert [effect.failure_class for effect in best.explains] == ["nccl-timeout"]


def test_a_broken_gpu_explains_time_outs_whose_clock_is_a_little_ahead() -> None:
    assert classes(ranked(a_signal("nccl-timeout", 600, "n1", "A", onset=-4), a_signal("xid-79", 0, "n2", **XID)))[
        0
    ] == ("xid-79")


@pytest.mark.parametrize(("failure_class", "expected"), [("ray-worker-died", True), ("storage-timeout", False)])
def test_only_the_end_of_a_process_elsewhere_counts_although_a_driver_calls_it_a_warning(
    failure_class: str, expected: bool
) -> None:
    warned = a_signal(failure_class, 100, "n2", "A", text="2026-03-01 09:14:01,224 WARNING worker.py:1215 -- it died")
    best, _ = ranked(warned, a_signal("python-exception", 100, "n1", "A"))
    assert (best.signal is warned) is expected


FAILED = a_signal("python-exception", 100, "n1", "A")


@pytest.mark.parametrize(
    ("failed", "later", "expected"),
    [
        pytest.param(FAILED, a_signal("nvme-timeout", 221, "n2", **XID), True, id="kernel"),
        pytest.param(FAILED, a_signal("nvme-timeout", 220, "n2", **XID), False, id="two-minutes"),
        pytest.param(FAILED, a_signal("nvme-timeout", 400, "n2", onset=150, **XID), False, id="earlier-onset"),
        pytest.param(FAILED, a_signal("disk-full", 221, "n2", "A", role="root"), False, id="program"),
        pytest.param(a_signal("edac-ce", 100, "n1"), a_signal("nvme-timeout", 221, "n2", **XID), True, id="daemon"),
        pytest.param(
            a_signal("xid-13", 100, "n1", **XID), a_signal("nvme-timeout", 221, "n2", **XID), False, id="only-kernels"
        ),
        pytest.param(
            a_signal("python-exception", 100, "n1", "A", severity="warning"),
            a_signal("nvme-timeout", 221, "n2", **XID),
            False,
            id="warning",
        ),
    ],
)
def test_what_a_kernel_reports_two_minutes_after_a_job_s_error_and_explains_nothing_is_not_its_cause(
    failed: Signal, later: Signal, expected: bool
) -> None:
    found = ranked(failed, later)
    (reasons,) = [candidate.reasons for candidate in found if candidate.signal is later]
    assert (ReasonKind.AFTERWARDS in [reason.kind for reason in reasons]) is expected
    assert not expected or found[0].signal is failed


def test_what_a_kernel_reports_after_a_job_s_error_counts_if_it_explains_a_later_one() -> None:
    broken = a_signal("xid-79", 300, "n2", **XID)
    found = ranked(FAILED, broken, a_signal("nccl-timeout", 900, "n1", "A", onset=301))
    (of_broken,) = [candidate for candidate in found if candidate.signal is broken]
    assert of_broken.explains
    assert ReasonKind.AFTERWARDS not in [reason.kind for reason in of_broken.reasons]


def test_what_a_kernel_reports_after_a_job_s_error_is_not_why_the_job_has_stopped() -> None:
    later = a_signal("nic-tx-timeout", 300, "n2", **XID)
    found = ranked(FAILED, later, a_signal("hang", 700, "", "A", onset=99))
    (of_later,) = [candidate for candidate in found if candidate.signal is later]
    assert of_later.explains
    assert ReasonKind.AFTERWARDS in [reason.kind for reason in of_later.reasons]


@pytest.mark.parametrize(
    ("failed_s", "ended_s", "expected"),
    [
        pytest.param(100, 101, True, id="after-the-end"),
        pytest.param(100, 106, False, id="clocks-differ"),
        pytest.param(102, 101, False, id="cancelled-before-it-failed"),
    ],
)
def test_what_a_kernel_reports_while_slurm_ends_a_failed_job_is_not_its_cause(
    failed_s: float, ended_s: float, expected: bool
) -> None:
    late = a_signal("lustre-error", 110, "n2", **XID)
    found = ranked(
        a_signal("sigabrt", failed_s, "n1", "A"),
        a_signal("slurm-cancelled", ended_s, "n1", "A", role="teardown", severity="warning"),
        late,
        a_signal("slurm-exit-nonzero", 112, "n2", "A"),
    )
    (of_late,) = [candidate for candidate in found if candidate.signal is late]
    assert of_late.explains
    assert (ReasonKind.AFTERWARDS in [reason.kind for reason in of_late.reasons]) is expected
    assert (found[0].signal is late) is not expected


@pytest.mark.parametrize(("log", "expected"), [("", True), ("train.log", False)])
def test_within_one_log_a_later_line_is_no_cause(log: str, expected: bool) -> None:
    killed = a_signal("sigkill", 103, "n1", "A", log=log)
    waited = a_signal("nccl-error", 100, "n2", "A", log=log)
    assert (ranked(killed, waited)[0].signal is killed) is expected


def test_explained_signals_rank_below_what_explains_them() -> None:
    found = ranked(
        a_signal("host-oom-kill", 0, "n1", **XID),
        a_signal("dataloader-worker-died", 1, "n1", "A"),
        a_signal("python-exception", 2, "n1", "A"),
        a_signal("nccl-error", 5, "n2", "A"),
    )
    assert classes(found)[0] == "host-oom-kill"
    assert [candidate.is_explained for candidate in found] == [False, True, True, True]
    assert found[0].points > max(candidate.points for candidate in found[1:])


def test_an_explained_cause_ranks_below_its_cause_even_if_it_was_logged_first() -> None:
    found = ranked(
        a_signal("gpu-fallen-off-bus", 0, "n1", gpu="g", **XID),
        a_signal("xid-79", 1, "n1", gpu="g", **XID),
    )
    assert classes(found) == ["xid-79", "gpu-fallen-off-bus"]
    assert found[1].points < found[0].points - 3


def test_without_edges_the_earliest_of_equals_is_the_root() -> None:
    assert classes(ranked(a_signal("b", 2, "n1", "A"), a_signal("a", 1, "n1", "A"))) == ["a", "b"]


def test_what_only_confirms_a_failure_began_nothing_though_it_comes_first() -> None:
    wrapper = a_signal("python-exception", 100, "n1", "A", role="confirmation")
    assert classes(ranked(wrapper, a_signal("ray-actor-died", 100.5, "n2", "A")))[0] == "ray-actor-died"
    assert ranked(wrapper)[0].signal is wrapper


def test_the_end_of_a_job_is_never_the_root_of_an_error() -> None:
    found = ranked(a_signal("slurm-cancelled", 0, "n1", "A", role="teardown"), a_signal("gloo-error", 9, "n1", "A"))
    assert classes(found) == ["gloo-error", "slurm-cancelled"]


EDGE = EdgeSpec.model_validate(
    {"cause": ["xid-*"], "effect": ["nccl-timeout"], "scope": "job", "within": "40m", "reason": "they wait"}
)


@pytest.mark.parametrize(
    ("lag_s", "expected"),
    [(0, True), (2400, True), (2401, False), (-CLOCK_SKEW_NS // NS_PER_S, True), (-6, False)],
)
def test_an_edge_reaches_within_its_lag(lag_s: int, expected: bool) -> None:
    cause, effect = a_signal("xid-31", 0, "n1", "A"), a_signal("nccl-timeout", lag_s, "n2", "A")
    assert explains(cause, effect, EDGE, jobs_of) is expected


@pytest.mark.parametrize(
    ("scope", "node", "job", "gpu", "expected"),
    [
        pytest.param("job", "n2", "A", "g2", True, id="job-other-node"),
        pytest.param("job", "n2", "B", "g1", False, id="other-job-other-node"),
        pytest.param("job", "n1", "B", "g1", True, id="other-job-same-node"),
        pytest.param("node", "n1", "B", "g2", True, id="same-node"),
        pytest.param("node", "n2", "A", "g1", False, id="node-other-node"),
        pytest.param("gpu", "n1", "A", "g1", True, id="same-gpu"),
        pytest.param("gpu", "n1", "A", "g2", False, id="other-gpu"),
        pytest.param("gpu", "n2", "A", "g1", False, id="same-gpu-of-another-node"),
    ],
)
def test_an_edge_reaches_over_its_scope(scope: str, node: str, job: str, gpu: str, expected: bool) -> None:
    edge = EDGE.model_copy(update={"scope": scope})
    effect = a_signal("nccl-timeout", 1, node, job, gpu=gpu)
    assert explains(a_signal("xid-79", 0, "n1", "A", gpu="g1"), effect, edge, jobs_of) is expected


@pytest.mark.parametrize("failure_class", ["nan-loss", "xla-compile-fail"])
def test_a_line_ranks_above_a_hang_that_began_with_the_last_step(failure_class: str) -> None:
    found = ranked(
        a_signal("hang", 20, "", "A", onset=-4, role="root"),
        a_signal(failure_class, 0, "n1", "A", role="root"),
    )
    assert classes(found)[0] == failure_class
    assert found[1].is_explained


@pytest.mark.parametrize("failure_class", ["nan-loss", "python-exception", "hang"])
@pytest.mark.parametrize("warning", ["edac-ce", "mce-corrected", "pcie-aer-corrected"])
@pytest.mark.parametrize("second", [-200, 200])
def test_corrected_errors_before_or_after_are_no_cause_of_a_failure(
    failure_class: str, warning: str, second: int
) -> None:
    corrected = a_signal(warning, second, "n1", source="kernel", role="root", severity="warning")
    found = ranked(corrected, a_signal(failure_class, 0, "n1", "A", role="root"))
    assert classes(found)[0] == failure_class


def test_an_explained_signal_with_more_points_comes_after_an_unexplained_one() -> None:
    edges = {("a", "b"), ("b", "c"), ("b", "d"), ("b", "e")}
    signals = [a_signal("a", 0, "n1", "A"), a_signal("b", 1, "n1", "A", **XID)]
    signals += [a_signal(name, 2, "n1", "A") for name in "cde"]
    best, second, *_ = rank(
        signals,
        lambda cause, effect: (EDGE,) if (cause, effect) in edges else (),
        lambda signal: {signal.job},
        the_rules().cause_model,
    )
    assert (best.signal.failure_class, second.signal.failure_class) == ("a", "b")
    assert second.is_explained
    assert second.points > best.points


@pytest.mark.parametrize(
    ("last_line", "expected"),
    [
        pytest.param('  File "train.py", line 9, in step', True, id="frame"),
        pytest.param('[rank2]:   File "train.py", line 9, in step', True, id="frame-of-a-rank"),
        pytest.param(' 3:   File "train.py", line 9, in step', True, id="frame-of-a-task"),
        pytest.param("(worker pid=7)     loss.backward()", True, id="code-of-a-ray-worker"),
        pytest.param("Traceback (most recent call last):", True, id="announcement"),
        pytest.param("=" * 60, True, id="line-drawn-after-it"),
        pytest.param("ValueError: bad shape", False, id="exception"),
        pytest.param(" 3: ValueError:  bad shape", False, id="exception-of-a-task"),
        pytest.param("[rank2]: KeyError: 'input_ids'", False, id="exception-of-a-rank"),
    ],
)
def test_a_traceback_is_cut_where_its_exception_is_missing(last_line: str, expected: bool) -> None:
    block = ("Traceback (most recent call last):", last_line)
    assert is_cut_traceback(a_signal("python-exception", 0, job="A", block=block)) is expected
    assert not is_cut_traceback(a_signal("oom-gpu", 0, job="A", block=block))
    assert not is_cut_traceback(a_signal("python-exception", 0, job="A", block=block, fields={"exception": "KeyError"}))


def test_a_cut_traceback_is_the_cause_only_where_nothing_else_is() -> None:
    cut = a_signal("python-exception", 0, job="A", block=("Traceback (most recent call last):", "  File"))
    named = a_signal("elastic-worker-failed", 1, job="A")
    assert classes(ranked(cut, named)) == ["elastic-worker-failed", "python-exception"]
    assert classes(ranked(cut)) == ["python-exception"]


@pytest.mark.parametrize(
    ("text", "node", "root"),
    [
        pytest.param("ERROR s3fs: ReadTimeoutError: GET part-0022 (attempt 1 of 5)", "n1", "sigabrt", id="elsewhere"),
        pytest.param(
            "ERROR s3fs: ReadTimeoutError: GET part-0022 (attempt 1 of 5)", "n2", "storage-timeout", id="here"
        ),
        pytest.param(
            "ERROR s3fs: ReadTimeoutError: GET part-0022 (attempt 5 of 5)", "n1", "storage-timeout", id="last"
        ),
    ],
)
def test_what_a_program_tries_again_ends_no_process_of_another_node(text: str, node: str, root: str) -> None:
    read = a_signal("storage-timeout", 100, "n2", "A", text=text)
    best, _ = ranked(read, a_signal("sigabrt", 105, node, "A"))
    assert best.signal.failure_class == root
