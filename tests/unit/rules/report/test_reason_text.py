"""Reasons in words: the decisive one first, and one sentence for effects with the same explanation."""

from __future__ import annotations

from epicenter.rules.cause.reasons import Reason, ReasonKind
from epicenter.rules.model.incident import Explanation
from epicenter.rules.report.reason_text import reason_texts

WAIT = "the other ranks wait for it"


def explains(failure_class: str, why: str) -> Reason:
    return Reason(ReasonKind.EXPLAINS, 1, Explanation(failure_class, "n1", why))


def test_reasons_begin_with_the_decisive_one_and_end_with_what_is_usual() -> None:
    reasons = [
        Reason(ReasonKind.STANDSTILL, 1),
        explains("hang", WAIT),
        Reason(ReasonKind.EARLIEST, 1),
        Reason(ReasonKind.KERNEL, 2),
    ]
    assert reason_texts(reasons) == (
        "the kernel reports it, which is closer to the hardware than any library",
        "it explains hang: the other ranks wait for it",
        "it began before every other unexplained signal",
        "a stalled or slow job is weaker evidence than an explicit error line",
    )


def test_effects_with_the_same_explanation_share_a_sentence() -> None:
    reasons = [explains("a", WAIT), explains("b", "the driver says it twice"), explains("c", WAIT), explains("d", WAIT)]
    assert reason_texts(reasons) == (
        "it explains a, c and d: the other ranks wait for it",
        "it explains b: the driver says it twice",
    )
