"""The next steps of a rule for one failure: the commands in them name its node, job, GPU and fields."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.steps import with_places
from epicenter.rules.report.commands import is_node

MAX_VALUE_LENGTH: Final = 200
_NAMES_ONLY: Final = ("node", "pod")


def filled_steps(steps: Sequence[str], signal: Signal) -> tuple[str, ...]:
    """The steps with the placeholders of their commands filled in, quoted for the shell; unknown ones in capitals."""
    values = _values(signal)
    return tuple(with_places(step, lambda name: _argument(name, values.get(name, ""))) for step in steps)


def _values(signal: Signal) -> Mapping[str, str]:
    return {
        **signal.fields,
        "node": signal.node,
        "job": signal.job if is_named_job(signal.job) else "",
        "gpu": f"{signal.gpu}.0" if signal.gpu else "",
        "rank": "" if signal.rank is None else str(signal.rank),
    }


def _argument(name: str, value: str) -> str:
    is_safe = is_node(value) if name in _NAMES_ONLY else _is_harmless(value)
    return shlex.quote(value) if is_safe else name.upper()


def _is_harmless(value: str) -> bool:
    """Whether it is printable on one line, no option, and within a command's backticks."""
    return 0 < len(value) <= MAX_VALUE_LENGTH and value.isprintable() and value[0] != "-" and "`" not in value
