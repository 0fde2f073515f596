"""Calls and texts in C, C++ and Go, read with tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from bench.harvest.formats import joined, printf
from bench.harvest.template import Argument, Call, Parts

Macros = Mapping[str, str]
GRAMMARS = {"c": "tree_sitter_c", "c++": "tree_sitter_cpp", "go": "tree_sitter_go"}
_CALLS = "(call_expression) @call"
_MACRO_BODIES = "(preproc_function_def value: (preproc_arg) @body)"
_MACRO_VALUES = "[(preproc_function_def value: (preproc_arg) @body) (preproc_def value: (preproc_arg) @body)]"
_TEXTS = {
    "c": "[(concatenated_string) (string_literal)] @text",
    "c++": "[(concatenated_string) (string_literal) (raw_string_literal)] @text",
    "go": "[(interpreted_string_literal) (raw_string_literal)] @text",
}
_LITERALS = ("string_literal", "raw_string_literal", "interpreted_string_literal")
_PARSED_ALREADY = "concatenated_string"
_FUNCTIONS = ("function_definition", "function_declaration", "method_declaration")
_DEFINITION = re.compile(
    r"""^[ \t]* (?:\#[ \t]*define[ \t]+|const[ \t]+|(?=\w+[ \t]*(?:string[ \t]*)?=)) ([A-Z]\w+)
    [ \t]* (?:string[ \t]*)? =? [ \t]* \(? [ \t]*
    (?: "((?:[^"\\\n]|\\.)*)" | (0x[0-9a-fA-F]+|0|[1-9]\d*) ) \)? [ \t]* ,? [ \t]* (?:/[/*].*)?$""",
    re.MULTILINE | re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "", "0": "", "a": "", "e": "\x1b"}
_FORMAT_MACRO = re.compile(r"PRI([diuxX])\w+$")


def definitions(text: str) -> dict[str, str]:
    """Constants of texts and numbers that the file defines, with their values; their names begin with a capital."""
    found = _DEFINITION.findall(text)
    return {name: str(int(number, 0)) if number else unescaped(quoted) for name, quoted, number in found}


def unescaped(text: str) -> str:
    """The text that a literal's content means."""
    return re.sub(r"\\(x[0-9a-fA-F]{2}|0?33|.)", lambda found: _ESCAPES.get(found[1], found[1][-1:]), text)


def calls(language: str, code: bytes, macros: Macros) -> Iterator[Call]:
    """Every call of the file, those in macros too."""
    tree, first_line = _parsed(language, code), 1
    for node in _captured(language, _CALLS, tree):
        yield _call(node, macros, first_line)
    if language != "go":
        for body in _captured(language, _MACRO_BODIES, tree):
            yield from _calls_of_macro(language, body, macros)


def texts(language: str, code: bytes, macros: Macros) -> Iterator[Parts]:
    """Every text of the file, those in macros too, read as a format."""
    tree = _parsed(language, code)
    yield from _texts_in(language, tree, macros)
    if language != "go":
        for body in _captured(language, _MACRO_VALUES, tree):
            if b'"' in (body.text or b""):
                yield from _texts_in(language, _parsed_body(language, body, b"macro"), macros)


def _texts_in(language: str, tree: Node, macros: Macros) -> Iterator[Parts]:
    for node in _captured(language, _TEXTS[language], tree):
        if node.parent is None or node.parent.type != _PARSED_ALREADY:
            text = _literal(node, macros)
            if text is not None:
                yield printf(text, ())


def _calls_of_macro(language: str, body: Node, macros: Macros) -> Iterator[Call]:
    name = body.parent.child_by_field_name("name") if body.parent else None
    tree = _parsed_body(language, body, _text(name).encode() if name else b"macro")
    for node in _captured(language, _CALLS, tree):
        yield _call(node, macros, body.start_point.row + 1)


def _parsed_body(language: str, body: Node, name: bytes) -> Node:
    code = re.sub(rb"\\\r?\n", b"\n", body.text or b"")
    return _parsed(language, b"void %s(void) {" % name + code + b";}")


@cache
def _grammar(language: str) -> Language:
    return Language(import_module(GRAMMARS[language]).language())


@cache
def _query(language: str, query: str) -> Query:
    return Query(_grammar(language), query)


def _parsed(language: str, code: bytes) -> Node:
    return Parser(_grammar(language)).parse(code).root_node


def _captured(language: str, query: str, tree: Node) -> list[Node]:
    found = QueryCursor(_query(language, query)).captures(tree)
    return sorted((node for nodes in found.values() for node in nodes), key=lambda node: node.start_byte)


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def _call(node: Node, macros: Macros, first_line: int) -> Call:
    listed = node.child_by_field_name("arguments")
    arguments = [_argument(child, macros) for child in (listed.named_children if listed else []) if _counts(child)]
    name = re.sub(r"\s+", "", _text(node.child_by_field_name("function")))
    return Call(
        name, tuple(arguments), first_line + node.start_point.row, _function(node), tuple(_streamed(node, macros))
    )


def _counts(node: Node) -> bool:
    return node.type != "comment"


def _argument(node: Node, macros: Macros) -> Argument:
    source = " ".join(_text(node).split())
    text = _literal(node, macros)
    if text is not None:
        return Argument(source, (text,) if text else ())
    if parts := _built(node, macros):
        return Argument(source, parts, is_format=False)
    return Argument(source)


def _literal(node: Node, macros: Macros) -> str | None:
    """The text of a literal, of neighbouring literals, or of the name of one."""
    if node.type in _LITERALS:
        return _content(node)
    if node.type == _PARSED_ALREADY:
        return "".join(_piece(child, macros) for child in node.named_children if _counts(child))
    if node.type == "identifier" and not macros.get(_text(node), "0").isdigit():
        return macros[_text(node)]
    if node.type == "parenthesized_expression" and node.named_child_count == 1:
        return _literal(node.named_children[0], macros)
    return None


def _content(node: Node) -> str:
    text = _text(node)
    if node.type == "raw_string_literal":
        return re.sub(r'^(?:L|u8?|U)?R"(\w*)\((.*)\)\1"$', r"\2", text, flags=re.DOTALL).strip("`")
    inner = text[text.find('"') + 1 : text.rfind('"')]
    return unescaped(re.sub(r"\\\r?\n[ \t]*", "", inner))


def _piece(node: Node, macros: Macros) -> str:
    """One of several neighbouring literals; an unknown name among them prints a text."""
    name = _text(node)
    if conversion := _FORMAT_MACRO.match(name):
        return conversion[1]
    if name.startswith("KERN_"):
        return ""
    text = _literal(node, macros)
    return "%s" if text is None else text


def _built(node: Node, macros: Macros) -> Parts | None:
    """The parts of a text that an expression builds: `"a" + b`, `fmt.Sprintf("…", b)`, `StrCat("a", b)`."""
    if node.type == "binary_expression" and _operator(node) == "+":
        sides = [_argument(child, macros) for child in node.named_children if _counts(child)]
        return joined(sides) if any(side.parts for side in sides) else None
    if node.type == "call_expression":
        call = _call(node, macros, 1)
        if call.name.endswith(("Sprintf", "StrFormat")) and call.arguments and call.arguments[0].parts:
            return printf(str(call.arguments[0].parts[0]), [argument.source for argument in call.arguments[1:]])
        if call.name.endswith(("StrCat", "_fmt", "str")) and any(argument.parts for argument in call.arguments):
            return joined(call.arguments)
    return None


def _operator(node: Node) -> str:
    return _text(node.child_by_field_name("operator"))


def _streamed(node: Node, macros: Macros) -> Iterator[Argument]:
    """What `<<` appends to a call, in order."""
    parent = node.parent
    while parent is not None and parent.type == "binary_expression" and _operator(parent) == "<<":
        right = parent.child_by_field_name("right")
        if right is not None and right.start_byte > node.end_byte:
            yield _argument(right, macros)
        parent = parent.parent


def _function(node: Node) -> str:
    parent: Node | None = node
    while parent is not None and parent.type not in _FUNCTIONS:
        parent = parent.parent
    if parent is None:
        return ""
    named = parent.child_by_field_name("name") or parent.child_by_field_name("declarator")
    while named is not None and (inner := named.child_by_field_name("declarator")) is not None:
        named = inner
    return _text(named)


def prefix_of(text: str, name: str, macros: Macros) -> str | None:
    """What a macro such as `pr_fmt` puts before each message of the file; None if the file does not define it."""
    if name in macros:
        return f"{macros[name]}: "
    found = re.search(rf"#\s*define\s+{name}(?:\(\w+\)[ \t]+(.*?)\bfmt\b|[ \t]+(\w+))", text)
    if found is None:
        return None
    if found[2]:
        return prefix_of(text, found[2], macros)
    pieces = re.findall(r'"([^"]*)"|(\w+)', found[1])
    return "".join(quoted or macros.get(word) or _prefix_in(text, word, macros) for quoted, word in pieces)


def _prefix_in(text: str, word: str, macros: Macros) -> str:
    """What a macro adds that the definition of another one names; empty for names that are no such macro."""
    return prefix_of(text, word, macros) or "" if word.endswith("_fmt") else ""
