"""Each of 200 made-up credentials is removed, and no example of a rule changes."""

from __future__ import annotations

import pytest

from bench.redaction import AUTHORS, SEED, changed_examples, recall_of, result_of
from bench.redaction_shapes import KINDS, shapes
from epicenter.rules.redact.load import load_redactor
from epicenter.rules.redact.redactor import Redactor, Secret


def test_only_secrets_are_removed() -> None:
    found = shapes(SEED)
    assert len({shape.line for shape in found}) == 200
    assert {shape.kind for shape in found} == KINDS.keys()
    recall = recall_of(load_redactor(), found)
    assert (recall.left, recall.too_much) == ([], [])


def test_an_unredacted_secret_is_counted() -> None:
    off = recall_of(Redactor([Secret("none", ("no such word",), ("no such word",))]), shapes(SEED))
    assert len(off.left) == off.count


def test_no_example_of_a_rule_changes() -> None:
    count, changed = changed_examples(load_redactor())
    assert count > 3_000
    assert changed == []


@pytest.mark.parametrize("name", AUTHORS)
@pytest.mark.parametrize("seed", [SEED, 1])
def test_lines_of_authors_who_have_not_seen_the_patterns_stay_within_the_bounds(name: str, seed: int) -> None:
    result = result_of(load_redactor(), AUTHORS[name], seed)
    assert result.recall.count > 100 and result.harmless > 50
    assert result.is_within_bounds, (result.recall.left, result.touched)


@pytest.mark.parametrize(("name", "max_left"), [("author A", 3), ("author B", 3)])
def test_the_recall_reached_does_not_fall(name: str, max_left: int) -> None:
    result = result_of(load_redactor(), AUTHORS[name])
    assert len(result.recall.left) <= max_left and result.touched == []
