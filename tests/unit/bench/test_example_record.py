"""Every example of a rule that means a harvested producer is a message that the producer prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harvest.producers import Producer, read_producers
from bench.harvest.record import (
    COMMAND,
    Entry,
    Exempt,
    digest_of,
    missing,
    read_exceptions,
    read_record,
    still_valid,
    write_record,
)
from epicenter.rules.packs.load import load

LINE = "[    9.000011] oven: no bread left"
OTHER = "[   12.000011] oven: no bread left"
RULE = """
pack: kitchen
rules:
  - id: kitchen.bread
    title: No bread
    class: disk-full
    source: kernel
    patterns: ['oven: no bread left']
    severity: error
    role: root
    entity: node
    meaning: The oven is empty.
    next_steps: [Bake.]
    action: observe
    references: [{references}]
    examples: {{matches: ['{line}', '{other}'], near_misses: ['oven: bread left']}}
"""


def test_every_example_that_a_harvested_producer_prints_is_recorded() -> None:
    lacking = missing(load(), read_producers(), read_record(), read_exceptions())
    lines = "\n".join(f"{rule.place}: {rule.spec.id}: {line}" for rule, line in lacking)
    assert not lacking, (
        f"These examples are not recorded as messages of the producers that their rules refer to:\n{lines}\n"
        f"Run `{COMMAND}` with the sources of these producers (docs/source-coverage.md), or name the program that "
        "does print them in `references`."
    )


def test_every_exception_is_an_example_that_needs_it() -> None:
    wanted = {(rule.spec.id, line) for rule, line in missing(load(), read_producers(), read_record(), ())}
    assert {found for exempt in read_exceptions() for found in exempt.lines} <= wanted


@pytest.fixture
def oven() -> Producer:
    return Producer.model_validate({"name": "oven", "language": "c", "paths": ["*.c"], "references": "^Oven "})


@pytest.mark.parametrize(
    ("references", "entry", "reason", "expected"),
    [
        ("Oven oven.c", "", "", True),
        ("Oven oven.c", LINE, "", False),
        ("Oven oven.c", "another line", "", True),
        ("Oven oven.c", "", "written on the door", False),
        ("Oven oven.c, Toaster", "", "", False),
        ("Toaster", "", "", False),
    ],
)
def test_an_example_is_missing_unless_recorded_or_exempt(
    tmp_path: Path, oven: Producer, references: str, entry: str, reason: str, *, expected: bool
) -> None:
    pack = tmp_path / "kitchen.yaml"
    pack.write_text(RULE.format(references=references, line=LINE, other=OTHER), "utf-8")
    rules = load([pack])
    record = [Entry("kitchen.bread", digest_of(line), "oven", "1.0", "0a0b0c0d") for line in (OTHER, entry)]
    exceptions = [Exempt(reason=reason, examples={"kitchen.bread": (LINE,)})] if reason else []
    found = [line for rule, line in missing(rules, [oven], record, exceptions) if rule.spec.id == "kitchen.bread"]
    assert found == ([LINE] if expected else [])


def test_an_entry_is_dropped_with_its_example(tmp_path: Path) -> None:
    pack = tmp_path / "kitchen.yaml"
    pack.write_text(RULE.format(references="Oven oven.c", line=LINE, other=OTHER), "utf-8")
    kept, old = (Entry("kitchen.bread", digest_of(line), "oven", "1.0", "0a0b0c0d") for line in (LINE, "an old line"))
    file = tmp_path / "examples.tsv"
    write_record([old, kept], file)
    assert still_valid(load([pack]), read_record(file)) == [kept]
