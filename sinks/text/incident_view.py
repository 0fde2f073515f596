"""The view of an incident that every rendering uses: short, sanitized texts without markup. Pure."""

from __future__ import annotations

import msgspec

from epicenter.rules.model.incident import ChainLink, Incident
from epicenter.sinks.text import humanize
from epicenter.sinks.text.incident_parts import (
    CauseView,
    ChangeView,
    CheckView,
    CommandView,
    EvidenceView,
    LinkView,
    ProgressView,
    recurrence_of,
)
from epicenter.sinks.text.sanitize import sanitize


class IncidentView(msgspec.Struct, frozen=True):
    """An incident as text. Properties are computed on access; lists keep the incident's order."""

    incident: Incident

    @property
    def title(self) -> str:
        """What failed, in one line."""
        return sanitize(self.incident.title)

    @property
    def place(self) -> str:
        """The place of the root cause: `node0002 · GPU 0000:52:00 · rank 10`."""
        root = self.incident.root_cause
        return sanitize(humanize.place(root.node, root.gpu, root.rank))

    @property
    def cause(self) -> CauseView:
        """The root cause."""
        return CauseView.of(self.incident.root_cause)

    @property
    def candidates(self) -> tuple[CauseView, ...]:
        """The ranked causes, the root cause first; empty in documents of older versions."""
        return tuple(map(CauseView.of, self.incident.candidates))

    @property
    def cause_line(self) -> str:
        """The root cause's log line verbatim: from its node, else of its class; empty if there is none."""
        root = self.incident.root_cause
        lines = [line for line in self.incident.evidence if line.failure_class == root.failure_class]
        text = next((line.text for line in lines if line.node == root.node), lines[0].text if lines else "")
        return sanitize(text, multiline=True)

    @property
    def sureness(self) -> str:
        """The confidence as a phrase: `likely`."""
        return humanize.sureness(self.incident.root_cause.confidence)

    @property
    def headline(self) -> str:
        """One sentence: what came first, where and when, and how it caused the rest."""
        root, how = self.incident.root_cause, self._how
        onset = next((link.onset for link in self.incident.chain if link.role == "root"), "")
        began_ns = humanize.ns(onset)
        when = f" at {humanize.clock(began_ns)} UTC" if began_ns is not None else ""
        first = f"{root.failure_class}{humanize.where(root.node)} {self._hedge}came first{when}"
        return sanitize(first + (f": {how}." if how else "."))

    @property
    def summary(self) -> str:
        """A paragraph: the cause with its confidence, the start, the impact and the current state."""
        root, blast = self.incident.root_cause, self.incident.blast_radius
        place = humanize.where(root.node, root.gpu, root.rank)
        confidence = humanize.percent(root.confidence)
        found = f"The cause is {self._hedge}{root.failure_class}{place} (confidence {confidence})"
        first_seen = self.incident.first_seen
        began = f"It started at {humanize.date_and_clock(first_seen)} UTC" if first_seen else "Its times are not known"
        counts = (
            humanize.count(blast.nodes, "node"),
            humanize.count(blast.ranks, "rank"),
            humanize.count(blast.jobs, "job"),
        )
        affected = "It affects {}, {} and {}".format(*counts)
        return sanitize(f"{found}. {began}. {affected}. {self._state}")

    @property
    def reach(self) -> str:
        """`15 nodes, 113 ranks, 120 GPUs`; zero counts are left out."""
        return humanize.reach(self.incident.blast_radius)

    @property
    def reach_in_full(self) -> str:
        """`1 node, 0 ranks, 1 job, 8 GPUs`."""
        return humanize.reach_in_full(self.incident.blast_radius)

    @property
    def lost(self) -> str:
        """The cost: `23.6 GPU-hours, 120 steps`; empty if unknown."""
        return humanize.lost(self.incident.cost)

    @property
    def lost_since(self) -> str:
        """The cost, with the checkpoint from which the work must be repeated."""
        return humanize.lost_since(self.incident.cost)

    @property
    def chain(self) -> tuple[LinkView, ...]:
        """The links of the causal chain: the root cause before all that was logged after it began."""
        root_ns = next((humanize.ns(link.onset) for link in self.incident.chain if link.role == "root"), None)

        def place(link: ChainLink) -> int:
            logged_ns = humanize.ns(link.event_time)
            is_earlier = root_ns is not None and logged_ns is not None and logged_ns < root_ns
            return 0 if is_earlier else 1 if link.role == "root" else 2

        return tuple(map(LinkView.of, sorted(self.incident.chain, key=place)))

    @property
    def evidence(self) -> tuple[EvidenceView, ...]:
        """The log lines, those of the root cause first."""
        lines = (EvidenceView.of(line, self.incident.root_cause) for line in self.incident.evidence)
        return tuple(sorted(lines, key=lambda line: not line.is_root))

    @property
    def missing(self) -> tuple[str, ...]:
        """Evidence that was expected but is missing."""
        return tuple(map(sanitize, self.incident.missing))

    @property
    def next_steps(self) -> tuple[str, ...]:
        """The recommended steps, in order."""
        return tuple(map(sanitize, self.incident.next_steps))

    @property
    def commands(self) -> tuple[CommandView, ...]:
        """Commands to paste, filled in."""
        return tuple(map(CommandView.of, self.incident.commands))

    @property
    def checks(self) -> tuple[CheckView, ...]:
        """Checks that were made, with their answers."""
        return tuple(map(CheckView.of, self.incident.checks))

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """What the root cause's line says, by name."""
        return tuple((sanitize(name), sanitize(value)) for name, value in self.incident.root_cause.fields.items())

    @property
    def progress(self) -> tuple[ProgressView, ...]:
        """The progress of each job."""
        return tuple(ProgressView.of(job, progress) for job, progress in self.incident.progress.items())

    @property
    def history(self) -> tuple[ChangeView, ...]:
        """Changes of the incident."""
        return tuple(map(ChangeView.of, self.incident.history))

    @property
    def recurrence(self) -> tuple[str, ...]:
        """Sentences about earlier failures of its job; empty if there were none."""
        return tuple(map(sanitize, recurrence_of(self.incident.recurrence))) if self.incident.recurrence else ()

    def lasted(self, now_ns: int) -> str:
        """How long the incident has been open, or was open until it resolved; empty if unknown."""
        first_ns, last_ns = humanize.ns(self.incident.first_seen), humanize.ns(self.incident.last_seen)
        if first_ns is None or last_ns is None:
            return ""
        return humanize.length((now_ns if self.incident.status == "open" else last_ns) - first_ns)

    @property
    def _hedge(self) -> str:
        return "" if self.incident.root_cause.confidence >= humanize.LIKELY else "probably "

    @property
    def _how(self) -> str:
        root = self.incident.root_cause
        effects = sorted(root.explains, key=lambda effect: effect.node == root.node)
        return effects[0].why if effects else ""

    @property
    def _state(self) -> str:
        if self.incident.merged_into:
            return f"It was merged into incident {self.incident.merged_into}."
        what = {"open": "It is still open", "resolved": "It is resolved"}.get(
            self.incident.status, self.incident.status
        )
        return f"{what}; cost so far: {self.lost_since}." if self.lost_since else f"{what}."
