"""Rules of Sigma over log text: keywords, and fields that hold the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from rules.document import Document, line_of
from rules.importing.draft import Drafts
from rules.importing.pattern import Adapted, adapted, any_of, plain

SEVERITIES: Final = {
    "informational": "info",
    "low": "info",
    "medium": "warning",
    "high": "error",
    "critical": "error",
}
TEXT_FIELDS: Final = ("", "message", "msg", "log", "body", "_raw")


class SigmaRule(BaseModel):
    """What is looked at of a rule."""

    model_config = ConfigDict(extra="ignore")

    title: str
    level: str = "medium"
    logsource: dict[str, Any] = Field(default_factory=dict)
    detection: dict[str, Any] = Field(default_factory=dict)
    correlation: dict[str, Any] = Field(default_factory=dict)


def import_sigma(documents: Sequence[Document], drafts: Drafts) -> None:
    """Every rule of a file that is about text."""
    for document in documents:
        rule = document.checked(SigmaRule, "rule of Sigma", drafts.problems)
        place = f"{document.file}:{line_of(document.lines, ('title',))}"
        try:
            if rule:
                _take(document, rule, place, drafts)
        except ValueError as error:
            drafts.lose(place, rule.title if rule else "", f"not imported: {error}")


def _take(document: Document, rule: SigmaRule, place: str, drafts: Drafts) -> None:
    if rule.correlation:
        raise ValueError("a correlation: write a rule with `when` by hand, docs/rules.md has the kinds")
    drafts.line(place, rule.title, _patterns(rule.detection), severity=SEVERITIES.get(rule.level, "warning"))
    drafts.lose_keys(place, rule.title, document.content, SigmaRule.model_fields)
    told = ", ".join(f"{key}={value}" for key, value in rule.logsource.items())
    drafts.lose(place, rule.title, f"logsource {told}: the rule looks at every line")


def _patterns(detection: dict[str, Any]) -> Adapted:
    condition = str(detection.get("condition", ""))
    names = [name for name in detection if name not in ("condition", "timeframe")]
    chosen: list[str] = []
    for part in re.split(r"\s+or\s+", condition):
        shape = re.sub(r"^1 of them$", "*", part.strip()).removeprefix("1 of ")
        fitting = [name for name in names if fnmatch(name, shape)]
        if not fitting or "timeframe" in detection:
            raise ValueError(f"condition `{condition}`: only `or` and `1 of` are")
        chosen += fitting
    return any_of([one for name in dict.fromkeys(chosen) for one in _of_search(detection[name])])


def _of_search(search: Any) -> list[Adapted]:
    """Alternatives of one search identifier."""
    if isinstance(search, list):
        return [one for item in search for one in _of_search(item if isinstance(item, dict) else {"": item})]
    if not isinstance(search, dict) or len(search) != 1:
        raise ValueError("several fields that all have to fit are not one line's text")
    ((key, values),) = search.items()
    field, *modifiers = str(key).split("|")
    if field.lower() not in TEXT_FIELDS:
        raise ValueError(f"field {field}: only the text of a line is looked at")
    alternatives = values if isinstance(values, list) else [values]
    if not all(isinstance(value, (str, int)) for value in alternatives):
        raise ValueError("a value that is no text")
    return [_of_value(str(value), modifiers) for value in alternatives]


def _of_value(value: str, modifiers: list[str]) -> Adapted:
    if modifiers == ["re"]:
        return adapted(value)
    if len(modifiers) > 1 or (modifiers and modifiers[0] not in ("contains", "startswith", "endswith")):
        raise ValueError(f"modifier {'|'.join(modifiers)} is not")
    parts = re.split(r"(?<!\\)([*?])", re.sub(r"^\*+|(?<!\\)\*+$", "", value))
    text = "".join({"*": ".*", "?": "."}.get(part) or plain(re.sub(r"\\([*?\\])", r"\1", part)) for part in parts)
    starts, ends = (modifiers == [one] for one in ("startswith", "endswith"))
    return adapted(f"{'^' * starts}(?i:{text}){'$' * ends}")
