"""A rule's headline: a template over the fields of its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from epicenter.rules.packs.check_windows import placeholders
from epicenter.rules.packs.decode import ADDED
from epicenter.rules.packs.spec import RuleSpec

OF_EVERY_SIGNAL: Final = ("title", "error", "frame", "node", "rank", "gpu", "job", "pod")
"""What a headline may name in addition to the rule's fields.

`error` is the Python exception with its message, `frame` the innermost frame of the traceback in the job's own code.
"""

_LIVENESS_FIELDS: Final = ("last_step",)
_PLACE = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
_TOKEN = re.compile(r"\[(?P<part>[^\[\]]*)\]|\{(?P<name>[^{}]*)\}")
_GROUP = re.compile(r"\(\?P<(\w+)>")


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its fields filled in; empty if one outside of brackets is unknown."""
    if not all(values.get(name) for name in names_in(_PART.sub("", template))):
        return ""
    return _TOKEN.sub(lambda found: _piece(found, values), template)


def _piece(found: re.Match[str], values: Mapping[str, str]) -> str:
    return values[found["name"]] if found["part"] is None else filled(found["part"], values)


def names_in(template: str) -> set[str]:
    """The fields that a template names."""
    return set(_PLACE.findall(template))


def headline_faults(spec: RuleSpec) -> Iterator[str]:
    """What is wrong with a rule's headline, and what to write instead."""
    known = fields_a_rule_reads(spec) | set(OF_EVERY_SIGNAL)
    for name in sorted(names_in(spec.headline) - known):
        yield f"{{{name}}}: the rule has no such field: write one of {', '.join(sorted(known))}"
    if re.search(r"[\[\]{}]", _PART.sub("", _PLACE.sub("", spec.headline))):
        yield f"{spec.headline!r}: a bracket or brace is left open: close it, or remove it"
    for part in _PART.findall(spec.headline):
        if not names_in(part):
            yield f"[{part}]: a part without a field is always shown: remove the brackets"


def fields_a_rule_reads(spec: RuleSpec) -> set[str]:
    """The names of the fields that the rule's signals may have."""
    if spec.when:
        return placeholders(spec.when)
    of_block = spec.block.extract if spec.block else ()
    captured = {name for pattern in (*spec.patterns, *spec.extract, *of_block) for name in _GROUP.findall(pattern)}
    decoded = set(ADDED) if spec.decode else set()
    return captured | decoded | (set() if spec.detect == "line" else set(_LIVENESS_FIELDS))
