"""All windows of a rule set: signals in, in event-time order; signals of windows out."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from epicenter.rules.detect.inputs import Router, entry_of, group_of
from epicenter.rules.detect.series import Series
from epicenter.rules.detect.window_kinds import MEASURED, Finding, fire, is_idle, process
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.windows import WhenSpec

MAX_KEPT_SERIES: Final = 20_000
MAX_KEPT_ENTRIES: Final = 200_000
MAX_TEXT_LENGTH: Final = 1000
_KEY_BREAK: Final = "\x1f"
_PLACE = re.compile(r"\{([a-z_]+)\}")


class DetectorState(msgspec.Struct):
    """The state of all windows, by group. Bounded: 20,000 groups and 200,000 entries.

    Beyond that, the group without inputs for the longest time is dropped, and counted in `evicted`. `timers` has at
    most one valid timer for each group. `shapes` has, for each rule, the window that its groups belong to.
    """

    series: dict[str, Series] = {}
    entries: int = 0
    timers: list[tuple[int, str]] = []
    began_ns: int | None = None
    evicted: int = 0
    shapes: dict[str, str] = {}


class Detectors:
    """The windows of a rule set, over a state that snapshots include."""

    def __init__(self, rules: RuleSet, state: DetectorState):
        self._rules = rules
        self._state = state
        self._router = Router(rules)
        self._forget_changed()

    @property
    def next_due_ns(self) -> int | None:
        """When the next timer fires if no input comes before; None without a timer."""
        return self._state.timers[0][0] if self._state.timers else None

    @property
    def evicted(self) -> int:
        """How many groups were dropped for lack of room."""
        return self._state.evicted

    def on_signal(self, signal: Signal) -> list[Signal]:
        """Process a signal; return the signals that it completes, inputs of others first."""
        if self._state.began_ns is None:
            self._state.began_ns = signal.event_time_ns
        made: list[Signal] = []
        if not self._router.accepts(signal):
            return made
        waiting = deque([signal])
        while waiting:
            next_input = waiting.popleft()
            found = [
                new for rule, term in self._router.windows_of(next_input) if (new := self._add(rule, term, next_input))
            ]
            made += found
            waiting += found
        return made

    def fire(self, due_ns: int) -> list[Signal]:
        """Fire the timers up to `due_ns`; return their signals, and what those complete."""
        made = []
        while self._state.timers and self._state.timers[0][0] <= due_ns:
            made += self._ring(*heappop(self._state.timers))
        return made

    def forget_old(self, now_ns: int, ended: Collection[str]) -> None:
        """Drop the groups that hold nothing for inputs from now on, and what was measured of jobs that `ended`."""
        state = self._state
        for key in [key for key, series in state.series.items() if self._is_old(series, now_ns, ended)]:
            state.entries -= len(state.series.pop(key).entries)

    def _is_old(self, series: Series, now_ns: int, ended: Collection[str]) -> bool:
        when = _when(self._rules.by_id[series.rule])
        job = dict(zip(when.group_by, series.values, strict=True)).get("job")
        has_ended = when.kind in MEASURED and f"{series.cluster}/{job}" in ended
        return has_ended or is_idle(when, series, now_ns)

    def _forget_changed(self) -> None:
        """Drop the groups of windows that no longer exist or whose definition has changed."""
        state = self._state
        shapes = {
            rule.spec.id: stable_id(_when(rule).model_dump_json()) for rule in self._rules.rules if rule.spec.when
        }
        changed = {rule_id for rule_id, shape in state.shapes.items() if shapes.get(rule_id) != shape}
        for key in [key for key, series in state.series.items() if series.rule in changed]:
            state.entries -= len(state.series.pop(key).entries)
        state.timers[:] = [timer for timer in state.timers if timer[1] in state.series]
        heapify(state.timers)
        state.shapes = shapes

    def _add(self, rule: Rule, term: int, signal: Signal) -> Signal | None:
        when = _when(rule)
        values, found = group_of(when, signal), entry_of(when, term, signal)
        if values is None or found is None:
            return None
        entry, field = found
        key = _KEY_BREAK.join((rule.spec.id, signal.cluster, *values, field))
        series = self._touched(key, rule, signal, values)
        before, is_copy = len(series.entries), series.has(entry)
        finding = process(when, series, entry)
        if not is_copy and (not series.entries or series.entries[-1] == entry):
            series.text, series.position = signal.text[:MAX_TEXT_LENGTH], signal.position
        self._state.entries += len(series.entries) - before
        self._set_timer(key, series)
        self._evict()
        return _signal(rule, series, finding, finding.entries[-1].time_ns) if finding else None

    def _touched(self, key: str, rule: Rule, signal: Signal, values: list[str]) -> Series:
        """The group, created if necessary, moved to the newest end."""
        series = self._state.series.pop(key, None)
        if series is None:
            looks_back = _when(rule).kind == "absence"
            began_ns = self._state.began_ns if looks_back else None
            series = Series(
                rule.spec.id, signal.cluster, values, signal.event_time_ns if began_ns is None else began_ns
            )
        self._state.series[key] = series
        return series

    def _set_timer(self, key: str, series: Series) -> None:
        if series.due_ns is not None and (series.timer_ns is None or series.due_ns < series.timer_ns):
            series.timer_ns = series.due_ns
            heappush(self._state.timers, (series.due_ns, key))

    def _ring(self, due_ns: int, key: str) -> list[Signal]:
        series = self._state.series.get(key)
        if series is None or series.timer_ns != due_ns:
            return []
        series.timer_ns = None
        rule = self._rules.by_id.get(series.rule)
        if rule is None or rule.spec.when is None:
            series.due_ns = None
        if rule is None or rule.spec.when is None or series.due_ns != due_ns:
            self._set_timer(key, series)
            return []
        before = len(series.entries)
        finding = fire(rule.spec.when, series)
        self._state.entries += len(series.entries) - before
        if finding is None:
            return []
        signal = _signal(rule, series, finding, due_ns)
        return [signal, *self.on_signal(signal)]

    def _evict(self) -> None:
        state = self._state
        while len(state.series) > MAX_KEPT_SERIES or (state.entries > MAX_KEPT_ENTRIES and len(state.series) > 1):
            series = state.series.pop(next(iter(state.series)))
            state.entries -= len(series.entries)
            state.evicted += 1


def _when(rule: Rule) -> WhenSpec:
    assert rule.spec.when is not None
    return rule.spec.when


def _signal(rule: Rule, series: Series, finding: Finding, time_ns: int) -> Signal:
    """The signal of a condition, about its group; its block is the group's newest line."""
    spec, when = rule.spec, _when(rule)
    group = dict(zip(when.group_by, series.values, strict=True))
    first, last = finding.entries[0], finding.entries[-1]
    onset_ns = min(entry.onset_ns for entry in finding.entries)
    figures = finding.figures | {"span_s": (time_ns - onset_ns) / NS_PER_S}
    fields = group | {name: f"{figure:.6g}" for name, figure in figures.items()}
    rank = group.get("rank", "")
    return Signal(
        signal_id=stable_id(
            "window", spec.id, series.cluster, *series.values, first.signal_id, last.signal_id, time_ns
        ),
        rule=spec.id,
        failure_class=spec.failure_class,
        severity=spec.severity,
        role=spec.role,
        event_time_ns=time_ns,
        onset_ns=onset_ns,
        cluster=series.cluster,
        node=group.get("node", ""),
        source=spec.source,
        job=group.get("job", ""),
        rank=int(rank) if rank.isascii() and rank.isdigit() else None,
        gpu=group.get("gpu", ""),
        text=_text(rule, fields),
        position=series.position,
        fields=fields,
        block=(series.text,) if series.position else (),
    )


def _text(rule: Rule, fields: Mapping[str, str]) -> str:
    template = _when(rule).text or f"{rule.spec.title}: {{count}} in {{span_s}} s"
    return _PLACE.sub(lambda place: fields.get(place[1], ""), template)[:MAX_TEXT_LENGTH]
