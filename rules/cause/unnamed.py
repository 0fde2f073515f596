"""Which failures without a name may be behind a stop: those of whom the others wait for, or of the first to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import structs

from epicenter.rules.cause.reasons import Reason, ReasonKind
from epicenter.rules.cause.suspects import WAITING_CLASSES, Suspects
from epicenter.rules.cause.witnesses import Accused
from epicenter.rules.model.signals import CLOCK_SKEW_NS, ENDS, ERRORS, UNNAMED, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.model.unusual import Unusual

if TYPE_CHECKING:
    from epicenter.rules.cause.ranking import Candidate

RIGHT_BEFORE_NS: Final = 60 * NS_PER_S
"""Where nothing says whom the others wait for, a line explains what stopped within this time."""

_DEATHS: Final = ENDS | {"unknown-death"}
_STANDSTILLS: Final = frozenset((*WAITING_CLASSES, "straggler"))
_NO_CAUSE_ROLES: Final = ("confirmation", "teardown", "advice")


class Stop:
    """How the jobs of these signals stopped."""

    def __init__(self, signals: Sequence[Signal], suspects: Suspects | None, lost: Accused | None):
        self._signals, self._suspects, self._lost = signals, suspects, lost

    def may_follow(self, line: Signal, effect: Signal) -> bool:
        """Whether a line that no rule names may explain an effect of its job."""
        if line.event_time_ns > effect.event_time_ns + CLOCK_SKEW_NS:
            return False
        if self._suspects and (line.rank is not None or (line.node and self._suspects.node)):
            return self._suspects.accuse(line)
        if self._lost and line.node:
            return line.node == self._lost.node
        is_plain_stop = effect.failure_class in _DEATHS or effect.failure_class == "hang"
        is_right_before = effect.onset_ns - line.onset_ns <= RIGHT_BEFORE_NS
        return is_plain_stop and is_right_before and self._is_of_the_first(line)

    def with_time(self, unusual: Unusual, line: Signal) -> Unusual:
        """With the time from the line until the stop."""
        onsets_ns = [stop.onset_ns for stop in self._stops if stop.job == line.job]
        until_stop_s = (min(onsets_ns) - line.event_time_ns) // NS_PER_S if onsets_ns else None
        return structs.replace(unusual, until_stop_s=until_stop_s)

    @cached_property
    def _stops(self) -> list[Signal]:
        return [signal for signal in self._signals if signal.failure_class in _DEATHS | _STANDSTILLS]

    @cached_property
    def _first(self) -> list[Signal]:
        """The deaths whose place is known, and before which no other one was, as far as clocks can tell."""
        placed = [stop for stop in self._stops if _is_placed_death(stop)]
        until_ns = min((stop.onset_ns for stop in placed), default=0) + CLOCK_SKEW_NS
        return [stop for stop in placed if stop.onset_ns <= until_ns]

    def _is_of_the_first(self, line: Signal) -> bool:
        return not self._first or any(_may_be_of(line, stop) for stop in self._first)


def _is_placed_death(signal: Signal) -> bool:
    is_death = signal.failure_class in _DEATHS or signal.position is None
    return is_death and (signal.rank is not None or signal.node != "")


def _may_be_of(line: Signal, stop: Signal) -> bool:
    if line.job != stop.job:
        return False
    if line.rank is not None and stop.rank is not None:
        return line.rank == stop.rank
    return line.node in ("", stop.node) or not stop.node


def weigh_unusual(candidate: Candidate, unusual: Mapping[str, Unusual], stop: Stop) -> None:
    """Add how unusual a line is that no rule names, if that is known. It only orders such lines among themselves."""
    known = unusual.get(candidate.signal.signal_id)
    if known and candidate.signal.failure_class == UNNAMED:
        candidate.reasons.append(Reason(ReasonKind.UNUSUAL, 0, stop.with_time(known, candidate.signal)))


def named_first(ordered: Sequence[Candidate], unusual: Mapping[str, Unusual]) -> list[Candidate]:
    """The candidates with those without a name, the most unusual first, after every named cause."""
    rarest_first = iter(sorted(filter(_has_no_name, ordered), key=lambda candidate: _order(candidate, unusual)))
    ranked = [next(rarest_first) if _has_no_name(candidate) else candidate for candidate in ordered]
    last = max((place for place, candidate in enumerate(ranked) if _is_named_cause(candidate)), default=-1)
    return [*sorted(ranked[: last + 1], key=_has_no_name), *ranked[last + 1 :]]


def _has_no_name(candidate: Candidate) -> bool:
    return candidate.signal.failure_class == UNNAMED


def _order(candidate: Candidate, unusual: Mapping[str, Unusual]) -> tuple[object, ...]:
    known = unusual.get(candidate.signal.signal_id)
    is_blamed = any(reason.kind in (ReasonKind.AWAITED, ReasonKind.NAMED_BY_PEERS) for reason in candidate.reasons)
    return candidate.is_idle, not is_blamed, known.order if known else (True,)


def _is_named_cause(candidate: Candidate) -> bool:
    """Whether a rule names it as an error that is no mere stop, wait or lost connection, or effect of one without."""
    signal, cause = candidate.signal, candidate.explained_by
    is_effect = signal.failure_class in _DEATHS | _STANDSTILLS or (cause and cause.failure_class == UNNAMED)
    is_loss = any(reason.kind is ReasonKind.LOST_ANOTHER for reason in candidate.reasons)
    is_error = signal.severity in ERRORS and signal.role not in _NO_CAUSE_ROLES and signal.position is not None
    return is_error and signal.failure_class != UNNAMED and not (candidate.is_idle or is_effect or is_loss)
