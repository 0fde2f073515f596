"""Vendor code tables: a TSV file next to a pack. Each row makes one finer rule."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from epicenter.rules.documents.mistakes import mistake_text, unreadable
from epicenter.rules.packs.ruleset import Rule
from epicenter.rules.packs.spec import RuleSpec, TableRow


def with_table(spec: RuleSpec, place: str, pack: Path, read: Callable[[Path], bytes], problems: list[str]) -> Rule:
    """The rule with a finer rule for each row of its table. Mistakes in rows are appended to `problems`.

    The first column is the code. Columns named after fields of a rule replace them (` | ` separates steps). The others
    are for readers and for `rules lint`.
    """
    if not spec.table:
        return Rule(spec, place)
    file = pack.parent / spec.table
    try:
        rows = list(csv.reader(read(file).decode("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{place}: {spec.id}: table: {unreadable(spec.table, error)}")
        return Rule(spec, place)
    head, finer = rows[0] if rows else [""], {}
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(head):
            problems.append(f"{file}:{number}: {len(row)} columns, but the first line has {len(head)}")
            continue
        if row[0] in finer:
            problems.append(f"{file}:{number}: {head[0]} {row[0]} has two rows: remove one")
            continue
        try:
            cells = dict(zip(head, row, strict=True))
            finer[row[0]] = Rule(_row_spec(spec, cells), f"{file}:{number}", row=cells)
        except ValidationError as error:
            problems += [f"{file}:{number}: {found['loc'][0]}: {mistake_text(found)}" for found in error.errors()]
    return Rule(spec, place, head[0], finer)


def _row_spec(spec: RuleSpec, row: dict[str, str]) -> RuleSpec:
    code = next(iter(row.values()))
    cells: dict[str, object] = {name: cell for name, cell in row.items() if cell}
    if "next_steps" in cells:
        cells["next_steps"] = tuple(row["next_steps"].split(" | "))
    replaced = TableRow.model_validate(cells).model_dump(exclude_none=True)
    if "next_steps" in replaced:
        replaced["checks"] = {}
    name = spec.failure_class.partition("{")[0] + code if "{" in spec.failure_class else spec.failure_class
    return spec.model_copy(
        update={"id": f"{spec.id}_{code}", "failure_class": name, "examples": None, "table": "", **replaced}
    )
