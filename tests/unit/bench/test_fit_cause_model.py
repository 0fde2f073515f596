"""The fit of the doubts, on answers whose truth is known by construction."""

from __future__ import annotations

import pytest

from bench.calibration import report
from bench.cause_cases import WeighedAnswer, WeighedCase
from bench.fit_cause_model import MODEL_FILE, fit, fitted, rewritten, spec_in
from epicenter.rules.packs.cause_model import CauseModel
from tests.support.logs import the_rules

RIGHT = WeighedAnswer("xid-79", "n1", ("kernel",), is_right=True)
WRONG = WeighedAnswer("hang", "n2", (), is_right=False)


def cases(doubt: str, right: int, wrong: int) -> list[WeighedCase]:
    answers = [RIGHT] * right + [WRONG] * wrong
    return [WeighedCase("a case", 0.5, (answer,), ("any", doubt)) for answer in answers]


def fit_to(*found: WeighedCase) -> CauseModel:
    return fit(found, spec_in(MODEL_FILE), the_rules().cause_model)


def test_fit_makes_the_confidence_the_share_of_right_answers() -> None:
    found = cases("kernel", 900, 100) + cases("unseen-ranks", 300, 700)
    model = fit_to(*found)
    assert found[0].confidence_by(model) == pytest.approx(0.9, abs=0.02)
    assert found[-1].confidence_by(model) == pytest.approx(0.3, abs=0.02)


def test_fit_stays_near_what_was_judged_where_there_are_few_cases() -> None:
    assert fit_to(*cases("back-dated", 1, 0)).doubt("unseen-ranks") == spec_in(MODEL_FILE).doubts["unseen-ranks"].judged


def test_doubt_never_becomes_a_support() -> None:
    assert fitted([[{}, {"gap": 1.0}]] * 1000, {"gap": 1.0})["gap"] > 0


def test_same_cases_give_the_same_weights() -> None:
    found = cases("kernel", 5, 1) + cases("cut-log", 2, 2)
    assert fit_to(*found).doubts == fit_to(*found).doubts


def test_right_answer_in_place_of_the_first_is_likelier_the_more_often_it_is_right() -> None:
    other = WeighedAnswer("oom-gpu", "n1", (), is_right=True)
    seldom = [WeighedCase("", answers=(WRONG, WeighedAnswer("oom-gpu", "n1", (), is_right=False)))] * 50
    often = [WeighedCase("", answers=(WRONG, other))] * 50
    assert fit_to(*often).none < fit_to(*seldom).none


def test_file_gets_the_new_weights_and_stays_as_it_was_otherwise() -> None:
    text = MODEL_FILE.read_text("utf-8")
    model = fit_to(*cases("kernel", 9, 1))
    changed = rewritten(text, model, "fit: a test")
    assert changed.count("'fit: a test'") == len(spec_in(MODEL_FILE).doubts) + 1
    assert f"    kernel: {{weight: {model.doubt('kernel'):g}, judged: -1, source: 'fit: a test'}}" in changed
    assert [line.partition("{")[0] for line in changed.splitlines()] == [
        line.partition("{")[0] for line in text.splitlines()
    ]


def test_calibration_counts_faults_without_an_incident_apart() -> None:
    found = [WeighedCase("none"), WeighedCase("right", 0.9, is_right=True, has_incident=True)]
    first, *others = report(found)
    assert first == "2 faults: 1 without an incident, 1 with a right first answer"
    assert others[-1].startswith("Brier score 0.010")
