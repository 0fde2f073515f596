"""Files with patterns of secrets -> `Redactor`. Loading checks them, including their own examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from epicenter.rules.documents.document import Path_, line_of, read_document
from epicenter.rules.documents.strict import Strict
from epicenter.rules.errors import ConfigError
from epicenter.rules.match.bounded import SECRET, work_fault
from epicenter.rules.redact.redactor import Redactor, Secret

SHIPPED: Final = Path(__file__).parent / "secrets.yaml"
_PART: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_OPEN, _CLOSE = "«", "»"


class SecretSpec(Strict):
    """One kind of secret, as `rules/redact/secrets.yaml` explains it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    sought: tuple[Annotated[str, Field(min_length=2, pattern=r"^[ -~]+$")], ...] = Field(min_length=1)
    patterns: tuple[str, ...] = Field(min_length=1)
    finds: tuple[str, ...] = Field(min_length=1)
    leaves: tuple[str, ...] = ()


class SecretsSpec(Strict):
    """A file of secrets. `off` names kinds of the shipped file to switch off."""

    parts: dict[str, str] = Field(default_factory=dict)
    no_secrets: tuple[str, ...] = ()
    secrets: tuple[SecretSpec, ...] = ()
    off: tuple[str, ...] = ()


def load_redactor(files: Iterable[Path] = ()) -> Redactor:
    """A redactor with the patterns of these files and the shipped ones; where both match, the files name the kind.

    Raises:
        ConfigError: lists every problem of every file, each with its file and line.
    """
    problems: list[str] = []
    shipped = _shipped()
    read = [_File(file, problems, shipped) for file in files]
    own = [secret for file in read for secret in file.secrets]
    off = {name for file in read for name in file.spec.off}
    problems += _duplicate_names(read, {secret.name for secret in shipped.secrets} - off)
    if not problems:
        redactor = Redactor(
            [*own, *(secret for secret in shipped.secrets if secret.name not in off)],
            [*shipped.spec.no_secrets, *(pattern for file in read for pattern in file.spec.no_secrets)],
        )
        problems += [fault for file in read for fault in file.wrong_examples(redactor)]
    if problems:
        raise ConfigError(problems)
    return redactor


def shipped_faults() -> list[str]:
    """What is wrong with the shipped file's patterns and examples, which are not checked when it is loaded."""
    return [*_shipped().wrong_patterns(), *_shipped().wrong_examples(load_redactor())]


def shipped_words() -> list[str]:
    """The words whose presence makes the redactor search a text."""
    return sorted({word for secret in _shipped().secrets for word in secret.sought})


@cache
def _shipped() -> _File:
    problems: list[str] = []
    file = _File(SHIPPED, problems)
    if problems:
        raise ConfigError(problems)
    return file


class _File:
    """The valid parts of one file; problems are appended to `problems`."""

    def __init__(self, file: Path, problems: list[str], shipped: _File | None = None):
        spec, self._lines = read_document(file, SecretsSpec, "file of secrets", problems)
        self.path, self.spec, self._is_shipped = file, spec or SecretsSpec(), shipped is None
        self.parts = _parts({**(shipped.spec.parts if shipped else {}), **self.spec.parts})
        self.secrets = tuple(self._secret(secret_spec) for secret_spec in self.spec.secrets)
        problems += self.wrong_patterns() if shipped else ()
        shipped_names = {secret.name for secret in shipped.secrets} if shipped else set()
        problems += [
            f"{self.place('off', number)}: off: {name}: no such kind; write one of {', '.join(sorted(shipped_names))}"
            for number, name in enumerate(self.spec.off)
            if name not in shipped_names
        ]

    def place(self, *path: str | int) -> str:
        """File and line of a part."""
        lines: dict[Path_, int] = self._lines
        return f"{self.path}:{line_of(lines, path)}"

    def wrong_patterns(self) -> Iterator[str]:
        """A message for each pattern that fails, and for each example without a secret."""
        for index, pattern in enumerate(self.spec.no_secrets):
            if fault := self._fault(pattern):
                yield f"{self.place('no_secrets', index)}: no_secrets: {pattern!r}: {fault}"
        for number, secret in enumerate(self.secrets):
            for index, pattern in enumerate(secret.expressions):
                if fault := self._fault(pattern):
                    yield f"{self.place('secrets', number, 'patterns', index)}: {secret.name}: {pattern!r}: {fault}"
            for index, example in enumerate(self.spec.secrets[number].finds):
                if _OPEN not in example:
                    place = self.place("secrets", number, "finds", index)
                    yield f"{place}: {secret.name}: put the secret between {_OPEN} and {_CLOSE}: {example!r}"

    def _fault(self, pattern: str) -> str:
        """Why the pattern fails. How long shipped ones take is measured on hostile texts; the estimate is too high."""
        return _fault(pattern) or ("" if self._is_shipped else work_fault(pattern, SECRET))

    def wrong_examples(self, redactor: Redactor) -> Iterator[str]:
        """A message for each example that fails."""
        for number, spec in enumerate(self.spec.secrets):
            for key, examples in (("finds", spec.finds), ("leaves", spec.leaves)):
                for index, example in enumerate(examples):
                    found = redactor.redact(without_marks(example).encode()).text.decode()
                    if found != (expected := _as_marked(example, spec.name)):
                        place = self.place("secrets", number, key, index)
                        yield f"{place}: {spec.name}: expected {expected!r}, got {found!r}"

    def _secret(self, spec: SecretSpec) -> Secret:
        return Secret(spec.name, spec.sought, tuple(_filled(pattern, self.parts) for pattern in spec.patterns))


def without_marks(example: str) -> str:
    """The text of an example."""
    return example.replace(_OPEN, "").replace(_CLOSE, "")


def _as_marked(example: str, name: str) -> str:
    return re.sub(f"(?s){_OPEN}.*?{_CLOSE}", f"[redacted:{name}]", example)


def _duplicate_names(files: Iterable[_File], used: set[str]) -> Iterator[str]:
    for file in files:
        for number, secret in enumerate(file.secrets):
            if secret.name in used:
                place = file.place("secrets", number, "name")
                yield f"{place}: {secret.name} is taken: choose another name, or write that one under `off`"
            used.add(secret.name)


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    return _PART.sub(lambda found: parts.get(found[1], found[0]), pattern)


def _parts(texts: Mapping[str, str]) -> dict[str, str]:
    """The parts, each with those above it inserted."""
    parts: dict[str, str] = {}
    for name, text in texts.items():
        parts[name] = _filled(text, parts)
    return parts


def _fault(pattern: str) -> str:
    try:
        compiled = re.compile(pattern.encode())
    except (re.error, OverflowError, RecursionError) as error:
        return f"{error}: correct the expression"
    return "matches empty text: make it match at least one character" if compiled.match(b"") else ""
