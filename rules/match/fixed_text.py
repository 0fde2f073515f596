"""Fixed text that every match of a pattern contains: Hyperscan finds it several times faster than the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

Texts = frozenset[bytes]
"""Texts of which one is meant."""

MIN_BYTES: Final = 12
"""Shorter text is too frequent in other lines: `re` would have to refuse them one by one."""

MIN_NEEDED_BYTES: Final = 2
_END_OF_WORD: Final = re.compile(rb"(?<=.{7}\W\w{4})\w+\Z", re.DOTALL)
_MAX_TEXTS: Final = 24
_MAX_CLASS_BYTES: Final = 4
_MAX_REPEATS: Final = 2
_NOTHING: Final = Texts([b""])
_REPEATS: Final = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
_HYPERSCAN_KNOWS: Final = {
    *(kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN, kinds.AT, kinds.BRANCH, kinds.SUBPATTERN),
    *_REPEATS,
}


def fixed_texts(pattern: bytes) -> Texts:
    """Long texts of which every match contains at least one. None at all if the pattern has no such texts."""
    tree = parser.parse(pattern)
    if tree.state.flags & re.IGNORECASE or not set(_kinds(tree)) <= _HYPERSCAN_KNOWS:
        return Texts()
    texts = Texts(map(_without_end_of_word, _best(tree)))
    return texts if _shortest(texts) >= MIN_BYTES else Texts()


def needed_texts(pattern: bytes) -> Texts:
    """Texts in lower case of which every match has at least one, in any case. None at all if they are not known."""
    texts = _best(parser.parse(pattern))
    return Texts(text.lower() for text in texts) if _shortest(texts) >= MIN_NEEDED_BYTES else Texts()


def quoted(text: bytes) -> bytes:
    """A pattern that matches exactly this text."""
    return "".join(f"\\x{byte:02x}" for byte in text).encode()


def _kinds(tree: Any) -> Iterator[Any]:
    for kind, content in tree:
        yield kind
        for part in _parts(kind, content):
            yield from _kinds(part)


def _parts(kind: Any, content: Any) -> list[Any]:
    if kind is kinds.BRANCH:
        return list(content[1])
    return [content[-1]] if kind is kinds.SUBPATTERN or kind in _REPEATS else []


def _best(tree: Any) -> Texts:
    """Of all texts that are required, the longest; if several are long enough, the fewest."""
    return max(_required(tree), key=lambda texts: (min(_shortest(texts), MIN_BYTES), -len(texts), _shortest(texts)))


def _shortest(texts: Texts) -> int:
    return min(map(len, texts)) if len(texts) <= _MAX_TEXTS else 0


def _without_end_of_word(text: bytes) -> bytes:
    """Hyperscan looks for the last eight bytes first: those of one long word, such as a field's name, are frequent."""
    return _END_OF_WORD.sub(b"", text)


def _required(tree: Any) -> Iterator[Texts]:
    """Texts that every match contains: runs of parts whose text is known, and those inside of other parts."""
    run = _NOTHING
    for kind, content in _without_groups(tree):
        texts = _all_texts_of(kind, content)
        if longer := texts and _joined(run, texts):
            run = longer
            continue
        yield run
        run = texts or _NOTHING
        if kind is kinds.BRANCH:
            yield Texts().union(*map(_best, content[1]))
        elif kind in _REPEATS and content[0] > 0:
            yield from _required(content[-1])
    yield run


def _all_texts(tree: Any) -> Texts | None:
    """All texts that this part can match; None if they are unknown or too many."""
    run: Texts | None = _NOTHING
    for kind, content in _without_groups(tree):
        texts = _all_texts_of(kind, content)
        run = run and texts and _joined(run, texts)
    return run


def _all_texts_of(kind: Any, content: Any) -> Texts | None:
    if kind is kinds.LITERAL:
        return Texts([bytes([content])])
    if kind is kinds.AT:
        return _NOTHING
    if kind is kinds.IN and len(content) <= _MAX_CLASS_BYTES and all(kind is kinds.LITERAL for kind, _ in content):
        return Texts(bytes([byte]) for _, byte in content)
    if kind is kinds.BRANCH:
        return _either([_all_texts(part) for part in content[1]])
    if kind in _REPEATS and content[1] <= _MAX_REPEATS:
        least, most, part = content
        return _either([_all_texts([*part] * times) for times in range(least, most + 1)])
    return None


def _without_groups(tree: Any) -> Iterator[tuple[Any, Any]]:
    """The parts in order, those of groups among them. A group with flags of its own stays."""
    for kind, content in tree:
        if kind is kinds.SUBPATTERN and not any(content[1:3]):
            yield from _without_groups(content[-1])
        else:
            yield kind, content


def _joined(first: Texts, second: Texts) -> Texts | None:
    return _few(Texts(text + more for text in first for more in second))


def _either(choices: list[Texts | None]) -> Texts | None:
    return None if None in choices else _few(Texts().union(*filter(None, choices)))


def _few(texts: Texts) -> Texts | None:
    return texts if len(texts) <= _MAX_TEXTS else None
