"""YAML text -> a tree, and what its plain parts are: nothing in a file can crash the parser or make an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 100
"""At most this many lists and mappings inside of each other: the parser written in C crashes at 100,000."""

MAX_NUMBER_CHARS: Final = 100
"""A longer number or date is a mistake, and takes long to read."""

MAX_NUMBER: Final = 2**63
NESTED: Final = f"nested more than {MAX_DEPTH} deep: write it flatter"

_FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_TEXT: Final = (f"{_TAG}str", f"{_TAG}value", f"{_TAG}merge")
_NODES_BY_TAG: Final[Mapping[str, type]] = {
    **dict.fromkeys(
        (*_TEXT, *(_TAG + name for name in ("null", "bool", "int", "float", "timestamp"))), yaml.ScalarNode
    ),
    f"{_TAG}seq": yaml.SequenceNode,
    f"{_TAG}map": yaml.MappingNode,
}


class TooMuchError(Exception):
    """A file is nested too deeply, or has too many parts."""

    def __init__(self, line: int, reason: str):
        super().__init__(reason)
        self.line = line


def tree_of(text: str) -> Any:
    """The tree of a YAML text.

    Raises:
        YAMLError: it is not YAML.
        TooMuchError: it is nested too deeply.
    """
    try:
        _check_depth(text)
        return yaml.compose(text, Loader=_FAST_LOADER)
    except yaml.YAMLError as error:
        return _exact_error_of(text, error)


def _exact_error_of(text: str, error: yaml.YAMLError) -> Any:
    """The tree of the slow loader, which has the more exact errors."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (ValueError, RecursionError):
        raise error from None


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_FAST_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise TooMuchError(event.start_mark.line + 1 if event.start_mark else 1, NESTED)


def tag_fault(node: Any) -> str:
    """What is wrong with the tag of a part, such as `!!python/object`; empty if nothing is."""
    if isinstance(node, _NODES_BY_TAG.get(node.tag, ())):
        return ""
    tag = f"!!{node.tag.removeprefix(_TAG)}" if node.tag.startswith(_TAG) else node.tag
    return f"{tag}: a tag is not read here: remove it, and write a plain text, number, list or mapping"


def key_fault(node: Any) -> str:
    """What is wrong with a key; empty if nothing is."""
    if not isinstance(node, yaml.ScalarNode):
        return "a key is a list or a mapping: write a text"
    if node.tag == f"{_TAG}merge":
        return "<<: a mapping is not merged into another here: write its keys out"
    return tag_fault(node) or _text_fault(node.value)


def scalar_of(node: Any) -> tuple[Any, str]:
    """The text, number, date or truth value of a part, and what is wrong with it."""
    if node.tag in _TEXT or tag_fault(node):
        return node.value, _text_fault(node.value)
    if len(node.value) > MAX_NUMBER_CHARS:
        return node.value, f"a number of {len(node.value)} characters: put it in quotes"
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except (ValueError, LookupError, AttributeError, OverflowError) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        return node.value, f"{node.value!r} is not a valid date or number{reason}; put it in quotes"
    if isinstance(value, int) and abs(value) >= MAX_NUMBER:
        return node.value, f"{node.value} is too large a number: put it in quotes"
    return value, ""


def _text_fault(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{text[:40]!r} holds half a character: write the character itself"
    return ""
