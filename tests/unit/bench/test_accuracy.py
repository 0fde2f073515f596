"""How incidents are scored against the truth, on small cases worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.accuracy import OURS, answered, folders_with_truth
from bench.accuracy_report import as_json, as_text, goals_missed
from bench.accuracy_score import Found, Scores, TrueFault, Truth, found_of, judge, percentile, seconds
from bench.baselines import ErrorLine, by_job_in_5_minutes, earliest_error_line, highest_severity

ONSET = "2026-03-02T09:10:00Z"
ONSET_S = seconds(ONSET)


def a_fault(**given: Any) -> TrueFault:
    usual = {
        "fault": "gpu",
        "failure_class": "xid-79",
        "onset": ONSET,
        "incident": True,
        "also_ok": ("pcie-aer-fatal",),
    }
    return TrueFault(**{**usual, "node": "n3", "jobs": ("A",), "nodes": ("n3",), **given})


def found(
    *candidates: tuple[str, str], after_s: float = 0.0, job: str = "A", verdict: str = "", node: str = ""
) -> Found:
    nodes = frozenset(name for name in (node, candidates[0][1]) if name)
    return Found(candidates, frozenset({job} - {""}), nodes, ONSET_S + after_s, ONSET_S + after_s + 600, verdict)


def truth(*faults: TrueFault) -> Truth:
    return Truth("2026-03-02T09:00:00Z", "2026-03-02T10:30:00Z", faults)


def scored(fault: TrueFault, *incidents: Found) -> Any:
    (score,) = judge("case", truth(fault), incidents)
    return score


def test_a_single_incident_with_class_and_node_is_right_in_all_figures() -> None:
    score = scored(a_fault(), found(("xid-79", "n3"), after_s=-2.5))
    assert (score.top1, score.top3, score.one, score.verdict, score.onset_error_s) == (True, True, True, None, 2.5)
    assert score.wrong == []


@pytest.mark.parametrize(
    ("fault", "root", "is_right"),
    [
        pytest.param(a_fault(), ("pcie-aer-fatal", "n3"), True, id="another name of the same event"),
        pytest.param(a_fault(), ("xid-79", "n4"), False, id="another node"),
        pytest.param(a_fault(), ("nccl-timeout", "n3"), False, id="another class"),
        pytest.param(a_fault(node="", nodes=("n3", "n4")), ("xid-79", "n4"), True, id="one of the fault's nodes"),
        pytest.param(a_fault(node="", nodes=("n3", "n4")), ("xid-79", "n9"), False, id="a node that it never touched"),
        pytest.param(a_fault(node="", nodes=("n3", "n4")), ("xid-79", ""), True, id="no node where none is to blame"),
        pytest.param(a_fault(node=None, nodes=()), ("xid-79", "n9"), True, id="nothing known of nodes"),
    ],
)
def test_class_and_node_of_the_root_must_both_be_right(fault: TrueFault, root: tuple[str, str], is_right: bool) -> None:
    assert scored(fault, found(root)).top1 is is_right


def test_the_right_cause_in_third_place_counts_for_the_top_three_only() -> None:
    wrong = [("nccl-timeout", "n1"), ("sigabrt", "n1")]
    third = scored(a_fault(), found(*wrong, ("xid-79", "n3")))
    fourth = scored(a_fault(), found(*wrong, ("sigabrt", "n2"), ("xid-79", "n3")))
    assert (third.top1, third.top3, third.onset_error_s) == (False, True, None)
    assert (fourth.top1, fourth.top3) == (False, False)


def test_no_incident_for_a_failure_is_wrong_in_all_figures() -> None:
    score = scored(a_fault(verdict="hung"))
    assert (score.top1, score.top3, score.one, score.verdict, score.got_verdict) == (False, False, False, False, "none")


def test_of_two_incidents_the_one_that_fits_best_is_the_answer() -> None:
    score = scored(a_fault(), found(("xid-79", "n3"), after_s=60), found(("hang", ""), after_s=30))
    assert (score.top1, score.one) == (True, False)


def test_a_ticket_about_something_else_is_no_second_page() -> None:
    ticket = msgspec.structs.replace(found(("ecc-corrected", "n5")), severity="warning")
    score = scored(a_fault(), found(("xid-79", "n3")), ticket)
    assert (score.one, len(score.found)) == (True, 2)


@pytest.mark.parametrize(
    ("root", "is_right"),
    [
        pytest.param(("nccl-timeout", "n3"), True, id="any class"),
        pytest.param(("nccl-timeout", ""), True, id="no node"),
        pytest.param(("nccl-timeout", "n4"), False, id="another node"),
    ],
)
def test_what_the_logs_do_not_hold_may_stay_unknown_but_not_be_wrong(root: tuple[str, str], is_right: bool) -> None:
    assert scored(a_fault(names_class=False, names_node=False), found(root)).top1 is is_right


def test_an_incident_elsewhere_is_a_stray_of_the_fault_nearest_in_time() -> None:
    later = a_fault(onset="2026-03-02T10:10:00Z", jobs=("B",), nodes=("n7",), node="n7")
    first, second = judge(
        "case",
        truth(a_fault(), later),
        [
            found(("xid-79", "n3")),
            found(("xid-79", "n7"), after_s=3600, job="B"),
            found(("disk-full", "n9"), after_s=3000, job="C"),
        ],
    )
    assert (first.one, len(first.strays)) == (True, 0)
    assert (second.top1, second.one, len(second.strays)) == (True, False, 1)


def test_two_faults_of_a_job_are_distinguished_by_class() -> None:
    full = a_fault(failure_class="disk-full", also_ok=(), fault="disk")
    scores = judge("case", truth(a_fault(), full), [found(("disk-full", "n3")), found(("xid-79", "n3"))])
    assert [(score.top1, score.one) for score in scores] == [(True, True), (True, True)]


def test_an_incident_that_ended_before_the_fault_is_not_about_it() -> None:
    early = msgspec.structs.replace(found(("xid-79", "n3"), after_s=-700), last_s=ONSET_S - 61)
    score = scored(a_fault(), early)
    assert (score.top1, score.one, len(score.strays)) == (False, False, 1)


@pytest.mark.parametrize(
    ("fault", "incidents", "single", "verdict", "got"),
    [
        pytest.param(a_fault(verdict="finished"), [], True, True, "none", id="no incident"),
        pytest.param(a_fault(verdict="finished"), ["hung"], False, False, "hung", id="a hang that was none"),
        pytest.param(
            a_fault(verdict="cancelled", optional=True), ["cancelled"], True, True, "cancelled", id="optional"
        ),
        pytest.param(a_fault(verdict="cancelled"), ["cancelled"], False, True, "cancelled", id="named, yet reported"),
    ],
)
def test_where_nothing_failed_no_incident_is_right(
    fault: TrueFault, incidents: list[str], single: bool, verdict: bool, got: str
) -> None:
    quiet = msgspec.structs.replace(fault, incident=False, failure_class="", also_ok=())
    score = scored(quiet, *(found(("hang", "n3"), verdict=name) for name in incidents))
    assert (score.top1, score.one, score.verdict, score.got_verdict) == (None, single, verdict, got)


@pytest.mark.parametrize(
    ("jobs", "verdict"), [pytest.param(("A",), True, id="job"), pytest.param((), False, id="node-without-a-job")]
)
def test_an_incident_of_another_job_on_the_node_is_no_verdict_on_this_one(jobs: tuple[str, ...], verdict: bool) -> None:
    fault = a_fault(verdict="cancelled", incident=False, failure_class="", also_ok=(), jobs=jobs)
    score = scored(fault, found(("xid-13", "n3"), job="B"))
    assert (score.verdict, score.one) == (verdict, False)


def test_figures_are_shares_of_the_cases_they_apply_to() -> None:
    scores = Scores()
    sure = msgspec.structs.replace(found(("xid-79", "n3"), after_s=4), confidence=0.9)
    scores.add("a", msgspec.structs.replace(truth(a_fault()), disturbances=("skew",)), [sure])
    scores.add("b", truth(a_fault(verdict="hung", fault="hang")), [found(("hang", "n3"), verdict="straggler")])
    fleet = msgspec.structs.replace(truth(), nodes=250, gpus_per_node=8)
    scores.add("c", fleet, [found(("disk-full", "n1"))])
    scores.add("d", fleet, [msgspec.structs.replace(found(("ecc-corrected", "n1")), severity="warning")])
    assert scores.figures() == {
        "faults": 2, "all_right": 0.5, "top1": 0.5, "top3": 0.5, "one": 1.0, "verdict": 0.0,
        "brier": pytest.approx(0.005), "healthy_hours": 3.0, "false_pages": 1, "false_tickets": 1, "pages_a_day": 2.0,
        "onset_p50_s": 4.0, "onset_p95_s": 4.0,
    }  # fmt: skip
    assert {name: figures["top1"] for name, figures in scores.by_disturbance().items()} == {"skew": 1.0, "none": 0.0}
    assert scores.confusion() == {("hung", "straggler"): 1}
    assert scores.by_kind()["gpu"]["top1"] == 1.0
    assert goals_missed(scores.figures()) == [
        "all_right 0.500, goal 0.9",
        "top1 0.500, goal 0.95",
        "top3 0.500, goal 0.99",
        "verdict 0.000, goal 0.97",
        "2.00 false pages a day in 500 GPUs, goal 0.02",
    ]
    text = as_text({OURS: scores})
    assert "b hang [top1, top3, verdict]: wanted xid-79@n3" in text
    assert "c: page disk-full@n1 jobs=A verdict=-" in text
    assert json.loads(as_json({OURS: scores}))["confusion"] == [["hung", "straggler", 1]]


def test_percentiles_are_values_that_occur() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert percentile([], 0.5) is None


def a_document(**given: Any) -> dict[str, Any]:
    root = {"class": "nccl-timeout", "node": "n1", "event_time": "2026-03-02T09:20:00.000000000Z"}
    link = {"role": "root", "class": "nccl-timeout", "onset": "2026-03-02T09:10:00.000000000Z"}
    return {"root_cause": root, "chain": [link], "jobs": ["A"], "nodes": ["n2"], "last_seen": ONSET,
            "severity": "error", **given}  # fmt: skip


def test_a_document_without_candidates_has_its_root_as_the_only_one() -> None:
    incident = found_of(a_document())
    assert incident.candidates == (("nccl-timeout", "n1"),)
    assert incident.nodes == {"n1", "n2"}
    assert (incident.onset_s, incident.verdict) == (ONSET_S, "")


def test_a_documents_candidates_keep_their_order() -> None:
    ranked = [{"class": "xid-79", "node": "n3"}, {"class": "nccl-timeout", "node": "n1"}]
    assert found_of(a_document(candidates=ranked, verdict="hung")).candidates == (
        ("xid-79", "n3"),
        ("nccl-timeout", "n1"),
    )


LINES = [
    ErrorLine(0.0, 2, "nccl-timeout", "n1", "A"),
    ErrorLine(10.0, 3, "xid-79", "n3", ""),
    ErrorLine(250.0, 2, "sigabrt", "n1", "A"),
    ErrorLine(301.0, 2, "nccl-timeout", "n2", "A"),
    ErrorLine(302.0, 2, "nccl-timeout", "n2", "B"),
]


def test_the_earliest_error_line_is_the_only_incident() -> None:
    (incident,) = earliest_error_line(LINES)
    assert incident.candidates == (("nccl-timeout", "n1"), ("xid-79", "n3"), ("sigabrt", "n1"))
    assert (incident.jobs, incident.nodes) == ({"A", "B"}, {"n1", "n2", "n3"})
    assert (incident.onset_s, incident.last_s) == (0.0, 302.0)


def test_the_highest_severity_wins_over_earlier_lines() -> None:
    (incident,) = highest_severity(LINES)
    assert incident.candidates[0] == ("xid-79", "n3")
    assert (incident.onset_s, incident.last_s) == (10.0, 302.0)


def test_jobs_and_windows_of_five_minutes_are_separate_incidents() -> None:
    incidents = by_job_in_5_minutes(LINES)
    assert [(incident.onset_s, incident.last_s, sorted(incident.jobs)) for incident in incidents] == [
        (0.0, 250.0, ["A"]),
        (10.0, 10.0, []),
        (301.0, 301.0, ["A"]),
        (302.0, 302.0, ["B"]),
    ]


def test_no_match_is_no_incident() -> None:
    assert [way([]) for way in (earliest_error_line, highest_severity, by_job_in_5_minutes)] == [[], [], []]


def test_a_folder_of_any_generator_is_replayed_and_scored(tmp_path: Path) -> None:
    line = "2026-03-02T09:10:00.000000+00:00 n3 kernel: NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus."
    fault = {"class": "xid-79", "fault": "gpu_lost", "onset": ONSET, "incident": True, "node": "n3", "gpu": None}
    for name, faults in (("one", [fault]), ("healthy", [])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kern.log").write_text(f"{line if faults else line[:50]}\n")
        times = {"start": "2026-03-02T09:00:00Z", "end": "2026-03-02T09:30:00Z"}
        (folder / "truth.json").write_text(json.dumps({**times, "seed": 1, "nodes": 2, "faults": faults}))
    scores = {}
    for folder in folders_with_truth([tmp_path]):
        place, case_truth, ways = answered(folder)
        for way, incidents in ways.items():
            scores.setdefault(way, Scores()).add(place, case_truth, incidents)
    assert list(scores) == [OURS, "earliest error line", "highest severity", "by job in 5 minutes"]
    for scored_way in scores.values():
        figures = scored_way.figures()
        assert (figures["top1"], figures["one"], figures["healthy_hours"]) == (1.0, 1.0, 0.5)
        assert (figures["false_pages"], figures["onset_p95_s"]) == (0, 0.0)
