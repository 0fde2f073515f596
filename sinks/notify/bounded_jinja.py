"""Jinja in a sandbox where no template takes long, or makes much: what exceeds a bound raises `BoundError`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

from jinja2 import TemplateRuntimeError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_SOURCE_CHARS: Final = 20_000
MAX_CHARS: Final = 1_000_000
"""At most this many characters in one value, and in all that one message puts together."""

MAX_STEPS: Final = 10_000
"""At most this many turns of loops and calls of macros for one message."""

MAX_ARGUMENT: Final = 1_000
"""At most this large a number as a filter's argument, such as a width."""

MAX_BITS: Final = 256
"""At most this long a whole number."""

_FILTERS: Final = (
    *("abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape"),
    *("filesizeformat", "first", "float", "groupby", "indent", "int", "items", "join", "last", "length", "list"),
    *("lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "select", "selectattr"),
    *("slice", "sort", "string", "striptags", "title", "tojson", "trim", "truncate", "unique", "upper", "urlencode"),
    *("wordcount", "wordwrap"),
)
_METHODS: Final = frozenset(
    {
        *("capitalize", "casefold", "count", "endswith", "find", "get", "index", "isdigit", "items", "keys", "lower"),
        *("lstrip", "partition", "removeprefix", "removesuffix", "rfind", "rpartition", "rsplit", "rstrip", "split"),
        *("splitlines", "startswith", "strip", "swapcase", "title", "upper", "values"),
    }
)
_SIZED: Final = (str, list, tuple, dict)


class BoundError(TemplateRuntimeError):
    """A template would take long, or make much."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox for templates of users. For one thread at a time: it counts the steps of the message being written."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._steps = self._chars = 0
        own = {"replace": _replaced, "join": self._joined}
        self.filters = {name: _bounded(own.get(name, self.filters[name])) for name in _FILTERS}
        self.filters[_STEP] = self._step

    def begin(self) -> None:
        """Count anew, for the next message."""
        self._steps = self._chars = 0

    def counted(self, text: str) -> str:
        """A text that becomes part of the message."""
        self._chars += len(text)
        if self._chars > MAX_CHARS:
            raise BoundError(f"makes more than {MAX_CHARS} characters: write less, or `truncate` values")
        return text

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Data, and methods that make nothing larger than their text."""
        is_method = callable(value) and isinstance(obj, (*_SIZED, bytes, int, float))
        return super().is_safe_attribute(obj, attr, value) and (not is_method or attr in _METHODS)

    def wrap_str_format(self, value: Any) -> None:
        """A text's own `format` is a method like any other: it can pad to any width."""

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """The result of an operator, if it is not too large."""
        if operator == "**" or (operator == "%" and isinstance(left, (str, bytes))):
            raise BoundError(f"`{operator}` may make too much: write the result, or put texts together with `~`")
        if _size(operator, left, right) > MAX_CHARS:
            raise BoundError(f"`{operator}` makes more than {MAX_CHARS} characters, or a number too large")
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MAX_SOURCE_CHARS:
            raise BoundError(f"has more than {MAX_SOURCE_CHARS} characters: shorten it")
        tree: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    @pass_context  # without it, Jinja would count once, when it compiles the template
    def _step(self, _: Context, text: str) -> str:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise BoundError(f"takes more than {MAX_STEPS} turns of its loops and calls of its macros: loop over less")
        return text

    def _joined(self, values: Iterable[Any], separator: str = "", attribute: str | int | None = None) -> str:
        parts = values if attribute is None else (self.getitem(value, attribute) for value in values)
        texts = list(map(str, parts))
        if sum(map(len, texts)) + len(separator) * len(texts) > MAX_CHARS:
            raise BoundError(f"a text has more than {MAX_CHARS} characters: write less")
        return self.counted(separator.join(texts))


_STEP: Final = "count a step"
"""No template can name a filter like this."""


class _Counting(NodeTransformer):
    """Counts each turn of a loop and each call of a macro; `~` becomes a filter, whose result is bounded."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        """The node with bounds."""
        found = super().generic_visit(node, *args, **kwargs)
        if isinstance(found, nodes.For) and found.recursive:
            raise BoundError("`recursive` loops are not read: write one loop in the other")
        if isinstance(found, (nodes.For, nodes.Macro, nodes.CallBlock)):
            step = nodes.Filter(nodes.Const(""), _STEP, [], [], None, None)
            found.body.insert(0, nodes.Output([step], lineno=found.lineno))
        if isinstance(found, nodes.Concat):
            return nodes.Filter(nodes.List(found.nodes), "join", [], [], None, None, lineno=found.lineno)
        return found


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, with small numbers as arguments only, and a result that is not too large."""

    @wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        for argument in (*arguments[1:], *named.values()):
            if isinstance(argument, int) and abs(argument) > MAX_ARGUMENT:
                raise BoundError(f"a filter has {argument} as an argument: write at most {MAX_ARGUMENT}")
        found = function(*arguments, **named)
        if isinstance(found, _SIZED) and len(found) > MAX_CHARS:
            raise BoundError(f"a filter makes more than {MAX_CHARS} characters: write less")
        return found

    return bounded


def _replaced(value: Any, old: str, new: str, count: int | None = None) -> str:
    text, new = str(value), str(new)
    if text.count(old) * len(new) > MAX_CHARS:
        raise BoundError(f"`replace` makes more than {MAX_CHARS} characters: write less")
    return text.replace(old, new, -1 if count is None else count)


def _size(operator: str, left: Any, right: Any) -> float:
    """How large a result is, in characters or parts; infinite for a number that is too long."""
    sizes = [len(value) if isinstance(value, _SIZED) else None for value in (left, right)]
    if operator == "+":
        return sum(filter(None, sizes))
    if operator == "*" and sizes != [None, None]:
        times = next((value for value in (left, right) if isinstance(value, int)), 0)
        return times * max(filter(None, sizes), default=0)
    bits = sum(value.bit_length() for value in (left, right) if isinstance(value, int))
    return float("inf") if bits > MAX_BITS else 0
