"""The parts of our documents: fenced blocks, the commands in them, code in running text, links and headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
)
OPERATORS = ("|", "||", "&&", ";", "&")
HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
PLACEHOLDER = re.compile(r"…|^\.\.\.$")


class Block(msgspec.Struct, frozen=True):
    """A fenced block with its kind and place."""

    document: str
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        """For messages, and names of tests."""
        return f"{self.document}:{self.line}"


@cache
def tokens(document: str) -> list[Token]:
    """The document as Markdown reads it."""
    return MarkdownIt("commonmark").enable("table").parse((ROOT / document).read_text("utf-8"))


def blocks(*kinds: str) -> list[Block]:
    """Blocks of these kinds in all documents, or of every kind."""
    found = [
        Block(document, (token.map or [0])[0] + 1, token.info.strip(), token.content)
        for document in DOCUMENTS
        for token in tokens(document)
        if token.type == "fence"
    ]
    return [block for block in found if not kinds or block.kind in kinds]


def inline(document: str, kind: str) -> Iterator[Token]:
    """Parts of the running text: `code_inline`, `link_open`, `image`."""
    return (part for token in tokens(document) for part in token.children or () if part.type == kind)


def codes(document: str) -> list[str]:
    """Code in backticks."""
    return [part.content for part in inline(document, "code_inline")]


def links(document: str) -> list[str]:
    """Where links and images of a document lead, within the repository."""
    given = [str(part.attrs["href"]) for part in inline(document, "link_open")]
    given += [str(part.attrs["src"]) for part in inline(document, "image")]
    return [target for target in given if not re.match(r"[a-z]+:", target)]


@cache
def anchors(document: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    parsed = tokens(document)
    heads = [parsed[at + 1].content for at, token in enumerate(parsed) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def commands_in(text: str) -> list[list[str]]:
    """The commands of a shell block, word by word, each part of a pipe by itself; without assignments and redirections.

    The content of a here-document is no command.
    """
    found: list[list[str]] = []
    lines = iter(text.splitlines())
    for line in lines:
        words = _words(line, lines)
        if here := HERE_DOCUMENT.search(line):
            while next(lines, here[1]).strip() != here[1]:
                pass
        found += [command for command in _parts(words) if command]
    return found


def _words(line: str, more: Iterator[str]) -> list[str]:
    """The words of a line, with those after it that belong to it."""
    while True:
        if line.endswith("\\"):
            line = line[:-1] + next(more)
            continue
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
            lexer.whitespace_split = True
            return list(lexer)
        except ValueError:
            line = f"{line}\n{next(more)}"


def _parts(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in OPERATORS:
            yield command
            command = []
        elif word in ("<", ">", ">>", "<<", "<<-", ">&", "<<<"):
            next(rest, None)
        elif command or not re.match(r"\w+=", word):
            command.append(word)
    yield command
