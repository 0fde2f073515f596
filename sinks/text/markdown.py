"""Markdown in which log text stays text: no markup, links or HTML, and nothing that escapes its block.

The one exception is GitHub's Markdown, which always links e-mail addresses.
"""

from __future__ import annotations

import re
from typing import Final

from epicenter.sinks.text.sanitize import sanitize
from epicenter.sinks.text.story import Block, Facts, Grid, Points, Quote, Section, Story

_MARKUP: Final = re.compile(r"([\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_BEGINS_A_BLOCK: Final = re.compile(r"^(\d{0,9})([-+#=.)])")
_BACKTICKS: Final = re.compile("`+")


def inline(text: str) -> str:
    """Text for the start of a line."""
    return _BEGINS_A_BLOCK.sub(r"\1\\\2", cell(text))


def cell(text: str) -> str:
    """Text inside a line, such as a table cell."""
    return _MARKUP.sub(r"\\\1", sanitize(text).strip())


def code_span(text: str) -> str:
    """Verbatim text inside a line or table cell; empty for empty text."""
    shown = sanitize(text).strip().replace("|", "\\|")
    ticks = "`" * (_longest_backticks(shown) + 1)
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{shown}{space}{ticks}" if shown else ""


def code_block(text: str) -> str:
    """Verbatim lines inside a fence that they can't close."""
    shown = sanitize(text, multiline=True)
    fence = "`" * max(3, _longest_backticks(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def story_markdown(story: Story) -> str:
    """A story as a Markdown document."""
    parts = [f"# {inline(story.title)}", inline(story.summary), *map(_section, story.sections)]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {inline(section.title)}", *map(_block, section.blocks)])


def _block(block: Block) -> str:
    match block:
        case Facts():
            return "\n".join(f"- **{inline(name)}:** {inline(value)}" for name, value in block.pairs)
        case Points():
            mark = "1." if block.is_numbered else "-"
            return "\n".join(f"{mark} {inline(item)}" for item in block.items)
        case Grid():
            return _table(block)
        case Quote():
            place = " ".join(filter(None, (inline(block.place), code_span(block.reference))))
            return f"{place}:\n\n{code_block(block.text)}"


def _table(grid: Grid) -> str:
    last = code_span if grid.quotes else cell
    lines = [list(map(cell, grid.head)), ["---"] * len(grid.head)]
    lines += [[*map(cell, row[:-1]), last(row[-1])] for row in grid.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _longest_backticks(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
