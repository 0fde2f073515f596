"""How sure the likeliest cause is: more with each fact for it, less with each doubt and each rival."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

import pytest

from epicenter.rules.cause.confidence import (
    MAX_CONFIDENCE,
    MIN_CONFIDENCE,
    Doubt,
    Scored,
    confidence,
    distinct,
    doubts_about,
    rivals,
    shares_of,
)
from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.packs.weights import DoubtName
from tests.support.logs import the_rules
from tests.support.signals import a_signal


def ranked(*signals: Signal) -> list[Candidate]:
    rules = the_rules()
    return rank(signals, rules.edges_between, lambda signal: {signal.job} - {""}, rules.cause_model)


def sureness(found: list[Candidate], gaps: Collection[Doubt] = (), has_known_causes: bool = False) -> float:
    answers = distinct(found)
    return confidence(answers, doubts_about(answers, gaps, has_known_causes))


def test_confidence_is_high_for_a_kernel_line_and_lower_for_a_mere_effect() -> None:
    kernel = sureness(ranked(a_signal("host-oom-kill", 0, "n1", source="kernel", role="root")))
    program = sureness(ranked(a_signal("nan-loss", 0, "n1", "A", role="root")))
    effect = sureness(ranked(a_signal("nccl-error", 0, "n1", "A")), has_known_causes=True)
    assert kernel > program > effect


def test_confidence_falls_when_it_was_noticed_by_waiting() -> None:
    seen = sureness(ranked(a_signal("jax-coordination-error", 9, "n1", "A")))
    assert sureness(ranked(a_signal("jax-coordination-error", 9, "n1", "A", onset=0))) < seen


def test_confidence_falls_with_a_rival_of_another_class_but_not_with_an_effect() -> None:
    alone = sureness(ranked(a_signal("segfault", 0, "n1", "A")))
    rival = sureness(ranked(a_signal("segfault", 0, "n1", "A"), a_signal("nan-loss", 0, "n2", "A")))
    effect = sureness(ranked(a_signal("segfault", 0, "n1", "A"), a_signal("connection-reset", 1, "n2", "A")))
    assert rival < min(alone, effect)


@pytest.mark.parametrize(
    "gap", [Doubt.NO_NODE, Doubt.NO_KERNEL_LOG, Doubt.UNSEEN_RANKS, Doubt.MUTE_NODES, Doubt.CUT_LOG]
)
def test_confidence_falls_with_each_gap(gap: Doubt) -> None:
    found = ranked(a_signal("nccl-error", 0, "n1", "A"))
    assert sureness(found, {gap}) < sureness(found)


def test_every_doubt_has_a_weight_in_the_catalogue() -> None:
    doubts = the_rules().cause_model.doubts.keys()
    families = {name for name in get_args(DoubtName) if name.startswith("family-")}
    assert doubts == set(Doubt) | families == set(get_args(DoubtName))
    assert {name.removeprefix("family-") for name in families} <= set(vocabulary().family_by_class.values())


def test_first_answer_is_as_likely_as_its_doubts_leave_it() -> None:
    assert [shares_of([Scored("a", 0)], points, 0).of_answers for points in (-2, 0, 2)] == [[0.8], [0.5], [0.2]]


def test_rivals_and_none_share_the_rest_by_their_points() -> None:
    assert shares_of([Scored("a", 2), Scored("b", 2), Scored("c", 1)], -2, 0).of_answers == [0.8, 0.08, 0.04]
    assert shares_of([Scored("a", 2), Scored("b", 2)], -2, 2).of_answers == [0.8, 0.04]


def test_no_answer_is_likelier_than_the_first() -> None:
    assert shares_of([Scored("a", 0), Scored("b", 9)], 1, -20).of_answers == [0.33, 0.33]


def test_many_nodes_with_one_error_are_one_rival_and_effects_are_none() -> None:
    assert rivals([Scored("a", 2), *[Scored("b", 0)] * 500]) == [1]
    assert rivals([Scored("a", 2), Scored("a", 0), Scored("a", 1)]) == [2]
    assert rivals([Scored("a", 2), Scored("b", 1, is_effect=True)]) == []


def test_confidence_is_never_certain_and_never_nothing() -> None:
    assert shares_of([Scored("a", 0)], -20, 0).of_answers == [MAX_CONFIDENCE]
    assert shares_of([Scored("a", 0)], 20, 0).of_answers == [MIN_CONFIDENCE]
