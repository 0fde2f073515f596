"""Rule packs that passed every check, kept on this machine: the next start reads no YAML and searches for no mistakes.

An entry holds for the very bytes that were checked, and for the code that checked them. What it says is validated
again, which takes a tenth of the time; a broken entry counts as none.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from epicenter.rules.documents.document import Document
from epicenter.rules.match.disk_cache import digest, load, store

_KIND: Final = "packs"
_LIBRARIES: Final = ("hyperscan", "pydantic", "pyyaml")


class Reading:
    """Reads files, and knows what was in each of them."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def __call__(self, file: Path) -> bytes:
        """The content of a file."""
        content = file.read_bytes()
        self.digests[str(file)] = digest([content])
        return content


class Checked(msgspec.Struct):
    """What packs say, with the line of each rule, and the digests of their files and tables."""

    digests: dict[str, str]
    contents: list[Any]
    rule_lines: list[list[int]]

    def documents(self, files: Sequence[Path]) -> list[Document]:
        """The packs as they were read, but for the lines of anything else than rules."""
        return [
            Document(file, content, {("rules", number, "id"): line for number, line in enumerate(lines)})
            for file, content, lines in zip(files, self.contents, self.rule_lines, strict=True)
        ]


def load_checked(files: Sequence[Path]) -> Checked | None:
    """What these files say, if they and their tables are still as they were when they passed; else None."""
    entry = load(_KIND, _name(files)) or b""
    try:
        if entry[:32] != digest([entry[32:]]).encode():
            return None
        found = msgspec.json.decode(entry[32:], type=Checked)
        is_same = all(digest([Path(file).read_bytes()]) == known_digest for file, known_digest in found.digests.items())
    except (OSError, msgspec.MsgspecError):
        return None
    return found if is_same else None


def store_checked(documents: Sequence[Document], reading: Reading) -> None:
    """Keep packs that passed, unless JSON can't say exactly what they say (a date, a number that is none)."""
    lines = [[_line(document, number) for number in range(_rules_in(document))] for document in documents]
    found = Checked(reading.digests, [document.content for document in documents], lines)
    try:
        body = msgspec.json.encode(found)
        is_exact = msgspec.json.decode(body, type=Checked) == found
    except (TypeError, ValueError, OverflowError):
        return
    if is_exact:
        store(_KIND, _name([document.file for document in documents]), digest([body]).encode() + body)


def _rules_in(document: Document) -> int:
    return len(document.content.get("rules") or ())


def _line(document: Document, number: int) -> int:
    return document.lines["rules", number, "id"]


def _name(files: Sequence[Path]) -> str:
    return digest([code(), *(str(file).encode("utf-8", "surrogateescape") for file in files)])


@cache
def code() -> bytes:
    """What reads and checks packs: our own code and words, and the libraries below it."""
    own = Path(__file__).parents[1]
    sources = [own / "packs/vocabulary.yaml", *sorted(own.rglob("*.py"))]
    below = [platform.python_version(), *(f"{name} {version(name)}" for name in _LIBRARIES)]
    return digest([*(file.read_bytes() for file in sources), *(text.encode() for text in below)]).encode()
