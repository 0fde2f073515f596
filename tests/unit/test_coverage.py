"""The table of coverage agrees with the packs, and every entry has an answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def made() -> str:
    spec = importlib.util.spec_from_file_location("make_coverage", DOCS / "make_coverage.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.coverage()
    return text


def test_the_table_is_up_to_date_and_has_no_gaps() -> None:
    table = made()
    assert (DOCS / "coverage.md").read_text("utf-8") == table, "run `make coverage`"
    assert [line for line in table.splitlines() if line.endswith("|  |")] == []
