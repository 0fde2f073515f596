"""The last written state: which messages each producer had, and how they were named, by id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.harvest.matching import Named

STATE = Path(__file__).parents[2] / "docs/source-coverage.json"


class ProducerState(msgspec.Struct, frozen=True):
    """A producer's version and the ids of its messages, in order and separated by spaces."""

    version: str
    specific: str
    shape: str
    unnamed: str

    @property
    def named(self) -> set[str]:
        """The ids of named messages."""
        return {*self.specific.split(), *self.shape.split()}

    @property
    def ids(self) -> set[str]:
        """The ids of all messages."""
        return self.named | set(self.unnamed.split())


class Changes(msgspec.Struct, frozen=True):
    """What is different from the last written state, as sorted ids."""

    since: str
    new: list[str]
    vanished: list[str]
    newly_named: list[str]
    no_longer_named: list[str]


def state_of(version: str, named: Mapping[str, Named]) -> ProducerState:
    """The state to write."""
    ids = {how: " ".join(sorted(name for name, found in named.items() if found.how == how)) for how in _HOWS}
    return ProducerState(version, **ids)


def changes(before: ProducerState | None, now: ProducerState) -> Changes | None:
    """What is different; None without a state before."""
    if before is None:
        return None
    both = before.ids & now.ids
    return Changes(
        before.version,
        sorted(now.ids - before.ids),
        sorted(before.ids - now.ids),
        sorted(both & now.named - before.named),
        sorted(both & before.named - now.named),
    )


def read_state(file: Path = STATE) -> dict[str, ProducerState]:
    """The last written state by producer; empty without a file."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, ProducerState]) if file.exists() else {}


def write_state(states: Mapping[str, ProducerState], file: Path = STATE) -> None:
    """Write the state; producers that were not read now stay as they were."""
    merged = dict(sorted({**read_state(file), **states}.items()))
    file.write_bytes(msgspec.json.format(msgspec.json.encode(merged), indent=1) + b"\n")


_HOWS = ("specific", "shape", "unnamed")
