"""Rules of SEC, the simple event correlator: those that look at single lines, count them, or miss a second one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from rules.importing.draft import Drafts
from rules.importing.pattern import Adapted, adapted, plain

TYPES: Final = {
    "single": ("pattern", "desc"),
    "singlewithsuppress": ("pattern", "desc", "window"),
    "singlewiththreshold": ("pattern", "desc", "window", "thresh"),
    "pairwithwindow": ("pattern", "desc", "pattern2", "window"),
    "pair": ("pattern", "desc", "pattern2"),
    "suppress": ("pattern",),
}
"""What is carried over -> what such a rule has to say."""

LEFT_OUT: Final = ("singlewithscript", "singlewith2thresholds", "eventgroup", "calendar", "jump", "options")
_IN_SUBSTR: Final = {"t": "\t", "s": " ", "0": "", "n": "\n", "r": "\r", "\\": "\\"}
_VALUE: Final = re.compile(r"[$%](?:\{(\d+)\}|(\d+)|\+\{(\w+)\})")
_NOT_HERE: Final = {
    "action": "epicenter does nothing by itself: see docs/alerts.md for who is told",
    "context": "rules have no contexts, so it fires without this condition too",
    "continue": "all rules see every line; there is no order of rules",
    "varmap": "groups are called by their own names, else v1, v2, …",
}
_USED: Final = ("type", "ptype", "pattern", "desc", "window", "thresh", "ptype2", "pattern2", "desc2")


class SecRule(msgspec.Struct):
    """The keywords of one rule with their lines."""

    line: int
    said: dict[str, str]

    @property
    def kind(self) -> str:
        """Its type in lower case, without the number of an event group."""
        return re.sub(r"^(eventgroup)\d*$", r"\1", self.said.get("type", "").lower())


def import_sec(file: str, text: str, drafts: Drafts) -> None:
    """Every rule of a file that is no program."""
    for rule in _read(file, text, drafts.problems):
        place = f"{file}:{rule.line}"
        name = rule.said.get("desc") or rule.said.get("type", "rule")
        if rule.kind in LEFT_OUT:
            drafts.lose(place, name, f"type {rule.said['type']} is not imported")
        elif wrong := _wrong_with(rule):
            drafts.problems.append(f"{place}: {wrong}")
        else:
            try:
                _take(rule, place, name, drafts)
            except ValueError as error:
                drafts.lose(place, name, f"not imported: {error}")


def _read(file: str, text: str, problems: list[str]) -> Iterator[SecRule]:
    """Rules end at a blank line or a comment; a backslash at its end continues a line."""
    rule = SecRule(0, {})
    for number, line in _whole_lines(text):
        found = re.match(r"\s*([a-z]+\d*)\s*=\s*(.*?)\s*$", line)
        if not line.strip() or line.lstrip().startswith("#"):
            if rule.said:
                yield rule
            rule = SecRule(0, {})
        elif found:
            rule.line = rule.line or number
            if found[1] in rule.said:
                problems.append(f"{file}:{number}: {found[1]} is written twice: keep one")
            if found[1] not in ("rem", "label"):
                rule.said[found[1]] = found[2]
        else:
            problems.append(f"{file}:{number}: {line.strip()[:60]!r}: write keyword=value")


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what continues them, numbered; then an empty one."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        while line.endswith("\\"):
            line = line[:-1] + next(lines, (0, ""))[1].strip()
        yield number, line
    yield 0, ""


def _wrong_with(rule: SecRule) -> str:
    if rule.kind not in TYPES:
        return f"type={rule.said.get('type', '')}: write one of SEC's types, such as Single"
    if missing := [name for name in TYPES[rule.kind] if name not in rule.said]:
        return f"{rule.said['type']} without {', '.join(missing)}: add it"
    wrong = [name for name in ("window", "thresh") if not re.fullmatch("0*[1-9][0-9]{0,8}", rule.said.get(name, "1"))]
    return "".join(f"{name}={rule.said[name]}: write a whole number above 0" for name in wrong[:1])


def _take(rule: SecRule, place: str, name: str, drafts: Drafts) -> None:
    said = rule.said
    first = _pattern(said.get("ptype", ""), said["pattern"])
    title = re.sub(r"\s*" + _VALUE.pattern, " …", name)
    for keyword in (one for one in said if one not in _USED):
        why = _NOT_HERE.get(keyword.rstrip("2"), "not carried over")
        drafts.lose(place, title, f"{keyword}={said[keyword][:60]}: {why}")
    if rule.kind == "suppress":
        drafts.lose(place, title, "harmless for all rules, the shipped ones too, and not only for later ones")
        drafts.line(place, title, first, role="harmless", severity="info", next_steps=[])
    elif rule.kind == "singlewiththreshold":
        of = drafts.line(place, f"{title}, one line", first, role="context", severity="info", next_steps=[])
        when = {"kind": "count", "of": [of], "at_least": int(said["thresh"])}
        drafts.window(place, title, {**when, "within": f"{said['window']}s", "group_by": _fields(name, first)})
    elif rule.kind == "pairwithwindow":
        second = _pattern(said.get("ptype2", said.get("ptype", "")), _with_values_of_the_first(said["pattern2"], first))
        group_by = [field for field in _fields(said["pattern2"], first) if f"<{field}>" in second.patterns[0]]
        names = [
            drafts.line(place, f"{title}, {which}", one, role="context", severity="info", next_steps=[])
            for which, one in (("begins", first), ("is over", second))
        ]
        when = {"kind": "absence", "of": [names[0]], "without": [names[1]], "within": f"{said['window']}s"}
        drafts.window(place, title, when | ({"group_by": group_by} if group_by else {}))
    else:
        if rule.kind == "pair":
            drafts.lose(place, title, "the second half of the pair: write a rule for it, with `clears`")
        if rule.kind == "singlewithsuppress":
            drafts.lose(place, title, f"window={said['window']}: an open incident tells of a repetition once anyway")
        drafts.line(place, title, first)


def _pattern(kind: str, text: str) -> Adapted:
    if kind.lower() in ("substr", "substr1"):
        return adapted(plain(re.sub(r"\\(.)", lambda found: _IN_SUBSTR.get(found[1], found[0]), text)))
    if kind.lower() in ("regexp", "regexp1"):
        return adapted(text)
    raise ValueError(f"ptype={kind}: only RegExp and SubStr over one line are")


def _fields(text: str, pattern: Adapted) -> list[str]:
    """The groups that a text names as `$1`, `${1}` or `$+{name}`, if the pattern has them."""
    names = re.compile((*pattern.extract, *pattern.patterns)[0]).groupindex
    by_number = {str(number): name for name, number in names.items()}
    said = ["".join(filter(None, found.groups())) for found in _VALUE.finditer(text)]
    return [name for one in dict.fromkeys(said) if (name := by_number.get(one, one)) in names]


def _with_values_of_the_first(pattern: str, first: Adapted) -> str:
    """`$1` in a second pattern is what the first one found: a field of the same name, grouped by."""
    renamed = re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)
    return _VALUE.sub(lambda found: f"(?P<{_name(found, first)}>\\S+)", renamed)


def _name(found: re.Match[str], first: Adapted) -> str:
    return next(iter(_fields(found[0], first)), "other")
