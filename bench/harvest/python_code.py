"""Calls and texts in Python, read with its own parser."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from bench.harvest.formats import braces, joined, kind_of, printf
from bench.harvest.template import Argument, Call, Hole, Parts

RAISE = "raise"
"""The name of the call that `raise SomeError(…)` makes; its first argument is the exception's name."""


def calls(code: str) -> Iterator[Call]:
    """Every call and every raised exception of the file; nothing if it can't be parsed."""
    yield from _calls_in(_parsed(code), "<module>")


def texts(code: str) -> Iterator[Parts]:
    """Every text of the file, read as a format."""
    for node in ast.walk(_parsed(code)):
        if isinstance(node, ast.JoinedStr):
            yield _of_f_string(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (printf(node.value, ()), braces(node.value, ()))


def _parsed(code: str) -> ast.Module:
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError):
            return ast.Module([], [])


def _calls_in(node: ast.AST, function: str) -> Iterator[Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _calls_in(child, child.name)
            continue
        if isinstance(child, ast.Call):
            arguments = tuple(map(_argument, child.args))
            yield Call(ast.unparse(child.func), arguments, child.lineno, function)
        elif isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
            arguments = (Argument(ast.unparse(child.exc.func)), *map(_argument, child.exc.args))
            yield Call(RAISE, arguments, child.lineno, function)
        yield from _calls_in(child, function)


def _argument(node: ast.expr) -> Argument:
    source = ast.unparse(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Argument(source, (node.value,))
    return Argument(source, _built(node), is_format=False)


def _built(node: ast.expr) -> Parts | None:
    """The parts of a text that an expression builds."""
    if isinstance(node, ast.JoinedStr):
        return _of_f_string(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and (text := _text(node.left)):
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return printf(text, list(map(ast.unparse, values)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_argument(node.left), _argument(node.right)]
        return joined(sides) if any(side.parts for side in sides) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        text = _text(node.func.value)
        return braces(text, list(map(ast.unparse, node.args))) if text else None
    return None


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _of_f_string(node: ast.JoinedStr) -> Parts:
    return joined([_of_value(value) for value in node.values])


def _of_value(node: ast.expr) -> Argument:
    if isinstance(node, ast.FormattedValue):
        return Argument("", (Hole(kind_of(_letter(node.format_spec)), ast.unparse(node.value)),))
    return _argument(node)


def _letter(spec: ast.expr | None) -> str:
    """The last letter of a format specification."""
    last = spec.values[-1] if isinstance(spec, ast.JoinedStr) and spec.values else None
    return str(last.value)[-1:] if isinstance(last, ast.Constant) else ""
