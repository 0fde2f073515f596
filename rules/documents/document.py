"""YAML and JSON files that people write: checked content, with the line of every part for error messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from epicenter.rules.documents.mistakes import mistake_text, unreadable
from epicenter.rules.documents.yaml_tree import (
    MAX_DEPTH,
    NESTED,
    TooMuchError,
    key_fault,
    scalar_of,
    tag_fault,
    tree_of,
)

Path_ = tuple[str | int, ...]
"""The position of a part: the keys and indexes that lead to it."""

MAX_PARTS: Final = 200_000
"""At most this many parts in a file after its aliases are expanded: a few lines can expand to billions."""

Spec = TypeVar("Spec", bound=BaseModel)


def yaml_files(path: Path, name: str, problems: list[str]) -> list[Path]:
    """The file itself, or the sorted YAML files of a folder; `name` says what they should be."""
    if path.is_file():
        return [path]
    found = sorted(path.glob("*.yaml"))
    if not found:
        problems.append(f"{path}: no {name} found: name a .yaml file, or a folder that holds some")
    return found


def read_document(file: Path, spec: type[Spec], name: str, problems: list[str]) -> tuple[Spec | None, dict[Path_, int]]:
    """The content of a file and the line of each of its parts. Problems are appended to `problems`.

    `name` is the kind of file, for messages.
    """
    document = parse_document(file, Path.read_bytes, name, problems)
    return (document.checked(spec, name, problems), document.lines) if document else (None, {})


@dataclass(frozen=True)
class Document:
    """The content of a file as plain lists, mappings and scalars, with the line of each part."""

    file: Path
    content: Any
    lines: dict[Path_, int]

    def checked(self, spec: type[Spec], name: str, problems: list[str]) -> Spec | None:
        """The content as `spec`; None if it is invalid, with the reasons in `problems`. Validators get `file`."""
        try:
            return spec.model_validate(self.content, context={"file": self.file})
        except ValidationError as error:
            problems += [_sentence(self.file, self.lines, found, name) for found in error.errors()]
            return None


def parse_document(file: Path, read: Callable[[Path], bytes], name: str, problems: list[str]) -> Document | None:
    """The content of a file of any shape; None if it is not YAML, with the reason in `problems`."""
    lines: dict[Path_, int] = {}
    text = ""
    try:
        text = read(file).decode("utf-8")
        return Document(file, _Reading(file, lines, problems).content(tree_of(text), ()), lines)
    except (OSError, UnicodeDecodeError) as error:
        problems.append(unreadable(file, error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        problems.append(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}")
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        problems.append(f"{file}:{line}: not YAML: a character that is not allowed in a text file: {error.reason}")
    except TooMuchError as error:
        problems.append(f"{file}:{error.line}: not YAML for a file of this kind ({name}): {error}")
    return None


def with_present_names(
    document: Document, former: Mapping[str, str], problems: list[str]
) -> tuple[Document, tuple[str, ...]]:
    """The document with the present names of its keys, and a warning for each former one at its top."""
    if not isinstance(document.content, dict):
        return document, ()
    content, lines, warnings = dict(document.content), dict(document.lines), []
    for name in [key for key in former if key in content]:
        now, value, line = former[name], content.pop(name), line_of(lines, (name,))
        if now in content:
            problems.append(f"{document.file}:{line}: {name} is the former name of {now}: keep {now} alone")
        else:
            content[now], lines[now,] = value, line
            warnings.append(f"{document.file}:{line}: {name}: is now called {now}: write that")
    return Document(document.file, content, lines), tuple(warnings)


def line_of(lines: Mapping[Path_, int], path: Path_) -> int:
    """The line of a part; if it is unknown, that of the part around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


@dataclass
class _Reading:
    """Makes plain lists, mappings and scalars of a YAML tree, and records the line of each."""

    file: Path
    lines: dict[Path_, int]
    problems: list[str]

    def content(self, node: Any, path: Path_) -> Any:
        """What a part of the tree holds."""
        if node is None:
            return None
        line = node.start_mark.line + 1
        if len(self.lines) >= MAX_PARTS:
            raise TooMuchError(line, "its aliases expand to too many parts: write the parts out")
        if len(path) > MAX_DEPTH:
            raise TooMuchError(line, f"an alias contains itself, or it is {NESTED}")
        self.lines[path] = line
        if fault := tag_fault(node):
            self.problems.append(f"{self.file}:{line}: {fault}")
        if isinstance(node, yaml.SequenceNode):
            return [self.content(item, (*path, number)) for number, item in enumerate(node.value)]
        return self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._scalar(node, line)

    def _mapping(self, node: Any, path: Path_) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, fault = str(key_node.value), key_fault(key_node)
            if fault or key in mapping:
                place = f"{self.file}:{key_node.start_mark.line + 1}"
                self.problems.append(f"{place}: {fault or f'{key} is written twice: keep one'}")
            if not fault:
                mapping[key] = self.content(value_node, (*path, key))
        return mapping

    def _scalar(self, node: Any, line: int) -> Any:
        value, fault = scalar_of(node)
        if fault:
            self.problems.append(f"{self.file}:{line}: {fault}")
        return value


def _sentence(file: Path, lines: dict[Path_, int], found: ErrorDetails, name: str) -> str:
    path = _without_tags(tuple(found["loc"]), lines, may_be_new=found["type"] == "missing")
    place = ".".join(str(part) for part in path)
    return f"{file}:{line_of(lines, path)}: {place or name}: {mistake_text(found)}"


def _without_tags(path: Path_, lines: dict[Path_, int], may_be_new: bool) -> Path_:
    """The keys that lead to a part, without the union tags that pydantic inserts."""
    existing: Path_ = ()
    for part in path[:-1]:
        existing = (*existing, part) if (*existing, part) in lines else existing
    return (*existing, *path[-1:]) if may_be_new or (*existing, *path[-1:]) in lines else existing
