"""Messages with values in their holes, and the lines that they make: always the same ones."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from bench.harvest.template import Hole, Template

FILLS = 4
"""How often each message is filled, with other values each time."""

_VALUES = Path(__file__).with_name("values.yaml")
_CHOICE = re.compile(r'\?\s*"([^"]+)"\s*:\s*"([^"]*)"')
_PYTHON_CHOICE = re.compile(r"""'([^']+)' if .{1,80} else '([^']*)'""")


def lines_of(template: Template, number: int) -> list[str]:
    """The lines of one filling; the lines around the message are the same in each."""
    message = "".join(part if isinstance(part, str) else value_of(part, number) for part in template.parts)
    return template.shape.replace("{message}", message).split("\n")


def value_of(hole: Hole, number: int) -> str:
    """A value that fits the kind and the name of the hole."""
    if choice := _CHOICE.search(hole.expression) or _PYTHON_CHOICE.search(hole.expression):
        return choice[1 + number % 2]
    values = next(
        (values for pattern, values in _names(hole.kind) if pattern.search(hole.expression)), _defaults()[hole.kind]
    )
    return str(values[number % len(values)])


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(_VALUES.read_text("utf-8"))
    return document


@cache
def _names(kind: str) -> list[tuple[re.Pattern[str], list[Any]]]:
    return [(re.compile(pattern), values) for pattern, values in _document()["names"].get(kind, {}).items()]


def _defaults() -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = _document()["kinds"]
    return values
