"""How often functions are called while something runs: the same in every run, whatever else the machine does."""

from __future__ import annotations

import cProfile
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, Final

import epicenter

Called = Callable[..., Any] | str
"""A function, or the name that the profiler gives a function of C."""

SEARCHES: Final = "<method 'search' of 're.Pattern' objects>"
FINDS: Final = "<method 'finditer' of 're.Pattern' objects>"

_OURS: Final = str(Path(epicenter.__path__[0]))
_NOT_CALLED_SINCE_3_12: Final = ("<listcomp>", "<setcomp>", "<dictcomp>")


class Calls:
    """The calls made by a piece of work: those of Python functions by their code, those of C by name."""

    def __init__(self, work: Callable[[], object]):
        profiler = cProfile.Profile()
        profiler.runcall(work)
        self._counts: Counter[CodeType | str] = Counter()
        for entry in profiler.getstats():
            self._counts[entry.code] += entry.callcount

    def of(self, *called: Called) -> int:
        """How often these were called, generators once more for each item that they give."""
        return sum(self._counts[name if isinstance(name, str) else _code_of(name)] for name in called)

    @property
    def ours(self) -> int:
        """The calls of epicenter's functions; comprehensions are none, since Python 3.12 does not call them."""
        return sum(count for code, count in self._counts.items() if not isinstance(code, str) and _is_ours(code))

    def by_function(self) -> Mapping[str, int]:
        """The calls by file and function, the most frequent first."""
        return {_name(code): count for code, count in self._counts.most_common()}


def _code_of(function: Callable[..., Any]) -> CodeType:
    code = inspect.unwrap(function).__code__
    assert isinstance(code, CodeType)
    return code


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS) and code.co_name not in _NOT_CALLED_SINCE_3_12


def _name(code: CodeType | str) -> str:
    return code if isinstance(code, str) else f"{code.co_filename.removeprefix(_OURS)}:{code.co_qualname}"
