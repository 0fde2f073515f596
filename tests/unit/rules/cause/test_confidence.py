"""How sure the likeliest cause is: more with each fact for it, less with each gap and each rival."""

from __future__ import annotations

import pytest

from epicenter.rules.cause.confidence import MAX_CONFIDENCE, MIN_CONFIDENCE, Gap, confidence
from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.model.signals import Signal
from tests.support.logs import the_rules
from tests.support.signals import a_signal


def ranked(*signals: Signal) -> list[Candidate]:
    return rank(signals, the_rules().edges_between, lambda signal: {signal.job} - {""})


def test_confidence_is_high_for_a_kernel_line_and_lower_for_a_mere_effect() -> None:
    kernel = confidence(ranked(a_signal("host-oom-kill", 0, "n1", source="kernel", role="root")))
    program = confidence(ranked(a_signal("nan-loss", 0, "n1", "A", role="root")))
    effect = confidence(ranked(a_signal("nccl-error", 0, "n1", "A")), has_known_causes=True)
    assert kernel > program > effect


def test_confidence_falls_when_it_was_noticed_by_waiting() -> None:
    seen = confidence(ranked(a_signal("hang", 9, "n1", "A")))
    assert confidence(ranked(a_signal("hang", 9, "n1", "A", onset=0))) < seen


def test_confidence_falls_with_a_rival_of_another_class_but_not_with_an_effect() -> None:
    alone = confidence(ranked(a_signal("a", 0, "n1", "A")))
    rivals = confidence(ranked(a_signal("a", 0, "n1", "A"), a_signal("b", 0, "n2", "A")))
    effect = confidence(
        ranked(a_signal("host-oom-kill", 0, "n1", "A"), a_signal("dataloader-worker-died", 1, "n1", "A"))
    )
    assert rivals < alone <= effect


@pytest.mark.parametrize("gap", list(Gap))
def test_confidence_falls_with_each_gap(gap: Gap) -> None:
    found = ranked(a_signal("nccl-error", 0, "n1", "A"))
    assert confidence(found, {gap}) < confidence(found)


def test_confidence_stays_in_its_bounds() -> None:
    worst = ranked(a_signal("hang", 9, "", "A", onset=0))
    assert confidence(worst, set(Gap), has_known_causes=True) == MIN_CONFIDENCE
    assert confidence(ranked(a_signal("xid-79", 0, "n1", source="kernel", role="root"))) == MAX_CONFIDENCE
