"""The file of producers: where their sources are, which calls print a message, and the line that it makes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from bench.harvest.template import Level
from epicenter.rules.documents.strict import Strict

PRODUCERS = Path(__file__).with_name("producers.yaml")
Language = Literal["c", "c++", "go", "python", "rust", "scala", "text"]
Form = Literal["printf", "braces", "joined", "streamed", "plain"]
_VERSION_FILES = ("VERSION", "*.dist-info/METADATA", "PKG-INFO")


class CallSpec(Strict):
    """Calls that print a message. `call` fits the whole name of the function.

    `form` says how its text becomes the message: a format of `printf` or of `{}`, arguments or streamed values one
    after the other, or the text as it is. `argument` is the number of the text; without it, the first text is taken.
    `where` are expressions that arguments of these numbers must fit. `line` and `source` replace the producer's;
    `prefix_macro` is what a file defines to put a text before each of these messages, a function or a name. `before`
    is text that the call puts before the message and that is part of it, such as an error's code, with the same holes
    as `line`; `constants` is what a macro puts before the names of these codes.
    """

    call: str
    level: Level = "error"
    form: Form = "printf"
    argument: int | None = None
    where: dict[int, str] = Field(default_factory=dict)
    line: str = ""
    source: str = ""
    prefix_macro: str = ""
    before: str = ""
    constants: str = ""


class Producer(Strict):
    """One producer. `folder` is below the sources' folder; `paths` are globs in it, `without` expressions of paths.

    `line` is what people find in their log for a message. It may have the holes {message}, {level}, {letter}, {file},
    {stem}, {level_lower}, {path}, {number}, {function}, {module}, {device} and {0}, {1}, … for arguments.
    `references` fits the references of rules that mean this producer; `sisters` share its messages, as do all producers
    of the same folder. Those that are not `measured` only print examples of rules; `text` is files of messages.
    `prefixes` are values of a `prefix_macro` for files that leave it to a header; `modules` are names of kernel modules
    by the beginning of a file's path.
    """

    name: str
    folder: str = ""
    language: Language
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()
    line: str = "{message}"
    device: str = ""
    source: str = ""
    calls: tuple[CallSpec, ...] = ()
    measured: bool = True
    references: str = ""
    sisters: tuple[str, ...] = ()
    prefixes: dict[str, str] = Field(default_factory=dict)
    modules: dict[str, str] = Field(default_factory=dict)

    def module_of(self, path: str) -> str:
        """The kernel module that a file belongs to; the producer's name if `modules` has none."""
        return next((module for start, module in self.modules.items() if path.startswith(start)), self.name)

    def root(self, sources: Path) -> Path:
        """The folder of its sources."""
        return sources / (self.folder or self.name)

    def is_sister(self, other: Producer) -> bool:
        """Whether the other one may print the same messages; true for itself."""
        return (other.folder or other.name) == (self.folder or self.name) or other.name in self.sisters

    def roots(self, sources: Path) -> list[Path]:
        """The folder of its sources, and those of its other versions: `nccl@2.18` next to `nccl`."""
        root = self.root(sources)
        return [root, *sorted(sources.glob(f"{root.name}@*"))]

    def files(self, root: Path) -> Iterator[Path]:
        """Its files below a folder, in a fixed order."""
        found = {file for glob in self.paths for file in root.glob(glob) if file.is_file()}
        for file in sorted(found):
            if not any(re.search(pattern, str(file.relative_to(root))) for pattern in self.without):
                yield file


def read_producers(file: Path = PRODUCERS) -> list[Producer]:
    """All producers of the file; its key `shared` only holds what they have in common."""
    document: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return [Producer.model_validate(fields) for fields in document["producers"]]


def version_of(root: Path) -> str:
    """The version of a checkout or of an unpacked package; empty if nothing says it."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "describe", "--tags", "--always"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    for name in _VERSION_FILES:
        for file in sorted(root.glob(name)):
            text = file.read_text("utf-8", "replace")
            stated = re.search(r"^Version: (\S+)", text, re.MULTILINE)
            return stated[1] if stated else text.partition("\n")[0].strip()
    return ""
