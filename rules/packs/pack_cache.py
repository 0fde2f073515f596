"""Cache of rule packs that passed every check: the next start parses no YAML and repeats no checks.

An entry is valid for the exact bytes that were checked and the code that checked them. Its content is validated again,
which takes a tenth of the time. A broken entry is ignored.
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
    """Reads files and records the digest of each."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def __call__(self, file: Path) -> bytes:
        """The content of a file."""
        content = file.read_bytes()
        self.digests[str(file)] = digest([content])
        return content


class Checked(msgspec.Struct):
    """The content of packs, with the line of each rule and the digests of their files and tables."""

    digests: dict[str, str]
    contents: list[Any]
    rule_lines: list[list[int]]

    def documents(self, files: Sequence[Path]) -> list[Document]:
        """The packs as they were read; of line numbers, only those of rules."""
        return [
            Document(file, content, {("rules", number, "id"): line for number, line in enumerate(lines)})
            for file, content, lines in zip(files, self.contents, self.rule_lines, strict=True)
        ]


def load_checked(files: Sequence[Path]) -> Checked | None:
    """The content of these files, if they and their tables are unchanged since they passed; otherwise None."""
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
    """Store packs that passed, unless JSON can't represent them exactly (a date, NaN)."""
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
    """The digest of everything that reads and checks packs: our code and vocabulary, and the libraries it uses."""
    own = Path(__file__).parents[1]
    sources = [own / "packs/vocabulary.yaml", *sorted(own.rglob("*.py"))]
    below = [platform.python_version(), *(f"{name} {version(name)}" for name in _LIBRARIES)]
    return digest([*(file.read_bytes() for file in sources), *(text.encode() for text in below)]).encode()
