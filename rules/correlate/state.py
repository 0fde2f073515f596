"""The state of one incident: its signals, what they affect, and its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from epicenter.rules.cause.collectives import REPORTING_CLASSES, CollectiveTable
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.cause.recovery import where
from epicenter.rules.cause.survival import cleared, is_outlasted, is_survived, until_it_waited
from epicenter.rules.cause.witnesses import MAX_PEERS, own_address, peer_of
from epicenter.rules.correlate.attempts import Attempt
from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.liveness.progress import JobProgress
from epicenter.rules.model.incident import Change, Progress, Resolution
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.signals import ERRORS, SEVERITIES, TEMPLATE_FIELD, UNNAMED, Signal
from epicenter.rules.model.times import iso_from_ns
from epicenter.rules.model.training_span import NOT_TRAINED, TrainingSpan
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.placement.completion import nodes_of

MAX_KEPT_PER_CLASS: Final = 8
"""An incident keeps this many signals of each class, earliest first, word for word; it counts the others."""

MAX_KEPT_IDS: Final = 32_768
"""At least the newest this many ids of signals are known, at most twice as many. Older signals would count again."""

MAX_KEPT_CHANGES: Final = 50
"""At most this many changes in the history, for incidents that flap."""


class AtOnset(msgspec.Struct, frozen=True):
    """The progress of a job when its incident first included it; None is unknown.

    Snapshots write -1 for an unknown step and 0 for any other unknown number; the fields are the values as written. The
    logs of `mute_nodes` had stopped while the job trained on. `node_count` is how many nodes its launchers wait for.
    `outliers` differ from the others in what all print alike.
    """

    written_step: int = msgspec.field(default=-1, name="last_step")
    written_step_ns: int = msgspec.field(default=0, name="last_step_ns")
    written_pace_ns: int = msgspec.field(default=0, name="pace_ns")
    written_saved_step: int = msgspec.field(default=-1, name="saved_step")
    written_gpus: int = msgspec.field(default=0, name="gpus")
    mute_nodes: tuple[str, ...] = ()
    node_count: int = 0
    outliers: tuple[Outlier, ...] = ()

    @classmethod
    def of(cls, progress: JobProgress | None, gpus: int | None) -> AtOnset:
        """What is known of a job now."""
        if progress is None:
            return cls(written_gpus=gpus or 0)
        steps = (progress.written_last_step, progress.last_step_ns, progress.pace_ns or 0, progress.written_saved_step)
        return cls(*steps, gpus or 0)

    @property
    def last_step(self) -> int | None:
        """The last completed step."""
        return None if self.written_step < 0 else self.written_step

    @property
    def last_step_ns(self) -> int | None:
        """When it completed that step."""
        return None if self.written_step < 0 else self.written_step_ns

    @property
    def pace_ns(self) -> int | None:
        """The median time per step."""
        return self.written_pace_ns or None

    @property
    def saved_step(self) -> int | None:
        """The step of its newest complete checkpoint."""
        return None if self.written_saved_step < 0 else self.written_saved_step

    @property
    def gpus(self) -> int | None:
        """How many GPUs it held."""
        return self.written_gpus or None


class IncidentState(msgspec.Struct):
    """What is known about one incident so far.

    `keys` are those of its signals (`keys.py`). `seen` and the older `seen_before` are ids of signals. It is pending,
    without notifications, until `pending_until_ns` (0: open at once). `hurts`: it has an error that is more than what
    jobs survive. `earlier` are failed runs of its jobs. `accusers_by_peer` are the nodes that name a peer as lost, by
    that peer; `node_by_address` has the addresses that they call their own. `at_onset` is the progress of each job
    when the incident first included it, and `skews_ns` how far its nodes' clocks were ahead by then, where that is
    known. `nodes_by_rule` are all nodes where a rule matched, of signals that are only counted too. `trained` is from
    when until when each job trained, as of its newest failure here. `found_ns` is the watermark at which its newest
    late line was found, 0 if none was late. `unusual` is how unusual the messages of kept signals are that no rule
    names, by the signals' ids.
    """

    incident_id: str
    cluster: str
    status: str = "open"
    revision: int = 0
    merged_into: str = ""
    severity: str = "info"
    pending_until_ns: int = msgspec.field(default=0, name="held_until_ns")
    has_timer: bool = False
    hurts: bool = False
    reopened: int = 0
    is_restarted: bool = False
    resolved_ns: int = 0
    resolved_by: Resolution = Resolution.NONE
    found_ns: int = 0
    earlier: list[Attempt] = []
    at_onset: dict[str, AtOnset] = {}
    skews_ns: dict[str, int] = {}
    history: list[Change] = []
    keys: set[str] = set()
    jobs: set[str] = set()
    nodes: set[str] = set()
    kernel_nodes: set[str] = set()
    ranks: set[str] = set()
    cleared: set[str] = set()
    seen: dict[str, None] = {}
    seen_before: dict[str, None] = {}
    signal_count: int = 0
    opened_ns: int = 0
    first_onset_ns: int = 0
    last_seen_ns: int = 0
    steps_since: dict[str, int] = {}
    signals_by_class: dict[str, list[Signal]] = msgspec.field(default_factory=dict, name="kept_by_class")
    jobs_by_node: dict[str, set[str]] = {}
    nodes_by_rule: dict[str, set[str]] = {}
    unusual: dict[str, Unusual] = {}
    accusers_by_peer: dict[str, set[str]] = {}
    node_by_address: dict[str, str] = {}
    trained: dict[str, TrainingSpan] = {}
    progress: dict[str, Progress] = {}
    gpus: set[str] = set()
    collectives: CollectiveTable = msgspec.field(default_factory=CollectiveTable)

    def add(self, signal: Signal, jobs: set[str]) -> bool:
        """Add a signal; false if it is already here."""
        if signal.signal_id in self.seen or signal.signal_id in self.seen_before:
            return False
        self._remember(signal.signal_id)
        self.signal_count += 1
        self._reach(signal, jobs)
        if signal.severity != self.severity:
            self._raise_severity(signal)
        self.first_onset_ns = min(self.first_onset_ns or signal.onset_ns, signal.onset_ns)
        self.last_seen_ns = max(self.last_seen_ns, signal.event_time_ns)
        if signal.severity in ERRORS:
            if not self.pending_until_ns:
                self.steps_since.clear()
            self.cleared.discard(f"{signal.failure_class}/{where(signal)}")
        self._keep(signal)
        self.collectives.add(signal)
        return True

    @property
    def quiet_since_ns(self) -> int:
        """When its newest line was written, or found if it came late."""
        return max(self.last_seen_ns, self.found_ns)

    def absorb(self, other: IncidentState) -> None:
        """Add everything from another incident."""
        self.keys |= other.keys
        self.jobs |= other.jobs
        self.nodes |= other.nodes
        self.kernel_nodes |= other.kernel_nodes
        self.ranks |= other.ranks
        self.gpus |= other.gpus
        self.collectives.absorb(other.collectives)
        theirs = other.seen_before | other.seen
        self.signal_count += len(theirs.keys() - self.seen.keys() - self.seen_before.keys())
        for signal_id in theirs:
            self._remember(signal_id)
        self.opened_ns = min(self.opened_ns, other.opened_ns)
        self.first_onset_ns = min(self.first_onset_ns, other.first_onset_ns)
        self.last_seen_ns = max(self.last_seen_ns, other.last_seen_ns)
        self.found_ns = max(self.found_ns, other.found_ns)
        self.severity = max(self.severity, other.severity, key=SEVERITIES.index)
        self.hurts |= other.hurts
        self.pending_until_ns = min(self.pending_until_ns, other.pending_until_ns)
        self.at_onset = other.at_onset | self.at_onset
        self.skews_ns = other.skews_ns | self.skews_ns
        self.trained |= {job: max(span, self.trained.get(job, span)) for job, span in other.trained.items()}
        for node, jobs in other.jobs_by_node.items():
            self.jobs_by_node.setdefault(node, set()).update(jobs)
        for peer, nodes in other.accusers_by_peer.items():
            self.accusers_by_peer.setdefault(peer, set()).update(nodes)
        self.node_by_address = other.node_by_address | self.node_by_address
        self.unusual = other.unusual | self.unusual
        for rule, nodes in other.nodes_by_rule.items():
            self.nodes_by_rule.setdefault(rule, set()).update(nodes)
        for signals in other.signals_by_class.values():
            for signal in signals:
                self._keep(signal)

    def failing_jobs(self) -> set[str]:
        """The jobs that report an error themselves; all of its jobs if none does."""
        return {signal.job for signal in self.signals() if signal.job and signal.severity in ERRORS} or self.jobs

    def jobs_of(self, signal: Signal) -> set[str]:
        """The jobs that one of these signals affects: its own, otherwise those on its node when the signals came."""
        if signal.is_foreign:
            return set()
        return {signal.job} if signal.job else self.jobs_by_node.get(signal.node, set())

    def record_training(self, signal: Signal, spans: Mapping[str, TrainingSpan]) -> None:
        """Record from when until when the jobs of a new signal trained, as known by now."""
        for job, span in spans.items():
            known = until_it_waited(span, signal, self.kept_signals(REPORTING_CLASSES))
            self.trained[job] = max(known, self.trained.get(job, NOT_TRAINED))

    def survival(self, signal: Signal) -> ReasonKind | None:
        """Whether its jobs trained on after this one of its signals, before the newest failure here.

        What is older than the incident may be of an earlier attempt of the job.
        """
        spans = [self.trained.get(job, NOT_TRAINED) for job in self.jobs_of(signal)]
        if NOT_TRAINED in spans:
            return None
        is_older = signal.event_time_ns < self.opened_ns
        if is_survived(signal, spans, is_older):
            return ReasonKind.SURVIVED
        return ReasonKind.OUTLASTED if is_outlasted(signal, spans, is_older) else None

    def signals(self) -> list[Signal]:
        """The kept signals, earliest onset first."""
        return sorted(self.kept_signals(), key=onset_order)

    def kept_signals(self, classes: Collection[str] | None = None) -> Iterator[Signal]:
        """The kept signals, or those of these classes, in no particular order."""
        names = self.signals_by_class if classes is None else self.signals_by_class.keys() & classes
        return chain.from_iterable([self.signals_by_class[name] for name in names])

    def clear(self, classes: Collection[str], recovery: Signal) -> bool:
        """Record that these failures of its subject are over; true if this covers every error of the incident."""
        place = where(recovery)
        for name in self.signals_by_class.keys() & classes:
            signals = [cleared(signal, recovery) for signal in self.signals_by_class[name]]
            self.signals_by_class[name] = signals
            if all(signal.cleared_ns for signal in signals if where(signal) == place):
                self.cleared.add(f"{name}/{place}")
        errors = (signal for signal in self.signals() if signal.severity in ERRORS)
        return all(f"{signal.failure_class}/{where(signal)}" in self.cleared for signal in errors)

    def record(self, time_ns: int, what: str) -> None:
        """Add a change to the history."""
        if len(self.history) < MAX_KEPT_CHANGES:
            self.history.append(Change(iso_from_ns(time_ns), what))

    def _remember(self, signal_id: str) -> None:
        self.seen[signal_id] = None
        if len(self.seen) >= MAX_KEPT_IDS:
            self.seen_before, self.seen = self.seen, {}

    def _reach(self, signal: Signal, jobs: set[str]) -> None:
        self.jobs |= jobs
        for node in nodes_of(signal):
            self.nodes.add(node)
            _set_under(self.jobs_by_node, node).update(jobs)
        if signal.node:
            _set_under(self.nodes_by_rule, signal.rule).add(signal.node)
        if signal.source == "kernel":
            self.kernel_nodes.add(signal.node)
        if (peer := peer_of(signal)) and signal.node and len(self.accusers_by_peer) < MAX_PEERS:
            self.accusers_by_peer.setdefault(peer, set()).add(signal.node)
            if address := own_address(signal):
                self.node_by_address[address] = signal.node
        if signal.rank is not None:
            self.ranks.add(f"{signal.job}/{signal.rank}")
        if signal.gpu and vocabulary().is_of_gpu(signal.failure_class):
            self.gpus.add(f"{signal.node}/{signal.gpu}")

    def _raise_severity(self, signal: Signal) -> None:
        if SEVERITIES.index(signal.severity) > SEVERITIES.index(self.severity):
            if self.signal_count > 1:
                why = f"{signal.failure_class}{place_of(signal)}"
                self.record(signal.event_time_ns, f"severity rose from {self.severity} to {signal.severity}: {why}")
            self.severity = signal.severity

    def _keep(self, signal: Signal) -> None:
        of_class = self.signals_by_class.setdefault(signal.failure_class, [])
        is_unnamed = signal.failure_class == UNNAMED
        if len(of_class) == MAX_KEPT_PER_CLASS and not is_unnamed and _is_later(signal, of_class[-1]):
            return
        if all(earlier.signal_id != signal.signal_id for earlier in of_class):
            of_class.append(signal)
            of_class.sort(key=onset_order)
            if is_unnamed and len(of_class) > MAX_KEPT_PER_CLASS:
                of_class.remove(_most_repeated(of_class))
            del of_class[MAX_KEPT_PER_CLASS:]


def _most_repeated(unnamed: Sequence[Signal]) -> Signal:
    """The last line of the message and the origin that have the most."""
    of_messages = Counter(signal.fields.get(TEMPLATE_FIELD, "") for signal in unnamed)
    of_origins = Counter((signal.node, signal.rank) for signal in unnamed)

    def repeats(signal: Signal) -> int:
        return of_messages[signal.fields.get(TEMPLATE_FIELD, "")] + of_origins[signal.node, signal.rank]

    return max(unnamed, key=lambda signal: (repeats(signal), onset_order(signal)))


def _set_under(sets: dict[str, set[str]], key: str) -> set[str]:
    """The set under a key; a new one is made only if there is none."""
    found = sets.get(key)
    if found is None:
        found = sets[key] = set()
    return found


def _is_later(signal: Signal, other: Signal) -> bool:
    return signal.onset_ns > other.onset_ns or onset_order(signal) >= onset_order(other)


def place_of(signal: Signal) -> str:
    """Where it happened, as the end of a sentence: ` on node, GPU …`; empty if unknown."""
    gpu = f", GPU {signal.gpu}" if signal.gpu else ""
    place = signal.node or job_in_words(signal.job)
    return f" on {place}{gpu}" if place else ""
