"""Lines as people hand them on: numbered, quoted, exported as CSV, or behind the prefix of a tool that `peel` lets be.

Only for a line that no rule knows as it is: some programs begin their own text like that.
Sources: grep, cat -n, less -N, nl, Markdown; logcli, Grafana, Datadog, CloudWatch (tail, Insights), gcloud; stern,
Docker Compose, foreman, GNU parallel, MPICH's hydra, Determined.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Final

import orjson

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_DATE = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}/\d{1,2}/\d{4},?|\d\d/[A-Z][a-z]{2}/\d{4}|[A-Z][a-z]{2} {1,2}\d{1,2},? \d{4} @)"
)
_ZONE = r" ?(?:Z|UTC|[+-]\d\d:?\d\d|[AP]M)?"
_TIME = (
    rf"(?:{_DATE}[T :_])?{_CLOCK}{_ZONE}|\d{{8}}T\d{{6}}Z?|1\d{{9}}(?:\.\d{{1,9}}|\d{{3}}|\d{{6}}|\d{{9}})"
    rf"|(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}(?: \d{{4}})?"
)
_OWN_WORDS = r"(?!\W{0,4}(?:[\w.]{1,60}\W{1,4})?(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL)\b)"
"""Behind a time, the level of a logging library, maybe after its name: all of this is the program's own text."""

_RANK = r"\[?(?:(?i:rank)[ =:]?\d{1,7}|\d{1,7})(?:\]:? |: | )"
_POD = r"[a-z][a-z0-9-]{0,80}-(?:\d{1,6}|[a-z0-9]{5,10})"
_LABELS = r"\{(?:[\w.]{1,80}=\"[^\"\n]{0,200}\",? ?){0,40}\} "

_OUTER: Final = tuple(
    re.compile(shape, re.ASCII)
    for shape in (
        r">{1,4} ?",
        r"[-*+] (?=\S)",
        r" {0,8}\d{1,8}(?:[:\t]|-(?!\d))",
        r" {1,8}\d{1,8} ",
        r"\.{0,2}/?(?:[\w.-]{1,100}/){0,20}[\w.-]{1,100}\.\w{1,8}:\d{1,8}[:-]",
        r"==> \S{1,200} <== ",
        rf"\[?(?:{_TIME})\]?(?:: |[ \t,]){_OWN_WORDS}",
        _RANK,
        _LABELS,
        rf"(?:pod/)?(?:[a-z][a-z0-9-]{{0,60}} )?{_POD} (?:[a-z][a-z0-9-]{{0,60}} )?",
        r"[\w.-]{1,80} {0,30}\| ",
        r"(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}(?:: |\t|\] )|localhost: ",
        r"\[[a-z][a-z0-9_.-]{0,80}\d\] ",
        r"(?:[\w.-]{1,80}/){1,6}[\w.-]{1,120} ",
        r"(?:textPayload|message|msg|log|line): ",
        r"\s{1,40}(?=\S)",
    )
)
_AROUND: Final = re.compile(r"`{1,3}(?P<text>[^`\n]{8,4000})`{1,3}$")
_QUOTED: Final = re.compile(
    r"\s*(?:[\w@.]{1,40}=\S{1,80} ){0,8}(?:\"?(?:textPayload|message|msg|log|line|MESSAGE)\"?(?:=|: ?)"
    r"|\[\"\d{10,19}\", ?)(?P<text>\"(?:[^\"\\\n]|\\.){4,20000}\")"
)
"""A field of JSON printed over several lines, of Loki's answers, or of logfmt."""

_CELLS: Final = re.compile(r"(?:\"|[\w:./ -]{0,40},)")
_MIN_TEXT: Final = 8


def undressed(body: str) -> Iterator[str]:
    """What the line may be without its outermost dress; several if that is not clear."""
    if trimmed := body.rstrip() if body != body.rstrip() else "":
        yield trimmed
    if found := _QUOTED.match(body):
        yield from _unescaped(found["text"])
    if found := _AROUND.match(body):
        yield found["text"]
    yield from _cell(body)
    inner = (body[found.end() :] for shape in _OUTER if (found := shape.match(body)))
    yield from (text for text in inner if len(text) >= _MIN_TEXT)


def _unescaped(text: str) -> Iterator[str]:
    try:
        yield from orjson.loads(text).rstrip("\n").split("\n")
    except orjson.JSONDecodeError:
        return


def _cell(body: str) -> Iterator[str]:
    """The longest cell of a row of CSV: the rest says when and where."""
    if not ('"' in body and "," in body and _CELLS.match(body)):
        return
    try:
        cells = next(csv.reader([body]), [])
    except csv.Error:
        return
    text = max(cells, key=len, default="")
    if len(cells) > 1 and len(text) >= _MIN_TEXT:
        yield text
