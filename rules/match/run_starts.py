"""Compiles patterns so that a long run of characters of one class is tried once, not again from each of them."""

from __future__ import annotations

import re
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

_REPEATS: Final = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
_ONE_BYTE: Final = (kinds.IN, kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY)
_BACK_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=")


def compiled(pattern: str) -> re.Pattern[bytes]:
    r"""The pattern, compiled: `\w+: x` is tried only where a run of word characters begins.

    The first match in a text stays: one that began inside of such a run could begin one character earlier as well.
    """
    tree = parser.parse(pattern.encode())
    if not _BACK_REFERENCE.search(pattern):
        _begin_at_run_starts(tree)
    found: re.Pattern[bytes] = compiler.compile(tree)
    return found


def _begin_at_run_starts(tree: Any) -> None:
    if not len(tree):
        return
    kind, content = tree[0]
    if kind is kinds.SUBPATTERN:
        _begin_at_run_starts(content[-1])
    elif kind is kinds.BRANCH:
        for part in content[1]:
            _begin_at_run_starts(part)
    elif kind in _REPEATS:
        _, most, repeated = content
        if most == 1:
            _begin_at_run_starts(repeated)
        elif most is kinds.MAXREPEAT and len(repeated) == 1 and repeated[0][0] in _ONE_BYTE:
            tree.insert(0, (kinds.ASSERT_NOT, (-1, repeated)))
