"""The batches of a log or folder -> the story of each job, with the incidents that `epicenter replay` finds there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.detect.inputs import observed
from epicenter.rules.engine import Engine
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.triage.assessment import Circumstances
from epicenter.rules.triage.primary import RankedIncident
from epicenter.rules.triage.sections import NODES, Sections
from epicenter.rules.triage.story import Story
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner, ScanResult

Begin = Callable[[str], Story]
"""Makes the empty story of a job, or of what belongs to none, by its name in the engine."""

Section = tuple[Story, list[RankedIncident]]
"""A job, or what belongs to none, with its incidents."""


def read_sections(
    batches: Iterable[Batch],
    scanner: BatchScanner,
    rules: RuleSet,
    begin: Begin,
    circumstances: Circumstances,
    is_one_log: bool,
) -> list[Section]:
    """The jobs in the batches, by name; last, what belongs to none of them, if there is anything.

    `scanner` keeps all matches. `is_one_log`: lines that name no job belong to the only job that others name.
    """
    reading = _Reading(rules, begin)
    for scanned in BlockBuffer(scanner).scan_all(batches):
        reading.add(scanned)
    incidents = reading.incidents(circumstances)
    stories = reading.stories(is_one_log)
    return [(story, _of_job(job, incidents, stories)) for job, story in stories]


def _of_job(
    job: str, incidents: Iterable[RankedIncident], stories: Sequence[tuple[str, Story]]
) -> list[RankedIncident]:
    """The incidents of a job; for `NODES`, those that concern no job with a story."""
    if len(stories) == 1:
        return list(incidents)
    if job != NODES:
        return [found for found in incidents if job in found.incident.jobs]
    jobs = {name for name, _ in stories}
    return [found for found in incidents if jobs.isdisjoint(found.incident.jobs)]


class _Reading:
    """What was read so far, in the engine and in the stories of the jobs."""

    def __init__(self, rules: RuleSet, begin: Begin):
        self._rules = rules
        self._observed = observed(rules)
        self._engine = Engine(rules)
        self._sections = Sections(rules, begin)
        self._lines = self._dead = 0
        self._newest_ns = 0
        self._newest_ns_by_job: dict[str, int] = {}

    def add(self, scanned: ScanResult) -> None:
        """Add the results of a batch."""
        inputs = (match for match in scanned.matches if self._is_input(match.rule))
        self._engine.add(inputs, scanned.heartbeats, scanned.rank_placements, scanned.latest_ns_by_match)
        for match in sorted(scanned.matches, key=lambda match: match.event.position):
            self._sections.note(match, match.event.job)
        self._lines, self._dead = self._lines + scanned.records, self._dead + scanned.dead
        self._newest_ns = max(self._newest_ns, scanned.newest_ns or 0)
        for heartbeat in scanned.heartbeats:
            newest_ns = self._newest_ns_by_job.get(heartbeat.job, 0)
            self._newest_ns_by_job[heartbeat.job] = max(newest_ns, heartbeat.event_time_ns)

    def incidents(self, circumstances: Circumstances) -> list[RankedIncident]:
        """The final incidents as of the end of the log; of a running job, as of now."""
        changed = []
        self._engine.end_input()
        if circumstances.is_running and circumstances.now_ns is not None:
            changed += self._engine.advance(circumstances.now_ns)
        newest = {incident.incident_id: incident for incident in [*changed, *self._engine.flush()]}
        final = (incident for incident in newest.values() if not incident.merged_into)
        ranked = (RankedIncident(incident, self._engine.ranked(incident.incident_id)) for incident in final)
        return [incident for incident in ranked if incident.candidates]

    def stories(self, is_one_log: bool) -> list[tuple[str, Story]]:
        """The jobs with their stories. Call `incidents` first: by then it is known where jobs ran."""
        stories = self._sections.stories(self._engine.jobs_of, self._engine.windowed(), is_one_log)
        verdicts = {verdict.job: verdict.verdict for verdict in self._engine.verdicts()}
        for job, story in stories:
            story.lines, story.dead, story.verdict = self._lines, self._dead, verdicts.get(job, "")
            if self._newest_ns:
                story.newest_ns = max(story.newest_ns or 0, self._newest_ns)
            others = [newest_ns for other, newest_ns in self._newest_ns_by_job.items() if other != job]
            story.own_newest_ns, story.others_newest_ns = self._newest_ns_by_job.get(job), max(others, default=None)
        return stories

    def _is_input(self, rule: str) -> bool:
        """Whether the engine needs the rule's matches: they report a failure, or a rule watches or clears by them."""
        return self._rules.by_id[rule].spec.role not in QUIET_ROLES or rule in self._observed
