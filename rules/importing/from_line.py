"""A line, or its template -> a draft of a rule that matches such lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from epicenter.rules.importing.draft import UNKNOWN_CLASS
from epicenter.rules.importing.pattern import adapted
from epicenter.rules.importing.samples import near_miss, samples
from epicenter.rules.unnamed.template import template_of

MIN_FIXED_CHARS: Final = 8
MAX_EXAMPLES: Final = 3
MAX_TITLE_CHARS: Final = 80

_MASK: Final = re.compile(r"<(id|address|url|path|host|hash|number)>")
_LEADING: Final = re.compile(r"^(?:<(?:id|address|url|path|host|hash|number)>|[^A-Za-z<])+")
_LAST_WORD: Final = re.compile(r"([A-Za-z]\w{0,20})\W{0,3}$", re.ASCII)
_EXPRESSIONS: Final = {
    "id": "[0-9a-fA-F-]{36}",
    "address": "[0-9a-fA-FxX:]{1,24}",
    "url": r"\S{1,200}",
    "path": r"\S{1,200}",
    "host": r"[\d.:]{7,21}",
    "hash": "[0-9a-f]{8,64}",
    "number": r"\d[\d.,:]{0,30}",
}


def drafted(text: str, seen: Sequence[str] = ()) -> dict[str, Any]:
    """A rule for lines like this one, as its pack has it. `seen` are lines of logs: those that fit become examples.

    Raises:
        ValueError: the text has too few fixed words; the message has what to write instead.
    """
    template = _LEADING.sub("", template_of(text))
    if len(_MASK.sub("", template).replace(" ", "")) < MIN_FIXED_CHARS:
        raise ValueError(f"{text[:80]!r}: too few fixed words to recognize such lines by: pass a longer text")
    space = r"\s+" if re.search(r"\s\s|\t", text) else " "
    found = adapted(_pattern(template).replace(" ", space))
    fitting = [line for line in dict.fromkeys([text, *seen]) if re.search(found.pattern, line)][:MAX_EXAMPLES]
    made = [line for line in samples(found.pattern) if line not in fitting]
    title = _MASK.sub("…", template)[:MAX_TITLE_CHARS].strip()
    return {
        "id": f"site.{re.sub(r'[^a-z0-9]+', '_', _MASK.sub('', template).lower())[:48].strip('_')}",
        "title": title,
        "class": UNKNOWN_CLASS,
        "source": "any",
        "patterns": [found.pattern],
        **({"extract": [found.extract]} if found.extract else {}),
        "severity": "warning",
        "role": "root",
        "entity": "process",
        "meaning": title,
        "next_steps": ["TODO: write what to do about it."],
        "action": "none",
        "references": ["TODO: name the program and the file that prints it."],
        "examples": {
            "matches": [*fitting, *made[: max(0, 2 - len(fitting))]],
            "near_misses": [near_miss(found.pattern)],
        },
    }


def _pattern(template: str) -> str:
    """The template as an expression: each mask a group, named after the word before it."""
    pieces, names, end = list[str](), set[str](), 0
    for mask in _MASK.finditer(template):
        fixed = template[end : mask.start()]
        pieces += [_escaped(fixed), f"(?P<{_name(fixed, mask[1], names)}>{_EXPRESSIONS[mask[1]]})"]
        end = mask.end()
    return "".join([*pieces, _escaped(template[end:])])


def _name(before: str, kind: str, names: set[str]) -> str:
    word = _LAST_WORD.search(before)
    stem = word[1].lower() if word else kind
    name = next(name for name in (stem, *(f"{stem}_{number}" for number in range(2, 1000))) if name not in names)
    names.add(name)
    return name


def _escaped(fixed: str) -> str:
    return re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", fixed)
