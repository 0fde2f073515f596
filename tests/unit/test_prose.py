"""The worst habits of our prose don't come back: each is a pattern with next to no false alarms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.documents import DOCUMENTS, ROOT, tokens

CHECKED: Final = [document for document in DOCUMENTS if not document.startswith(("docs/reference/", "deploy/"))]


FOLDERS: Final = ("bench", "deploy", "docs", "ingest", "rules", "sinks", "stream", "tests")
"""Folders whose docstrings are checked too."""

AS_THEY_WERE: Final = ROOT / "tests/unit/compatibility"
"""Modules that stay as they were, like the files of version 0.1."""


class Habit(msgspec.Struct, frozen=True):
    """What not to write, a sentence that has it, and what to write instead."""

    pattern: str
    example: str
    instead: str


HABITS: Final = (
    Habit(r"\b(?:is|are|was|were|be|been|being|gets?) told\b", "A stop is told at once.", "is reported, is notified"),
    Habit(r"\btold of\b", "What they were told of stays.", "reported, notified"),
    Habit(r"\b(?:the|first|newest|last) tellings?\b", "The newest tellings count.", "report, notification"),
    Habit(r"\b(?:nobody|somebody)\b", "Nobody need be woken.", "the role (the on-call, a person), or you"),
    Habit(r"\bgo(?:es)? on\b(?! to\b)", "The worker goes on.", "continue, resume"),
    Habit(
        r"\bof (?:one's|its|their|his|your|our|my) own(?=[.,;:!?)]|$| \(| (?:and|for|with|in|on|that|which|is|are)\b)",
        "A pack of one's own.",
        "your pack, its …, a separate …",
    ),
    Habit(r"\bbeside\b", "Beside three simple ways it is right.", "compared with, next to, in addition to"),
    Habit(
        r"\bstands? (?:for|in|at|on|there|still|behind|before)\b", "It stands in the file.", "is, means, has stopped"
    ),
    Habit(r"\bas (?:it|they) stands?\b", "Copy it as it stands.", "as it is"),
    Habit(r"\b(?:held|holds?|hold) against\b", "It is held against the store.", "compared with"),
)


def sentences(document: str) -> Iterator[str]:
    """The prose of a document: headings, paragraphs and cells of tables, without code."""
    for block in tokens(document):
        if block.type == "inline":
            parts = (
                part.content if part.type == "text" else "…" if part.type == "code_inline" else " "
                for part in block.children or ()
            )
            yield from re.split(r"(?<=[.!?:;]) +", " ".join("".join(parts).split()))


def docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a module, those below constants too."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield " ".join(node.value.value.split())


def habits_in(place: str, sentence: str) -> Iterator[str]:
    for habit in HABITS:
        if hit := re.search(habit.pattern, sentence, re.IGNORECASE):
            yield f"{place}: {sentence!r}: instead of {hit[0]!r} write: {habit.instead}"


@pytest.mark.parametrize("document", CHECKED)
def test_prose_has_none_of_the_habits(document: str) -> None:
    found = [habit for sentence in sentences(document) for habit in habits_in(document, sentence)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_have_none_of_the_habits(folder: str) -> None:
    files = [file for file in sorted((ROOT / folder).rglob("*.py")) if file.parent != AS_THEY_WERE]
    found = [habit for file in files for text in docstrings(file) for habit in habits_in(str(file), text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.pattern)
def test_a_habit_is_found_in_its_example(habit: Habit) -> None:
    assert re.search(habit.pattern, habit.example, re.IGNORECASE)
