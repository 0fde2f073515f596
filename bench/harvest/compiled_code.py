"""Calls and texts in C, C++, Go, Rust and Scala, read with tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from bench.harvest.formats import braces, joined, printf
from bench.harvest.template import Argument, Call, Parts

Macros = Mapping[str, str]
GRAMMARS = {
    "c": "tree_sitter_c",
    "c++": "tree_sitter_cpp",
    "go": "tree_sitter_go",
    "rust": "tree_sitter_rust",
    "scala": "tree_sitter_scala",
}
_CALLS = {
    "c": "(call_expression) @call",
    "c++": '[(call_expression) @call (binary_expression left: (identifier) @call operator: "<<")]',
    "go": "(call_expression) @call",
    "rust": "[(call_expression) (macro_invocation) (attribute)] @call",
    "scala": "[(call_expression) (instance_expression)] @call",
}
"""What prints or makes a message. In C++ it may be a name with `<<`, such as `std::cerr` or a macro."""
_MACRO_BODIES = "(preproc_function_def value: (preproc_arg) @body)"
_MACRO_VALUES = "[(preproc_function_def value: (preproc_arg) @body) (preproc_def value: (preproc_arg) @body)]"
_TEXTS = {
    "c": "[(concatenated_string) (string_literal)] @text",
    "c++": "[(concatenated_string) (string_literal) (raw_string_literal)] @text",
    "go": "[(interpreted_string_literal) (raw_string_literal)] @text",
    "rust": "[(string_literal) (raw_string_literal)] @text",
    "scala": "[(string) (interpolated_string)] @text",
}
_LITERALS = ("string_literal", "raw_string_literal", "interpreted_string_literal", "string")
_WITH_MACROS = ("c", "c++")
_PARSED_ALREADY = "concatenated_string"
_INTERPOLATED = ("interpolated_string_expression", "interpolated_string")
_ENDS_A_STREAM = ("dendl", "endl", "std::endl")
_FUNCTIONS = ("function_definition", "function_declaration", "method_declaration", "function_item")
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
    for node in _captured(language, _CALLS[language], tree):
        yield _call(node, macros, first_line)
    if language in _WITH_MACROS:
        for body in _captured(language, _MACRO_BODIES, tree):
            yield from _calls_of_macro(language, body, macros)


def texts(language: str, code: bytes, macros: Macros) -> Iterator[Parts]:
    """Every text of the file, those in macros too, read as a format."""
    tree = _parsed(language, code)
    yield from _texts_in(language, tree, macros)
    if language in _WITH_MACROS:
        for body in _captured(language, _MACRO_VALUES, tree):
            if b'"' in (body.text or b""):
                yield from _texts_in(language, _parsed_body(language, body, b"macro"), macros)


def _texts_in(language: str, tree: Node, macros: Macros) -> Iterator[Parts]:
    for node in _captured(language, _TEXTS[language], tree):
        if node.parent is None or node.parent.type != _PARSED_ALREADY:
            if parts := _interpolated(node):
                yield parts
            elif (text := _literal(node, macros)) is not None:
                yield braces(text, ()) if language == "rust" else printf(text, ())


def _calls_of_macro(language: str, body: Node, macros: Macros) -> Iterator[Call]:
    name = body.parent.child_by_field_name("name") if body.parent else None
    tree = _parsed_body(language, body, _text(name).encode() if name else b"macro")
    for node in _captured(language, _CALLS[language], tree):
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
    line = first_line + node.start_point.row
    return Call(_name(node), _arguments(node, macros), line, _function(node), tuple(_streamed(node, macros)))


def _name(node: Node) -> str:
    """The name of a function, a macro or a class."""
    named = node.child_by_field_name("function") or node.child_by_field_name("macro")
    return re.sub(r"\s+", "", _text(named or (node.named_children[0] if node.named_children else node)))


def _arguments(node: Node, macros: Macros) -> tuple[Argument, ...]:
    listed = node.child_by_field_name("arguments") or _tokens(node)
    return tuple(_argument(child, macros) for child in (listed.named_children if listed else []) if _counts(child))


def _tokens(node: Node) -> Node | None:
    """The arguments of a macro of Rust."""
    return next((child for child in node.named_children if child.type == "token_tree"), None)


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
    if node.type in _INTERPOLATED:
        return _interpolated(node)
    if node.type == "field_expression":
        return _of_method(node, macros)
    if node.type == "parenthesized_expression" and node.named_child_count == 1:
        return _argument(node.named_children[0], macros).parts
    if node.type == "macro_invocation" and _name(node) == "format":
        return next((braces(str(given.parts[0]), ()) for given in _arguments(node, macros) if given.parts), None)
    if node.type in ("binary_expression", "infix_expression") and _operator(node) == "+":
        children = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        sides = [_argument(child, macros) for child in children if child]
        return joined(sides) if any(side.parts for side in sides) else None
    if node.type == "call_expression":
        name, arguments = _name(node), _arguments(node, macros)
        if name.endswith(("Sprintf", "StrFormat")) and arguments and arguments[0].parts:
            return printf(str(arguments[0].parts[0]), [argument.source for argument in arguments[1:]])
        if name.endswith(("StrCat", "_fmt", "str", "std::string")) and any(argument.parts for argument in arguments):
            return joined(arguments)
        function = node.child_by_field_name("function")
        return _of_method(function, macros) if function else None
    return None


def _of_method(node: Node, macros: Macros) -> Parts | None:
    """The parts of the text whose method this is: `"…".to_string`, `"…".stripMargin`, `("…" + a).c_str`."""
    if node.type != "field_expression":
        return None
    value = node.child_by_field_name("value") or node.child_by_field_name("argument")
    return _argument(value, macros).parts if value else None


def _interpolated(node: Node) -> Parts | None:
    """The parts of a text of Scala with `$name` or `${…}` in it; None if it is another one."""
    if node.type == "interpolated_string_expression":
        return _interpolated(node.named_children[-1])
    if node.type != "interpolated_string":
        return None
    pieces: list[Argument] = []
    quote, code = 3 if _text(node).startswith('"""') else 1, node.text or b""
    end = quote
    for child in (child for child in node.named_children if child.type == "interpolation"):
        start = child.start_byte - node.start_byte
        pieces += [_plain(code[end:start]), Argument(_text(child))]
        end = child.end_byte - node.start_byte
    return joined([*pieces, _plain(code[end : len(code) - quote])])


def _plain(code: bytes) -> Argument:
    text = re.sub(r"\n[ \t]*\|", "\n", code.decode("utf-8", "replace"))
    return Argument("", (unescaped(text),))


def _operator(node: Node) -> str:
    return _text(node.child_by_field_name("operator"))


def _streamed(node: Node, macros: Macros) -> Iterator[Argument]:
    """What `<<` appends to a call, in order."""
    parent = node.parent
    while parent is not None and parent.type == "binary_expression" and _operator(parent) == "<<":
        right = parent.child_by_field_name("right")
        if right is not None and right.start_byte > node.end_byte and _text(right) not in _ENDS_A_STREAM:
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
