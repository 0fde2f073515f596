"""Signals that open no incident, kept for two hours: a later failure may be their effect."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from epicenter.rules.model.signals import TEMPLATE_FIELD, UNNAMED, Signal
from epicenter.rules.model.times import NS_PER_S

RETENTION_NS: Final = 2 * 3600 * NS_PER_S
FORGET_AFTER_NS: Final = 2 * RETENTION_NS
"""An effect may have begun as long before its line."""

MAX_KEPT_PER_KEY: Final = 16
MAX_KEPT_KEYS: Final = 20_000


class UnattachedSignals(msgspec.Struct):
    """A few signals of each key, by id: the newest, and the first of a class that repeats itself.

    The key without new signals for the longest time is forgotten first.
    """

    by_key: dict[str, dict[str, Signal]] = {}

    def add(self, signal: Signal, keys: list[str]) -> None:
        """Keep a signal under its keys."""
        for key in keys:
            of_key = self.by_key.pop(key, {})
            of_key.setdefault(signal.signal_id, signal)
            if len(of_key) > MAX_KEPT_PER_KEY:
                del of_key[_most_expendable(of_key, signal)]
            self.by_key[key] = of_key
            if len(self.by_key) > MAX_KEPT_KEYS:
                del self.by_key[next(iter(self.by_key))]

    def replace(self, signal: Signal, keys: list[str]) -> None:
        """Keep this version of a signal."""
        for key in keys:
            if signal.signal_id in self.by_key.get(key, {}):
                self.by_key[key][signal.signal_id] = signal

    def forget_before(self, oldest_ns: int) -> None:
        """Forget signals that are older."""
        for key, of_key in list(self.by_key.items()):
            recent = {name: signal for name, signal in of_key.items() if signal.event_time_ns >= oldest_ns}
            if recent:
                self.by_key[key] = recent
            else:
                del self.by_key[key]

    def under(self, keys: list[str], time_ns: int) -> list[Signal]:
        """The signals with one of these keys that are not too old at `time_ns`, each once."""
        found = {signal_id: signal for key in keys for signal_id, signal in self.by_key.get(key, {}).items()}
        return [signal for signal in found.values() if signal.event_time_ns >= time_ns - RETENTION_NS]


def _most_expendable(of_key: dict[str, Signal], newest: Signal) -> str:
    """The second of the newest signal's kind, since the first has the onset; the oldest of all if there is none."""
    of_class = (signal_id for signal_id, signal in of_key.items() if _is_alike(signal, newest))
    oldest, *others = islice(of_class, 3)
    if len(others) < 2:
        return next(iter(of_key))
    is_over = of_key[oldest].event_time_ns < newest.event_time_ns - RETENTION_NS
    return oldest if is_over else others[0]


def _is_alike(signal: Signal, other: Signal) -> bool:
    """Whether two signals are of one class; failures without a name also have one message or one origin."""
    if signal.failure_class != other.failure_class or signal.failure_class != UNNAMED:
        return signal.failure_class == other.failure_class
    is_one_origin = (signal.node, signal.rank) == (other.node, other.rank)
    return is_one_origin or signal.fields.get(TEMPLATE_FIELD) == other.fields.get(TEMPLATE_FIELD)
