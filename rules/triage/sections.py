"""Matches of a log or folder -> the story of each of its jobs, and of what belongs to no job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import QUIET_ROLES, Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.triage.story import Story

NODES = ""
"""The section of what belongs to no job: the nodes' kernels and daemons, or text without a job."""

JobsOf = Callable[[Match], Collection[str]]
"""The jobs that a match affects, by where they run."""


class Sections:
    """The stories by job. Pass the matches of a file in the order of its lines.

    A failure that names no job waits for the end, and so does the line that it is over: only then is it known which
    jobs ran on its node.
    """

    def __init__(self, rules: RuleSet, begin: Callable[[str], Story]):
        self._rules = rules
        self._begin = begin
        self._by_job: dict[str, Story] = {}
        self._of_no_job: list[Match] = []

    def note(self, match: Match, job: str) -> None:
        """Process a match of this job; empty for none."""
        spec = self._rules.of(match).spec
        if job or (spec.role in QUIET_ROLES and not spec.clears):
            self._story(job).note(match, self._rules)
        else:
            self._of_no_job.append(match)

    def stories(self, jobs_of: JobsOf, windowed: Iterable[Signal], is_one_log: bool) -> list[tuple[str, Story]]:
        """Every job with its story, by name; last, as `NODES`, what belongs to none of them, if there is anything.

        `windowed` are the signals that windows made of the matches. `is_one_log`: what names no job belongs to the only
        job that other lines name.
        """
        jobs = self._by_job.keys() - {NODES}
        otherwise = next(iter(jobs)) if is_one_log and len(jobs) == 1 else NODES
        for match in self._of_no_job:
            for job in sorted(jobs & set(jobs_of(match))) or [otherwise]:
                self._story(job).note(match, self._rules)
        self._of_no_job.clear()
        for signal in windowed:
            if signal.role not in QUIET_ROLES:
                self._story(signal.job or otherwise).note_signal(signal)
        nodes = self._by_job.pop(NODES, None)
        found = sorted(self._by_job.items())
        if nodes and (nodes.findings or not found):
            found.append((NODES, nodes))
        return found or [(NODES, self._begin(NODES))]

    def _story(self, job: str) -> Story:
        story = self._by_job.get(job)
        if story is None:
            story = self._by_job[job] = self._begin(job)
        return story
