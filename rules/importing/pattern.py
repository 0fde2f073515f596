"""Regular expressions of other tools, rewritten so that they can be searched in bulk and match the same lines."""

from __future__ import annotations

import re

import msgspec

from epicenter.rules.match.compiled import refusal
from epicenter.rules.packs.spec import check_extract, check_pattern

_ATOM = r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.|[^\\()\[\]|*+?{}])"
_OPEN_END = re.compile(_ATOM + r"(\*\??|\?\??|\+\??|\{(\d+),\}\??)(\)*)$")
_EMPTY_GROUP = re.compile(r"\((\?:|\?P<\w+>)?\)$")
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<(?=\w)")
_POSIX_CLASS = re.compile(r"\[:\^?\w+:\]")
_PROGRAM = re.compile(r"^\^?[\w.-]+(?:\\\[\\d[+*]\\\])?:(?: |\\s[+*]?)")


class Adapted(msgspec.Struct, frozen=True):
    """A pattern to search for, the full one for `extract` if it was shortened, and what changed."""

    pattern: str
    extract: str = ""
    losses: tuple[str, ...] = ()


def adapted(pattern: str) -> Adapted:
    """The pattern with a fixed end and named groups (`v1`, `v2`, …).

    Raises:
        ValueError: it can't be searched in bulk; the message has the reason.
    """
    losses: list[str] = []
    whole = with_names(re.sub(r"\\[zZ]$", "$", pattern))
    if program := _PROGRAM.match(whole):
        losses.append(f"rules don't see the program before a line: {program[0]!r} is removed, other programs match too")
        whole = whole[program.end() :]
    bare = whole.removesuffix("$") if whole.endswith("$") and not whole.endswith(r"\$") else whole
    short = without_open_end(bare)
    if bare != whole and short == bare:
        short = whole
    elif bare != whole and not re.search(r"\.\*\)*$", bare):
        losses.append("a pattern can't end in a repeat at the end of the line: longer lines match too")
    if whole.startswith("^"):
        losses.append("^ is the start of the text, after time, host and program")
    _check(short)
    extract = whole if "(?P<" in whole and short != whole and _may_extract(whole) else ""
    return Adapted(short, extract, tuple(losses))


def with_names(pattern: str) -> str:
    """Names groups by number if they have none, `v1` for the first; `(?<name>…)` is other tools' syntax for names."""
    number = 0

    def named(found: re.Match[str]) -> str:
        nonlocal number
        number += found[0][0] == "("
        if found[0][0] != "(":
            return found[0]
        return f"(?P<v{number}>" if found[0] == "(" else "(?P<"

    return _GROUP.sub(named, pattern)


def without_open_end(pattern: str) -> str:
    """The pattern without a repeat or an option at its end; it matches the same lines."""
    while found := _OPEN_END.search(pattern):
        atom, times, least, closed = found.groups()
        required = atom if times[0] == "+" else f"{atom}{{{least}}}" if least and least != "0" else ""
        pattern = f"{pattern[: found.start()]}{required}{closed}"
        while (shorter := _EMPTY_GROUP.sub("", pattern)) != pattern:
            pattern = shorter
    return pattern


def _check(pattern: str) -> None:
    if "\\n" in pattern or "\n" in pattern:
        raise ValueError("a pattern over several lines: write a `block` by hand")
    if posix := _POSIX_CLASS.search(pattern):
        raise ValueError(f"{posix[0]}: write such a set as [A-Za-z], \\d or \\w")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r}: {error}") from error
    except RecursionError as error:
        raise ValueError("the pattern is nested too deeply") from error
    check_pattern(pattern)
    if reason := refusal(pattern.encode()):
        raise ValueError(f"{pattern!r}: {reason}")


def _may_extract(pattern: str) -> bool:
    try:
        check_extract(pattern)
    except ValueError:
        return False
    return True
