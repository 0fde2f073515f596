"""Which signals are inputs of which window: by rule, class and fields; their groups and measured values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from epicenter.rules.detect.series import Entry
from epicenter.rules.detect.window_kinds import MISSING
from epicenter.rules.model.heartbeats import Advanced, Step
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.signals import (
    BOOT_RULE,
    HANDLED_RULE,
    POD_STOPPED_RULE,
    SHELL_RULE,
    UNKNOWN_FAILURE_RULE,
    Signal,
)
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.names import STEP, ids_of, is_rule_id, rules_named
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import is_named
from epicenter.rules.packs.windows import WhenSpec

MAX_VALUE_LENGTH: Final = 200
"""Longer texts of fields are cut before they are compared or stored."""

MAX_KINDS: Final = 10_000
"""The windows of at most this many pairs of rule and class are cached."""


_COMPARED = re.compile(r"(<=|>=|<|>|!=) *(.*)")
_NUMBER = re.compile(r"[+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?")


_ORIGIN: Final[Mapping[str, Callable[[Signal], object]]] = MappingProxyType(
    {name: attrgetter(name) for name in ("cluster", "node", "source", "job", "rank", "gpu", "rule")}
    | {"class": attrgetter("failure_class")}
)
"""What windows read of an input's origin, by the name that they use."""


class Router:
    """Finds the windows that an input belongs to; `terms` are places in the names of `of`, -1 for `without`."""

    def __init__(self, rules: RuleSet):
        self._by_rule: dict[str, list[tuple[Rule, int]]] = {}
        self._classes: list[tuple[str, tuple[Rule, int]]] = []
        self._places_by_kind: dict[tuple[str, str], list[tuple[Rule, int]]] = {}
        for rule in rules.rules:
            if rule.spec.when:
                self._register(rules, rule, rule.spec.when)

    def accepts(self, signal: Signal) -> bool:
        """Whether any window has such signals as input; few have."""
        return bool(self._places(signal.rule, signal.failure_class))

    def windows_of(self, signal: Signal) -> Iterator[tuple[Rule, int]]:
        """Each window of the input, once, with the first of its names that fits."""
        found = set()
        for rule, term in self._places(signal.rule, signal.failure_class):
            if rule.spec.id not in found and rule.spec.when and fits(rule.spec.when, term, signal):
                found.add(rule.spec.id)
                yield rule, term

    def _places(self, rule_id: str, failure_class: str) -> list[tuple[Rule, int]]:
        kind = rule_id, failure_class
        places = self._places_by_kind.get(kind)
        if places is None:
            if len(self._places_by_kind) >= MAX_KINDS:
                self._places_by_kind.clear()
            of_class = [place for wanted, place in self._classes if is_named(failure_class, (wanted,))]
            unordered = [*self._by_rule.get(rule_id, ()), *of_class]
            places = sorted(unordered, key=lambda place: (place[0].spec.id, place[1]))
            self._places_by_kind[kind] = places
        return places

    def _register(self, rules: RuleSet, rule: Rule, when: WhenSpec) -> None:
        for name, term in terms(when):
            if is_rule_id(name):
                for rule_id in ids_of(rules, name):
                    self._by_rule.setdefault(rule_id, []).append((rule, term))
            else:
                self._classes.append((name, (rule, term)))


def terms(when: WhenSpec) -> list[tuple[str, int]]:
    """The names of a window's inputs, each once, with their terms."""
    return [(name, term) for term, name in enumerate(dict.fromkeys(when.of))] + [
        (name, MISSING) for name in when.without
    ]


def observed(rules: RuleSet) -> frozenset[str]:
    """The rules whose matches are needed even if they report no failure.

    A window watches them, they clear a failure, the store records them, they are compared over a job's nodes, or they
    show that a node boots, that Kubernetes stops a pod, that a program continues after an error, that a person has
    a shell, or that a driver reports a failure that no other rule knows.
    """
    whens = [rule.spec.when for rule in rules.rules if rule.spec.when]
    watched = {rule.spec.id for when in whens for name, _ in terms(when) for rule in rules_named(rules, name)}
    needed = (spec.id for rule in rules.all_rules if (spec := rule.spec).clears or spec.recorded_as or spec.compared)
    return frozenset(
        watched | set(needed) | {BOOT_RULE, HANDLED_RULE, UNKNOWN_FAILURE_RULE, POD_STOPPED_RULE, SHELL_RULE}
    )


def step_signal(heartbeat: Step | Advanced, last_step: int | None, last_ns: int) -> Signal:
    """The input `step`: a job advanced. `last_step` is None if the job began or went back: then no `step_time_s`."""
    step = heartbeat.step if isinstance(heartbeat, Step) else None
    fields = {"step": str(step)}
    if step is not None and last_step is not None and last_step < step and heartbeat.event_time_ns > last_ns:
        fields["step_time_s"] = f"{(heartbeat.event_time_ns - last_ns) / (step - last_step) / NS_PER_S:.6g}"
    return Signal(
        signal_id=stable_id(STEP, heartbeat.cluster, heartbeat.job, heartbeat.node, step, heartbeat.event_time_ns),
        rule=STEP,
        failure_class=STEP,
        severity="info",
        role="progress",
        event_time_ns=heartbeat.event_time_ns,
        onset_ns=heartbeat.event_time_ns,
        cluster=heartbeat.cluster,
        node="" if heartbeat.job else heartbeat.node,
        source="worker",
        job=heartbeat.job,
        rank=None,
        gpu="",
        text=f"step {step}",
        position=None,
        fields=fields,
    )


def value_of(signal: Signal, field: str) -> str:
    """The text of one of the input's fields; its own fields win over those of its origin."""
    if field in signal.fields:
        return signal.fields[field][:MAX_VALUE_LENGTH]
    of_origin = _ORIGIN.get(field)
    value = of_origin(signal) if of_origin else None
    return "" if value is None else str(value)[:MAX_VALUE_LENGTH]


def fits(when: WhenSpec, term: int, signal: Signal) -> bool:
    """Whether the conditions of `where` hold; they do not apply to the names in `without`."""
    return term == MISSING or all(
        any(_holds(value_of(signal, field), condition) for condition in wanted) for field, wanted in when.where.items()
    )


def _holds(text: str, condition: str) -> bool:
    compared = _COMPARED.fullmatch(condition)
    if not compared:
        return text == condition
    sign, wanted = compared[1], compared[2]
    if sign == "!=":
        return text != wanted
    number, limit = number_in(text), number_in(wanted)
    if number is None or limit is None:
        return False
    return {"<": number < limit, "<=": number <= limit, ">": number > limit, ">=": number >= limit}[sign]


def number_in(text: str) -> float | None:
    """A number as logs print it, with or without commas between thousands; None if the text is not a number."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace(",", ""))
    return number if math.isfinite(number) else None


def group_of(when: WhenSpec, signal: Signal) -> list[str] | None:
    """The values that the input is grouped by; None if it has none of them."""
    values = [value_of(signal, field) for field in when.group_by]
    return values if any(values) or not values else None


def entry_of(when: WhenSpec, term: int, signal: Signal) -> tuple[Entry, str] | None:
    """The input as an entry, and the name of the field that was read; None if it lacks the window's fields."""
    if not when.field or term == MISSING:
        return Entry(signal.event_time_ns, signal.signal_id, signal.onset_ns, term), ""
    place = next((place for place, field in enumerate(when.field) if value_of(signal, field)), None)
    if place is None:
        return None
    value = value_of(signal, when.field[place])
    if when.kind in ("distinct", "first-seen"):
        return Entry(signal.event_time_ns, signal.signal_id, signal.onset_ns, term, value), ""
    number, less = number_in(value), number_in(value_of(signal, when.minus[place])) if when.minus else 0.0
    if number is None or less is None:
        return None
    entry = Entry(signal.event_time_ns, signal.signal_id, signal.onset_ns, term, "", number - less)
    return entry, when.field[place]
