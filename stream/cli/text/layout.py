"""Lines with a label at the left: wrapped between words on a terminal, never wrapped in a pipe.

A command, a path or another long word is never broken: it runs over, so that it can be pasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from epicenter.rules.model.incident import Command
from epicenter.sinks.text.sanitize import sanitize

MIN_WRAP_COLUMNS: Final = 24
"""Lines are wrapped only if at least this many columns are left after the label."""

_GLUE: Final = "\ue000"
"""A space inside a command while its line is wrapped; sanitized text has no such character."""
_COMMAND: Final = re.compile(r"`([^`]+)`")
_WORD: Final = re.compile(r"\S+\s*")
_CLAUSE: Final = re.compile(r"(?:[^\s,]+,*|,+)\s*")
"""Text that is cut off anyway may also break behind a comma: a log line may have no spaces."""


class Line(NamedTuple):
    """The label at the left, and the text with markup; on a terminal it takes at most `max_rows` rows.

    The `suffix` follows the text, or what is left of it.
    """

    left: str
    text: str
    suffix: str = ""
    max_rows: int | None = None
    left_style: str = ""


def heading(title: str) -> Iterator[Line]:
    """An empty line, and the title of what follows."""
    yield Line("", "")
    yield Line("", f"[bold]{title}[/]")


def unit(text: str) -> str:
    """The text without breaks between its words."""
    return text.replace(" ", _GLUE)


def with_commands(marked_up: str) -> str:
    """The text with its commands, which are between backticks, as units."""
    return _COMMAND.sub(lambda found: f"[cyan]{unit(found[0])}[/]", marked_up)


def command_lines(commands: Sequence[Command]) -> Iterator[Line]:
    """What each command does, and below it the command; whose tool it is where that is a choice."""
    is_choice = len({command.scheduler for command in commands if command.scheduler}) > 1
    for command in commands:
        tool = f" ({command.scheduler})" if is_choice and command.scheduler else ""
        yield Line("  ", f"{escape(sanitize(f'{command.purpose}{tool}'))}:")
        yield Line("    ", f"[cyan]{unit(escape(sanitize(command.text)))}[/]")


def print_hanging(shown: Console, lines: Iterable[Line]) -> None:
    """Print lines; on a terminal a long text continues below its own start."""
    for line in lines:
        left = Text(line.left, style=line.left_style)
        indent = Text(" " * left.cell_len)
        for number, row in enumerate(_rows(shown, line, shown.width - left.cell_len)):
            whole = (indent if number else left) + row
            whole.rstrip()
            shown.print(whole)


def _rows(shown: Console, line: Line, room: int) -> list[Text]:
    text, suffix = Text.from_markup(line.text), Text.from_markup(line.suffix)
    if not shown.is_terminal or room < MIN_WRAP_COLUMNS:
        return [_unglued(Text(" ").join(filter(None, (text, suffix))))]
    rows = _wrapped(text, room, _WORD if line.max_rows is None else _CLAUSE)
    if line.max_rows is not None and len(rows) > line.max_rows:
        rows = [*rows[: line.max_rows - 1], _with_ellipsis(rows[line.max_rows - 1], room)]
    if suffix and rows[-1].cell_len + 1 + suffix.cell_len <= room:
        rows[-1] = Text(" ").join((rows[-1], suffix))
    elif suffix:
        rows += _wrapped(suffix, room)
    return rows


def _wrapped(text: Text, room: int, word: re.Pattern[str] = _WORD) -> list[Text]:
    rows = text.divide(_breaks(text.plain, room, word))
    for row in rows:
        row.rstrip()
    return [_unglued(row) for row in rows]


def _breaks(plain: str, room: int, unbroken: re.Pattern[str]) -> Iterator[int]:
    """Where new rows begin: at words that don't fit behind the ones before."""
    column = 0
    for word in unbroken.finditer(plain):
        if column and column + cell_len(word[0].rstrip()) > room:
            yield word.start()
            column = 0
        column += cell_len(word[0])


def _with_ellipsis(row: Text, room: int) -> Text:
    """The row with a sign that words follow, in place of its last word if there is no room."""
    if row.cell_len + 2 > room and " " in row.plain:
        row.right_crop(len(row.plain) - row.plain.rindex(" "))
    return row.append(" …")


def _unglued(text: Text) -> Text:
    text.plain = text.plain.replace(_GLUE, " ")
    return text
