"""docs/reference agrees with the code, explains everything, and its schemas accept the shipped files."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from docs.make_reference import FOLDER, reference
from epicenter.rules.packs.load import CATALOG

ROOT = Path(__file__).parents[2]
MADE = cache(reference)
EXAMPLES = {"rule-pack": sorted(CATALOG.glob("*.yaml")), "alerts": [ROOT / "deploy/alerts.example.yaml"]}


def test_the_reference_is_up_to_date() -> None:
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == MADE(), "run `make reference`"


@pytest.mark.parametrize("file", ["commands.md", "settings.md", "metrics.md", "api.md"])
def test_everything_is_explained(file: str) -> None:
    tables = [table for table in MADE()[file].split("\n\n") if table.startswith("| ") and "needed |" not in table]
    assert tables and [line for table in tables for line in table.splitlines() if line.endswith("|  |")] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_editors_find_no_mistake_in_the_shipped_files(name: str) -> None:
    validator = Draft202012Validator(json.loads(MADE()[f"{name}.schema.json"]))
    assert [
        (file.name, error.json_path) for file in EXAMPLES[name] for error in validator.iter_errors(read(file))
    ] == []


@pytest.mark.parametrize("wrong", [{"pack": "x", "rulez": []}, {"pack": "x", "edges": [{"cause": ["hang"]}]}])
def test_editors_find_mistakes(wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(json.loads(MADE()["rule-pack.schema.json"])).is_valid(wrong)


def read(file: Path) -> Any:
    """The document as an editor reads YAML: times are texts."""
    return json.loads(json.dumps(yaml.safe_load(file.read_text("utf-8")), default=str))
