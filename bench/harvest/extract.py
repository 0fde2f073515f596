"""A producer's sources -> the messages that it can print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from bench.harvest import compiled_code, python_code
from bench.harvest.formats import braces, joined, printf
from bench.harvest.producers import CallSpec, Producer, version_of
from bench.harvest.template import Argument, Call, Level, Parts, Template, has_words, stripped

_ORDER: tuple[Level, ...] = ("error", "warning", "info")


def templates_of(producer: Producer, sources: Path) -> list[Template]:
    """Each message once, at its highest level, sorted by level and place."""
    root = producer.root(sources)
    files = {file: file.read_text("utf-8", "replace") for file in producer.files(root)}
    macros = _macros(producer, files.values())
    found = chain.from_iterable(
        _templates_in(producer, str(file.relative_to(root)), text, macros) for file, text in files.items()
    )
    by_id: dict[str, Template] = {}
    for template in sorted(found, key=lambda template: _ORDER.index(template.level)):
        by_id.setdefault(template.id, template)
    return list(by_id.values())


def texts_of(producer: Producer, sources: Path) -> Iterator[tuple[str, Parts]]:
    """Every text with enough words in the sources of all versions, printed or not, with its version."""
    for root in producer.roots(sources):
        version = root.name.partition("@")[2] or version_of(root)
        files = [file.read_text("utf-8", "replace") for file in producer.files(root)]
        macros = _macros(producer, files)
        for text in files:
            yield from ((version, parts) for parts in _texts_in(producer, text, macros))


def _texts_in(producer: Producer, text: str, macros: dict[str, str]) -> Iterator[Parts]:
    return filter(has_words, map(stripped, _all_texts(producer, text, macros)))


def _all_texts(producer: Producer, text: str, macros: dict[str, str]) -> Iterator[Parts]:
    if producer.language == "text":
        return (printf(line, ()) for line in text.split("\n"))
    if producer.language == "python":
        return python_code.texts(text)
    return compiled_code.texts(producer.language, text.encode(), macros)


def _macros(producer: Producer, texts: Iterable[str]) -> dict[str, str]:
    if producer.language in ("python", "text"):
        return {}
    return {name: value for text in texts for name, value in compiled_code.definitions(text).items()}


def _templates_in(producer: Producer, path: str, text: str, macros: dict[str, str]) -> Iterator[Template]:
    if producer.language == "python":
        calls = python_code.calls(text)
    else:
        macros = {**macros, "KBUILD_MODNAME": producer.module_of(path), **compiled_code.definitions(text)}
        calls = compiled_code.calls(producer.language, text.encode(), macros)
    specs = [(re.compile(spec.call), spec) for spec in producer.calls]
    for call in calls:
        spec = next((spec for pattern, spec in specs if pattern.fullmatch(call.name) and _is_meant(call, spec)), None)
        parts = stripped(_message(call, spec)) if spec else ()
        if spec and has_words(parts):
            values = [_value(argument, spec, macros) for argument in call.arguments]
            message = _prefix(producer, spec, text, macros) + "{message}"
            holes = _holes(producer, spec, call, path) | {"message": message}
            yield Template(
                producer.name,
                (spec.before.format(*values, **holes), *parts) if spec.before else parts,
                spec.level,
                (spec.line or producer.line).format(*values, **holes),
                spec.source or producer.source,
                f"{path}:{call.line}",
            )


def _prefix(producer: Producer, spec: CallSpec, text: str, macros: Mapping[str, str]) -> str:
    """What a macro of the file, or of a header of all files, puts before the message."""
    if not spec.prefix_macro:
        return ""
    found = compiled_code.prefix_of(text, spec.prefix_macro, macros)
    return producer.prefixes.get(spec.prefix_macro, "") if found is None else found


def _is_meant(call: Call, spec: CallSpec) -> bool:
    """Whether the arguments are as the specification wants them."""
    sources = [argument.source for argument in call.arguments]
    return all(
        number < len(sources) and re.fullmatch(pattern, sources[number]) for number, pattern in spec.where.items()
    )


def _message(call: Call, spec: CallSpec) -> Parts:
    if spec.form == "streamed":
        return joined(call.streamed)
    number = _number_of_text(call, spec)
    if number is None:
        return ()
    text, rest = call.arguments[number], call.arguments[number + 1 :]
    if spec.form == "joined":
        return joined([text, *rest])
    return _formatted(text, rest, spec)


def _number_of_text(call: Call, spec: CallSpec) -> int | None:
    if spec.argument is not None:
        return spec.argument if spec.argument < len(call.arguments) else None
    return next((number for number, argument in enumerate(call.arguments) if argument.parts), None)


def _formatted(text: Argument, rest: tuple[Argument, ...], spec: CallSpec) -> Parts:
    if not text.parts or spec.form == "plain" or not text.is_format:
        return text.parts or ()
    read = {"printf": printf, "braces": braces}[spec.form]
    return read(str(text.parts[0]), [argument.source for argument in rest])


def _holes(producer: Producer, spec: CallSpec, call: Call, path: str) -> dict[str, str]:
    """What fills the named holes of a line, all but the message."""
    return {
        "message": "{message}",
        "level": spec.level.upper(),
        "level_lower": spec.level,
        "letter": spec.level[0].upper(),
        "file": Path(path).name,
        "stem": Path(path).stem,
        "path": path,
        "number": str(call.line),
        "function": call.function,
        "module": re.sub(r"(?:/__init__)?\.\w+$", "", path).replace("/", "."),
        "device": producer.device,
    }


def _value(argument: Argument, spec: CallSpec, macros: dict[str, str]) -> str:
    """The text or number of an argument that is the name of one, or a text; else its source."""
    if argument.parts and len(argument.parts) == 1 and isinstance(argument.parts[0], str):
        return argument.parts[0]
    name = argument.source.rpartition(".")[2]
    return macros.get(spec.constants + name, name)
