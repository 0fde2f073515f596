"""Tables: a TSV file next to a pack, with vendor codes or a producer's texts. Each row makes one finer rule."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from epicenter.rules.documents.mistakes import mistake_text, unreadable
from epicenter.rules.match.bounded import TEMPLATE, work_fault
from epicenter.rules.match.compiled import is_compilable, refusal
from epicenter.rules.packs.ruleset import TEXT_COLUMN, WORDS_COLUMN, Rule
from epicenter.rules.packs.spec import RuleSpec, TableRow
from epicenter.rules.packs.texts import pieces_of_text
from epicenter.rules.unnamed.words import in_any_case

_LISTS: Final = {"next_steps", "clears"}
MIN_FIXED_BYTES: Final = 12
"""A text with less outside of its holes would fit by chance."""


def with_table(spec: RuleSpec, place: str, pack: Path, read: Callable[[Path], bytes], problems: list[str]) -> Rule:
    """The rule with a finer rule for each row of its table. Mistakes in rows are appended to `problems`.

    The first column is a code, a text whose holes are written `{}`, or words (a regular expression). Columns named
    after fields of a rule replace them (` | ` separates steps and classes). The others are for readers or `rules lint`.
    """
    if not spec.table:
        return Rule(spec, place)
    file = pack.parent / spec.table
    try:
        rows = list(csv.reader(read(file).decode("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{place}: {spec.id}: table: {unreadable(spec.table, error)}")
        return Rule(spec, place)
    head, finer = rows[0] if rows else [""], dict[str, Rule]()
    if head[0] == WORDS_COLUMN and not spec.knows_only_structure:
        problems.append(f"{place}: {spec.id}: table: words are looked for in a template: add `decode: template`")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(head):
            problems.append(f"{file}:{number}: {len(row)} columns, but the first line has {len(head)}")
            continue
        cells = dict(zip(head, row, strict=True))
        if fault := _text_fault(cells) or _words_fault(cells):
            problems.append(f"{file}:{number}: {fault}")
            continue
        code = _code_of(cells)
        if code in finer:
            problems.append(f"{file}:{number}: {head[0]} {row[0]} has two rows: remove one")
            continue
        try:
            finer[code] = Rule(_row_spec(spec, code, cells), f"{file}:{number}", row=cells)
        except ValidationError as error:
            problems += [f"{file}:{number}: {found['loc'][0]}: {mistake_text(found)}" for found in error.errors()]
    problems += _refused_words(finer.values())
    return Rule(spec, place, head[0], finer)


def _text_fault(cells: Mapping[str, str]) -> str:
    text = cells.get(TEXT_COLUMN)
    if text is None or sum(map(len, pieces_of_text(text))) >= MIN_FIXED_BYTES:
        return ""
    return f"text {text!r} would fit by chance: write {MIN_FIXED_BYTES} or more bytes outside of holes"


def _words_fault(cells: Mapping[str, str]) -> str:
    words = cells.get(WORDS_COLUMN, "")
    try:
        re.compile(words)
    except (re.error, OverflowError, RecursionError) as error:
        return f"words {words!r} are no regular expression: {error}"
    return ""


def _refused_words(rows: Iterable[Rule]) -> list[str]:
    """Words that Hyperscan can't compile, each with its file and line."""
    place_by_words = {in_any_case(row.row[WORDS_COLUMN]): row.place for row in rows if WORDS_COLUMN in row.row}
    if not place_by_words or is_compilable(tuple(place_by_words)):
        return []
    return [f"{place}: words: {fault}" for words, place in place_by_words.items() if (fault := refusal(words.encode()))]


def slow_words(rule: Rule) -> list[str]:
    """Words of a rule's table that could keep `re` busy, each with its file and line."""
    words = ((row.place, row.row[WORDS_COLUMN]) for row in rule.finer.values() if WORDS_COLUMN in row.row)
    return [f"{place}: words: {fault}" for place, text in words if (fault := work_fault(text, TEMPLATE))]


def _code_of(cells: Mapping[str, str]) -> str:
    """The row's code; that of a text or of words is a digest, so that rules keep their ids when rows are added."""
    name, first = next(iter(cells.items()))
    return sha256(first.encode()).hexdigest()[:8] if name in (TEXT_COLUMN, WORDS_COLUMN) else first


def _row_spec(spec: RuleSpec, code: str, row: dict[str, str]) -> RuleSpec:
    cells: dict[str, object] = {name: cell for name, cell in row.items() if cell}
    for name in _LISTS & cells.keys():
        cells[name] = tuple(row[name].split(" | "))
    replaced = TableRow.model_validate(cells).model_dump(exclude_none=True)
    if "next_steps" in replaced:
        replaced["checks"] = {}
    name = spec.failure_class.partition("{")[0] + code if "{" in spec.failure_class else spec.failure_class
    return spec.model_copy(
        update={"id": f"{spec.id}_{code}", "failure_class": name, "examples": None, "table": "", **replaced}
    )
