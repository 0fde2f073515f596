"""Which incident of the engine explains how a job ended, and what does if there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.cause.survival import was_over_soon
from epicenter.rules.model.incident import Incident, Resolution
from epicenter.rules.model.signals import ERRORS, Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.story import Story


@dataclass(frozen=True)
class RankedIncident:
    """An incident of the engine, with its signals, the likeliest cause first."""

    incident: Incident
    candidates: Sequence[Candidate]

    @property
    def cause(self) -> Signal:
        """The signal that explains the others."""
        return self.candidates[0].signal

    @property
    def is_open(self) -> bool:
        """Whether nothing ended it."""
        return self.incident.status == "open"

    @property
    def is_over(self) -> bool:
        """Whether later steps or a line show its end: that no line repeats it for an hour does not."""
        return self.incident.resolved_by in (Resolution.PROGRESS, Resolution.CLEARED)

    @property
    def was_over_soon(self) -> bool:
        """Whether a line says of everything in it, soon after, that it works again."""
        return self.is_over and all(was_over_soon(candidate.signal) for candidate in self.candidates)

    def concerns(self, jobs: Collection[str]) -> bool:
        """Whether a line of these jobs, or a verdict on them, is part of it: not only the kernels of their nodes."""
        return any(candidate.signal.job in jobs for candidate in self.candidates)

    def errors_of(self, jobs: Collection[str]) -> Iterator[Signal]:
        """The lines of these jobs' processes that report an error, other than that they were cancelled."""
        for signal in (candidate.signal for candidate in self.candidates if not candidate.is_idle):
            is_own = signal.position and signal.job in jobs and signal.source != "kernel"
            if is_own and signal.severity in ERRORS and not is_ending(signal):
                yield signal


def is_cancellation(failure_class: str) -> bool:
    """Whether the class means only that the job was cancelled."""
    return "cancelled" in (failure_class, vocabulary().parent(failure_class))


def is_ending(signal: Signal) -> bool:
    """Whether the line only belongs to the end of a job: it was cancelled, or it shuts down."""
    return signal.role == "teardown" or is_cancellation(signal.failure_class)


def decisive(
    incidents: Sequence[RankedIncident], jobs: Collection[str], are_steps_known: bool
) -> RankedIncident | None:
    """The incident that stopped these jobs: about the jobs themselves rather than their nodes, the earliest.

    Where steps are known, the job never went on after one that is not over. Elsewhere an open one comes first. Without
    jobs, one that is over counts too, if that took a while: it is still what the log shows.
    """
    lasting = [] if jobs else [found for found in incidents if not found.was_over_soon]
    unresolved = [found for found in incidents if not found.is_over] or lasting

    def order(found: RankedIncident) -> tuple[bool, bool, str]:
        is_quiet = not found.is_open and not are_steps_known
        return not found.concerns(jobs), is_quiet, found.incident.first_seen

    return min(unresolved, key=order, default=None)


def likeliest(story: Story, signals: Sequence[Signal], rules: RuleSet) -> list[Candidate]:
    """Signals that made no incident as candidates, the likeliest first."""
    return rank(signals, rules.edges_between, lambda _: {story.path}, rules.cause_model) if signals else []
