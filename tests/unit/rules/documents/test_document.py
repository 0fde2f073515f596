"""Whatever a YAML file holds, you get its content, or one message for each mistake, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epicenter.rules.documents.document import Document, parse_document


def read(content: str | bytes) -> tuple[Document | None, list[str]]:
    problems: list[str] = []
    data = content.encode() if isinstance(content, str) else content
    return parse_document(Path("f.yaml"), lambda _: data, "pack", problems), problems


TAG = "a tag is not read here: remove it, and write a plain text, number, list or mapping"
MISTAKES: list[tuple[str, str | bytes, str]] = [
    ("object", "a: 1\nb: !!python/object:os.system x\n", f"2: !!python/object:os.system: {TAG}"),
    ("own tag of a list", "a: 1\nb: !foo [x]\n", f"2: !foo: {TAG}"),
    ("set", "a: 1\nb: !!set {x, y}\n", f"2: !!set: {TAG}"),
    ("ordered mapping", "a: 1\nb: !!omap [x: 1]\n", f"2: !!omap: {TAG}"),
    ("bad binary", "a: 1\nb: !!binary ä\n", f"2: !!binary: {TAG}"),
    ("text tag of a list", "a: 1\nb: !!str [x]\n", f"2: !!str: {TAG}"),
    ("bad timestamp", "a: !!timestamp foo\n", "1: 'foo' is not a valid date or number; put it in quotes"),
    ("bad truth value", "a: !!bool foo\n", "1: 'foo' is not a valid date or number; put it in quotes"),
    ("empty number", "a: !!int ''\n", "1: '' is not a valid date or number; put it in quotes"),
    ("digits", "a: " + "9" * 5000, "1: a number of 5000 characters: put it in quotes"),
    ("hexadecimal digits", "a: 0x" + "f" * 90, "1: 0x" + "f" * 90 + " is too large a number: put it in quotes"),
    ("numbers by 60", "a: 1" + ":59" * 500_000, "1: a number of 1500001 characters: put it in quotes"),
    (
        "merge key",
        "a: &x {c: 1}\nb:\n  <<: *x\n",
        "3: <<: a mapping is not merged into another here: write its keys out",
    ),
    ("list as key", "a: 1\n? [b]\n: 1\n", "2: a key is a list or a mapping: write a text"),
    ("key twice", "a: 1\na: 2\n", "2: a is written twice: keep one"),
    ("surrogate", 'a: "\\ud800"\n', "1: '\\ud800' holds half a character: write the character itself"),
    ("no character", 'a: 1\nb: "\\U00110000"\n', "2: not YAML: found invalid Unicode character escape code"),
    ("NUL", "a: 1\nb: \0\n", "2: not YAML: a character that is not allowed in a text file"),
    ("not UTF-8", b"a: 1\nb: \xff\n", "2: can't be read: not UTF-8: invalid start byte at byte 8: save it as UTF-8"),
    ("brackets", "a: 1\nb: " + "[" * 100_000, "2: not YAML for a file of this kind (pack): nested more than 100 deep"),
    ("braces", "{a: " * 100_000, "1: not YAML for a file of this kind (pack): nested more than 100 deep"),
    ("dashes", "- " * 100_000, "1: not YAML for a file of this kind (pack): nested more than 100 deep"),
    (
        "indents",
        "".join(f"{' ' * depth}a:\n" for depth in range(2000)),
        "101: not YAML for a file of this kind (pack):",
    ),
    ("alias of itself", "a: 1\nb: &b [*b]\n", "2: not YAML for a file of this kind (pack): an alias contains itself"),
    (
        "billion laughs",
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "1: not YAML for a file of this kind (pack): its aliases expand to too many parts: write the parts out",
    ),
]


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_a_mistake_is_one_message_with_its_line(content: str | bytes, message: str) -> None:
    _, problems = read(content)
    assert len(problems) == 1
    assert problems[0].startswith(f"f.yaml:{message}")


PLAIN: list[tuple[str, Any]] = [
    ("a: [1, 2.5, true, ~, x]", {"a": [1, 2.5, True, None, "x"]}),
    ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ("a: =\nb: <<", {"a": "=", "b": "<<"}),
    ("[" * 100 + "]" * 100, None),
    ("a: !!str 1", {"a": "1"}),
]


@pytest.mark.parametrize(("content", "expected"), PLAIN)
def test_plain_content_is_read(content: str, expected: Any) -> None:
    document, problems = read(content)
    assert document
    assert not problems
    assert expected is None or document.content == expected
