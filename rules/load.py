"""Rule files -> RuleSet. The only reading of files in this folder, and it happens at the start."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rules.errors import ConfigError
from rules.match.hyperscan import refusal
from rules.ruleset import Rule, RuleSet
from rules.spec import EdgeSpec, PackSpec, RuleSpec

CATALOG = Path(__file__).parent / "catalog"
Path_ = tuple[str | int, ...]
_FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(folders: Iterable[Path] = ()) -> RuleSet:
    """The bundled catalogue and the packs (`*.yaml`) of more files or folders.

    Raises:
        ConfigError: with every problem of every file, each with its file and line.
    """
    problems: list[str] = []
    rules: list[Rule] = []
    edges: list[EdgeSpec] = []
    place_by_id: dict[str, str] = {}
    for file in [file for folder in (CATALOG, *folders) for file in _files(Path(folder), problems)]:
        pack, lines = _read_pack(file, problems)
        for number, spec in enumerate(pack.rules if pack else ()):
            place = f"{file}:{_line(lines, ('rules', number, 'id'))}"
            if spec.id in place_by_id:
                problems.append(
                    f"{place}: rule id {spec.id} is already taken at {place_by_id[spec.id]}: choose another id"
                )
            place_by_id[spec.id] = place
            if rule := _compiled(spec, file, lines, number, problems):
                rules.append(rule)
        edges += pack.edges if pack else ()
    if problems:
        raise ConfigError(problems)
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.spec.id)), tuple(edges))


def _files(folder: Path, problems: list[str]) -> list[Path]:
    if folder.is_file():
        return [folder]
    found = sorted(folder.glob("*.yaml"))
    if not found:
        problems.append(f"{folder}: no rule pack here: give a .yaml file, or a folder with some")
    return found


def _read_pack(file: Path, problems: list[str]) -> tuple[PackSpec | None, dict[Path_, int]]:
    lines: dict[Path_, int] = {}
    try:
        node = _tree(file.read_text("utf-8"))
        content = _construct(node, (), lines, file, problems)
        return PackSpec.model_validate(content), lines
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file}: can't be read: {error}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        problems.append(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}")
    except yaml.reader.ReaderError as error:
        line = file.read_text("utf-8")[: error.position].count("\n") + 1
        problems.append(f"{file}:{line}: not YAML: a character that may not stand in a text file: {error.reason}")
    except RecursionError:
        problems.append(f"{file}:1: not YAML for a rule pack: an alias holds itself, or it is nested too deep")
    except ValidationError as error:
        problems += [_sentence(file, lines, dict(found)) for found in error.errors()]
    return None, lines


def _tree(text: str) -> Any:
    try:
        return yaml.compose(text, Loader=_FAST_LOADER)
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)  # the slow one says where and what more exactly


def _construct(node: Any, path: Path_, lines: dict[Path_, int], file: Path, problems: list[str]) -> Any:
    """Plain lists, mappings and scalars of a YAML tree; notes the line of each."""
    if node is None:
        return None
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, number), lines, file, problems) for number, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in mapping:
                problems.append(f"{file}:{key_node.start_mark.line + 1}: {key} is written twice: keep one")
            mapping[key] = _construct(value_node, (*path, key), lines, file, problems)
        return mapping
    try:
        return yaml.SafeLoader("").construct_object(node)
    except ValueError as error:
        problems.append(f"{file}:{lines[path]}: {node.value!r} is no date and no number: {error}; put it in quotes")
        return str(node.value)


def _sentence(file: Path, lines: dict[Path_, int], found: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in found["loc"])
    message = found["msg"].removeprefix("Value error, ")
    return f"{file}:{_line(lines, tuple(found['loc']))}: {place or 'pack'}: {message}"


def _line(lines: dict[Path_, int], path: Path_) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _compiled(spec: RuleSpec, file: Path, lines: dict[Path_, int], number: int, problems: list[str]) -> Rule | None:
    faults = []
    for key, patterns in (("patterns", spec.patterns), ("extract", spec.extract)):
        for index, pattern in enumerate(patterns):
            if fault := _fault(pattern, searched_in_bulk=key == "patterns"):
                place = f"{file}:{_line(lines, ('rules', number, key, index))}"
                faults.append(f"{place}: {spec.id}: pattern {pattern!r}: {fault}")
    problems += faults
    return None if faults else Rule.compile(spec)


def _fault(pattern: str, searched_in_bulk: bool) -> str:
    try:
        re.compile(pattern.encode())
    except (re.error, OverflowError, RecursionError) as error:
        return f"{error}: correct the expression"
    return refusal(pattern.encode()) if searched_in_bulk else ""
