"""What is wrong with a part of a configuration, and what to write: pydantic's errors in an operator's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

UNKNOWN_KEY: Final = "unknown_key"
MAX_NAMED: Final = 12
"""At most this many names in a message that says which names there are."""

MAX_SHOWN: Final = 80
"""At most this many characters of what was found."""

SURE: Final = 0.75
"""From this likeness on, one value is proposed in place of all."""

_MISTAKES: Final[Mapping[str, str]] = {
    "missing": "missing: add it",
    "literal_error": "write {expected}, not {found}",
    "union_tag_invalid": "unknown {discriminator}: write {expected_tags}",
    "union_tag_not_found": "no {discriminator}: add it",
    "model_type": "not a mapping: write `key: value`",
    "dict_type": "not a mapping: write `key: value`",
    "list_type": "not a list: write [...]",
    "tuple_type": "not a list: write [...]",
    "string_type": "not text: put it in quotes",
    "bool_type": "write true or false, not {found}",
    "bool_parsing": "write true or false, not {found}",
    "int_type": "write a whole number, not {found}",
    "int_parsing": "write a whole number, not {found}",
    "int_from_float": "write a whole number, not {found}",
    "float_type": "write a number, not {found}",
    "float_parsing": "write a number, not {found}",
    "too_short": "holds {actual_length}: write at least {min_length}",
    "too_long": "holds {actual_length}: write at most {max_length}",
    "string_too_short": "write at least {min_length} characters",
    "string_too_long": "write at most {max_length} characters",
    "string_pattern_mismatch": "write what matches {pattern}, not {found}",
    "greater_than": "write a number above {gt}, not {found}",
    "greater_than_equal": "write {ge} or more, not {found}",
    "less_than": "write a number below {lt}, not {found}",
    "less_than_equal": "write {le} or less, not {found}",
}
"""Type of a pydantic error -> what is wrong and what to write."""


def mistake_text(found: ErrorDetails) -> str:
    """What is wrong with a part, and what to write."""
    template = _MISTAKES.get(found["type"])
    if template is None:
        return found["msg"].removeprefix("Value error, ")
    context = found.get("ctx", {})
    written = context.get("tag", found["input"])
    expected = {name: _nearest(written, value) for name, value in context.items() if name.startswith("expected")}
    return template.format_map({**context, **expected, "found": repr(found["input"])[:MAX_SHOWN]})


def _nearest(written: object, expected: str) -> str:
    """Of the quoted values that are allowed, the one like what was written; all if none is."""
    near = get_close_matches(str(written), re.findall("'([^']+)'", expected), n=1, cutoff=SURE)
    return repr(near[0]) if near else expected


def unreadable(file: object, error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read."""
    if isinstance(error, OSError):
        return f"{file}: can't be read: {error.strerror}"
    line = error.object[: error.start].count(b"\n") + 1
    return f"{file}:{line}: can't be read: not UTF-8: {error.reason} at byte {error.start}: save it as UTF-8"


def instead(name: object, known: Iterable[str], listed_in: str = "") -> str:
    """What to write instead: the names that are like it, else all if they are few, else where they are listed."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(str(name).replace("*", ""), names, n=3)
    if not near and len(names) > MAX_NAMED and listed_in:
        return f"see {listed_in}"
    proposed = near or names[:MAX_NAMED]
    more = " …" if len(proposed) == MAX_NAMED < len(names) else ""
    return f"write {', '.join(proposed)}{more}" if proposed else "there is none"


def name_known_keys(error: ValidationError, known: Iterable[str]) -> ValidationError:
    """The same errors; that of an unknown key of this mapping says which keys there are."""
    names = list(known)
    return ValidationError.from_exception_data(error.title, [_line(found, names) for found in error.errors()])


def _line(found: ErrorDetails, known: list[str]) -> InitErrorDetails:
    kind: str | PydanticCustomError = found["type"]
    if kind == "extra_forbidden" and len(found["loc"]) == 1:
        kind = PydanticCustomError(UNKNOWN_KEY, "unknown key: {instead}", {"instead": instead(found["loc"][0], known)})
    elif kind == UNKNOWN_KEY:
        kind = PydanticCustomError(UNKNOWN_KEY, "{text}", {"text": found["msg"]})
    return InitErrorDetails(type=kind, loc=found["loc"], input=found["input"], ctx=found.get("ctx", {}))
