"""Placeholders in the commands of a rule's next steps: `{node}` between backticks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from epicenter.rules.packs.headline import fields_a_rule_reads
from epicenter.rules.packs.spec import RuleSpec

OF_EVERY_STEP: Final = ("node", "job", "gpu", "rank", "pod")
"""What a command may name in addition to the rule's fields. `gpu` is a PCI address, as `nvidia-smi -i` takes it."""

_COMMAND = re.compile(r"`([^`]*)`")
_PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")


def with_places(step: str, value_of: Callable[[str], str]) -> str:
    """The step with each placeholder of its commands replaced."""
    return _COMMAND.sub(lambda command: _PLACE.sub(lambda place: value_of(place[1]), command[0]), step)


def step_faults(spec: RuleSpec, steps: Sequence[str]) -> Iterator[str]:
    """Placeholders that can't be filled in, and what to write instead."""
    yield from place_faults(steps, fields_a_rule_reads(spec) | set(OF_EVERY_STEP))


def place_faults(steps: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Placeholders that are none of the names, or that are not bare."""
    known = sorted(names)
    for step in steps:
        for command in _COMMAND.findall(step):
            for place in _PLACE.finditer(command):
                if place[1] not in known:
                    yield f"{place[0]}: unknown in the command {command!r}: write one of {', '.join(known)}"
                elif not _is_bare(command[: place.start()]):
                    yield (
                        f"{place[0]}: within quotes, or after a backslash or $, in the command {command!r}: write it "
                        "bare; what fills it in is quoted already"
                    )


def _is_bare(before: str) -> bool:
    try:
        shlex.split(before)
    except ValueError:
        return False
    return not before.endswith("$")
