"""Which words a label fits, and the reasons given."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.alerts.labels import built_in_labels
from epicenter.rules.alerts.match import fits, fits_word, fits_words, why_it_fits, why_not
from tests.support.alerts import an_incident


@pytest.mark.parametrize(
    ("value", "word", "fitting"),
    [
        ("n7", "n7", True),
        ("n7", "n", False),
        ("rack12-n7", "rack12-*", True),
        ("rack12-n7", "*-n7", True),
        ("rack12-n7", "r*12*7", True),
        ("rack12-n7", "r*13*7", False),
        ("rack12-", "rack12-*", True),
        ("n7", "*", True),
        ("", "*", False),
        ("", "", True),
        ("n7", "", False),
        ("a[b]c?", "a[b]c?", True),
        ("a[b]c?", "a[b]*", True),
        ("ab", "a[b]*", False),
        ("line\nbreak", "line*", True),
    ],
)
def test_a_word_of_a_matcher_fits_a_label(value: str, word: str, fitting: bool) -> None:
    assert fits_word(value, word) is fitting


@pytest.mark.parametrize(
    ("values", "words", "fitting"),
    [
        (("a", "b"), ("b",), True),
        (("a", "b"), ("c", "a"), True),
        (("a", "b"), ("c",), False),
        (("a", "b"), ("!b",), False),
        (("a", "b"), ("!c",), True),
        (("a", "b"), ("a", "!b"), False),
        (("ab",), ("a*", "!*c"), True),
        (("",), ("!c",), True),
        (("",), ("!",), False),
        (("a",), ("!",), True),
        (("",), ("",), True),
        (("",), ("!*",), True),
    ],
)
def test_several_words_of_a_matcher_fit_labels(values: tuple[str, ...], words: tuple[str, ...], fitting: bool) -> None:
    assert fits_words(values, words) is fitting


def test_an_incident_has_labels_of_itself_and_of_its_root() -> None:
    incident = msgspec.structs.replace(an_incident(jobs=["7801", "7802"]), failure_class="nccl-timeout")
    assert built_in_labels(incident) == {
        "class": ("nccl-timeout", "xid-79"),
        "family": ("collectives", "nvidia"),
        "severity": ("critical",),
        "cluster": ("default",),
        "job": ("7801", "7802"),
        "node": ("n1",),
        "gpu": (incident.root_cause.gpu,),
        "rule": ("nvidia.xid_79",),
        "incident": (incident.incident_id,),
    }


def test_reasons_name_what_fits_and_what_does_not() -> None:
    labels = {"class": ("xid-79",), "node": ("n7",), "job": ("1", "2", "3", "4")}
    assert why_it_fits(labels, {"class": ("xid-*", "sxid-*"), "job": ("2",)}) == "class is xid-79, job is 2"
    assert why_it_fits(labels, {"node": ("!n8",)}) == "node is n7, which fits !n8"
    assert why_it_fits(labels, {}) == "every incident"
    assert why_not(labels, {"class": ("xid-79",), "node": ("rack12-*",)}) == "node is n7, not rack12-*"
    assert why_not(labels, {"job": ("7", "8")}) == "job is 1, 2, 3 and 1 more, not 7 or 8"
    assert why_not(labels, {"job": ("!3",)}) == "job is 3, which !3 excludes"
    assert why_not(labels, {"team": ("ml",)}) == "team is unknown, not ml"
    assert why_not(labels, {"node": ("",)}) == "node is n7, not unknown"


def test_all_labels_have_to_fit() -> None:
    labels = {"class": ("xid-79",), "node": ("n7",)}
    assert fits(labels, {"class": ("xid-79",), "node": ("n*",)})
    assert not fits(labels, {"class": ("xid-79",), "node": ("m*",)})
