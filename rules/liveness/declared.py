"""What was declared of the watched jobs: the newest verdicts, and the states that changed."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.liveness.job_state import OBSERVED, job_state, stronger_end, unreported_end
from epicenter.rules.liveness.state import JobWatch, job_key
from epicenter.rules.liveness.verdict import (
    BUFFERED,
    CANCELLED,
    FAILED,
    FINISHED,
    HUNG,
    STRAGGLER,
    Finding,
    Verdict,
)
from epicenter.rules.model.ledger import Gap, JobEnd, JobState

MAX_KEPT_VERDICTS: Final = 1_000
MAX_KEPT_UNREAD: Final = 1_000


class Declared(msgspec.Struct):
    """The newest verdicts.

    `changed_states` are the states of jobs since they were last taken: at each change, and at each check. `unread` are
    the gaps in logs that can't be read, or whose lines were lost meanwhile.
    """

    verdicts: list[Verdict] = []
    changed_states: dict[str, JobState] = {}
    unread: dict[str, Gap] = {}

    def record_unread(self, gap: Gap, is_closed: bool) -> None:
        """Record lines that are not read; `is_closed`: they were read later, so that none is missing."""
        self.unread.pop(gap.gap_id, None)
        if not is_closed:
            self.unread[gap.gap_id] = gap
        while len(self.unread) > MAX_KEPT_UNREAD:
            del self.unread[next(iter(self.unread))]

    def take_states(self) -> list[JobState]:
        """The newest state of each job that was checked or changed since the last call."""
        taken = list(self.changed_states.values())
        self.changed_states.clear()
        return taken

    def declare(self, watch: JobWatch, finding: Finding, now_ns: int) -> Verdict:
        """Record a finding as the job's current verdict."""
        watch.verdict = finding.verdict
        if finding.verdict == HUNG and watch.progress.is_buffered:
            self.record(watch, Finding(BUFFERED, text="steps are logged in bursts: a stop is noticed late"), now_ns)
        return self.record(watch, finding, now_ns)

    def record(self, watch: JobWatch, finding: Finding, now_ns: int) -> Verdict:
        """Keep a finding as a verdict, and show the job's state."""
        recorded = Verdict.of(watch, finding, now_ns)
        if finding.verdict in (watch.verdict, STRAGGLER, FINISHED, FAILED, CANCELLED):
            watch.named_node, watch.named_rank, watch.verdict_text = finding.node, finding.rank, finding.text
        self.show(job_key(recorded.cluster, recorded.job, watch.progress.node), watch, now_ns)
        return self.keep(recorded)

    def keep(self, verdict: Verdict) -> Verdict:
        """Keep a verdict among the newest."""
        self.verdicts = [*self.verdicts[1 - MAX_KEPT_VERDICTS :], verdict]
        return verdict

    def correct_end(self, key: str, watch: JobWatch, end: JobEnd, now_ns: int) -> None:
        """A job that has ended: a later line may say better how."""
        if (stronger := stronger_end(watch.end, end)) != watch.end:
            watch.end = stronger
            self.show(key, watch, now_ns)

    def show(self, key: str, watch: JobWatch, now_ns: int) -> None:
        """Note the state of a job; a node whose lines name no job has none."""
        if watch.progress.job:
            state = self.changed_states[key] = job_state(watch, now_ns)
            watch.shown_phase = state.phase

    def show_forgotten(self, key: str, watch: JobWatch, now_ns: int) -> None:
        """Note the last state of a job that is forgotten, if it was seen running."""
        if watch.shown_phase in OBSERVED:
            self.changed_states[key] = unreported_end(watch, now_ns)
