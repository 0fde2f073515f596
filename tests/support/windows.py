"""Windows over made-up inputs, without any pack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from epicenter.rules.detect.detectors import Detectors, DetectorState
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import RuleSpec
from tests.support.logs import START_S, at
from tests.support.signals import a_signal

A_WINDOW = {
    "id": "test.window",
    "title": "A window",
    "class": "window",
    "source": "any",
    "severity": "error",
    "role": "root",
    "entity": "job",
    "meaning": "For tests.",
}


def a_window(rule_id: str = "test.window", **when: Any) -> Rule:
    """A rule on the signals of other rules."""
    return Rule(
        RuleSpec.model_validate(
            A_WINDOW | {"id": rule_id, "class": rule_id.partition(".")[2].replace("_", "-"), "when": when}
        )
    )


def detectors(*windows: Rule) -> Detectors:
    """The windows, with nothing seen yet."""
    return Detectors(RuleSet(windows, ()), DetectorState())


def an_input(second: float, failure_class: str = "a", node: str = "n1", copy: int = 0, **more: Any) -> Signal:
    """One match of a class; its `fields` are keyword arguments."""
    fields = {name: str(value) for name, value in more.items()}
    identity = stable_id(failure_class, node, second, sorted(fields.items()), copy)
    return a_signal(failure_class, second, node, signal_id=identity, fields=fields)


def made_of(
    windows: Iterable[Rule], inputs: Iterable[Signal], until: float = 0, restarts: bool = False
) -> list[Signal]:
    """The signals of the windows for the inputs, in order of time; timers fire up to the second `until`."""
    rules = RuleSet(tuple(windows), ())
    state = DetectorState()
    made: list[Signal] = []
    for signal in sorted(inputs, key=lambda signal: (signal.event_time_ns, signal.signal_id)):
        made += _fired_until(rules, state, signal.event_time_ns - 1)
        made += Detectors(rules, state).on_signal(signal)
        if restarts:
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=DetectorState)
    return [*made, *_fired_until(rules, state, at(until))]


def _fired_until(rules: RuleSet, state: DetectorState, upto_ns: int) -> list[Signal]:
    made: list[Signal] = []
    watching = Detectors(rules, state)
    while (due_ns := watching.next_due_ns) is not None and due_ns <= upto_ns:
        made += watching.fire(due_ns)
    return made


def seconds(made: Iterable[Signal]) -> list[tuple[float, float]]:
    """(event time, onset) of each signal."""
    return [(_second(signal.event_time_ns), _second(signal.onset_ns)) for signal in made]


def _second(time_ns: int) -> float:
    return time_ns / 1e9 - START_S
