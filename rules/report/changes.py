"""Incidents that changed, and their documents: progress, earlier attempts and context are those of the change."""

from __future__ import annotations

from collections.abc import Iterable

from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.suspects import strongest_suspects
from epicenter.rules.correlate.attempts import Attempt
from epicenter.rules.correlate.lifecycle import Lifecycle
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.event_time.skew import ClockSkew
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.incident import Incident, Progress
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.report.context import context_of, record_onset
from epicenter.rules.report.report import attempt_of, progress_report, ranked_signals, report, weighed


class ChangedIncidents:
    """Collects the incidents that changed until `reports` returns them. `rules` may be replaced at any time."""

    def __init__(self, rules: RuleSet, lifecycle: Lifecycle, liveness: LivenessWatch, skew: ClockSkew):
        self.rules = rules
        self._lifecycle = lifecycle
        self._liveness = liveness
        self._skew = skew
        self._changed: dict[str, IncidentState] = {}
        self._without_progress: dict[str, IncidentState] = {}

    def mark(self, incidents: Iterable[IncidentState]) -> None:
        """These incidents changed: each gets its next revision."""
        for incident in incidents:
            incident.revision += 1
            self._without_progress[incident.incident_id] = incident
            if not incident.jobs <= incident.at_onset.keys():
                record_onset(incident, self._lifecycle.correlator.placement, self._liveness, self._skew)
            if incident.revision == 1:
                jobs = [f"{incident.cluster}/{job}" for job in incident.jobs]
                incident.earlier = self._lifecycle.attempts.before(jobs, incident.incident_id, incident.last_seen_ns)
            self._changed[incident.incident_id] = incident

    def record_progress(self) -> None:
        """Record the progress of the jobs of incidents that just changed; call it before progress advances."""
        for incident in self._without_progress.values():
            incident.progress = self._progress_of(incident)
        self._without_progress.clear()

    def attempt_of(self, incident: IncidentState, time_ns: int) -> Attempt:
        """The run that the incident ended."""
        return attempt_of(incident, time_ns, self.rules, self._context_of(incident))

    def ranked(self, incident_id: str) -> list[Candidate]:
        """The signals of an open or recently resolved incident, the likeliest cause first; else none."""
        correlator = self._lifecycle.correlator
        if (incident := correlator.open.get(incident_id) or correlator.resolved.get(incident_id)) is None:
            return []
        context = self._context_of(incident)
        return ranked_signals(incident, self.rules, strongest_suspects(incident.collectives, context), context)

    def weighed(self, incident_id: str) -> tuple[list[Candidate], frozenset[str]]:
        """The answers of an open or recently resolved incident, the likeliest first, and its doubts; else none."""
        correlator = self._lifecycle.correlator
        if (incident := correlator.open.get(incident_id) or correlator.resolved.get(incident_id)) is None:
            return [], frozenset()
        return weighed(incident, self.rules, self._context_of(incident))

    def reports(self) -> list[Incident]:
        """The documents of the incidents that changed since the last call, without pending ones."""
        self.record_progress()
        changed, self._changed = self._changed, {}
        due = [incident for incident in changed.values() if not incident.pending_until_ns]
        return [report(incident, self.rules, self._context_of(incident)) for incident in due]

    def _context_of(self, incident: IncidentState) -> IncidentContext:
        return context_of(incident, self._lifecycle.correlator.placement, self._liveness)

    def _progress_of(self, incident: IncidentState) -> dict[str, Progress]:
        found = {job: self._liveness.progress(incident.cluster, job) for job in incident.jobs}
        return {job: progress_report(progress) for job, progress in sorted(found.items()) if progress}
