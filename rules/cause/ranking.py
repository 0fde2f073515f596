"""Which signal of an incident explains the others, and why: causal edges first, then role, evidence and time.

Every weight is one of the cause model (`rules/catalog/cause_model.yaml`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

from msgspec import structs

from epicenter.rules.cause.collectives import NAMING_FIELDS, names
from epicenter.rules.cause.reasons import EXPLAINED_KINDS, About, Alone, Reason, ReasonKind
from epicenter.rules.cause.scope import JobsOf, in_scope
from epicenter.rules.cause.survival import Trained, is_called_a_warning, is_over, is_survived, is_tried_again
from epicenter.rules.cause.suspects import WAITING_CLASSES, Suspects
from epicenter.rules.cause.unnamed import Stop, named_first, weigh_unusual
from epicenter.rules.cause.witnesses import Accused, peer_of
from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.model.incident import Explanation
from epicenter.rules.model.signals import CLOCK_SKEW_NS as CLOCK_SKEW_NS
from epicenter.rules.model.signals import ERRORS, UNNAMED, Signal, is_cut_traceback, is_unnamed
from epicenter.rules.model.times import END_NS, NS_PER_S
from epicenter.rules.model.training_span import NOT_TRAINED, TrainingSpan
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.packs.cause_model import CauseModel
from epicenter.rules.packs.spec import EdgeSpec
from epicenter.rules.packs.topology import KINDS, NO_TOPOLOGY, Topology

OUT_OF_TURN_NS = NS_PER_S
NOTICED_BY_WAITING = ("hang", "slurm-node-fail", "k8s-node-notready")
_NOTICED_BY_SCHEDULERS = ("slurm-node-fail", "k8s-node-notready")
NODE_TIMEOUT_NS = 400 * NS_PER_S
"""Slurm waits for a node for SlurmdTimeout, 300 s by default, and pings it every third of that (slurm.conf)."""

REPEATED_WITHIN_NS = NS_PER_S
AFTERWARDS_NS = 120 * NS_PER_S
_STANDSTILL = ("hang", "straggler")
MAX_EFFECTS = 3
_BLAMED_BY_OTHERS = (ReasonKind.AWAITED, ReasonKind.NAMED_BY_PEERS)
_RULED_OUT = (ReasonKind.SURVIVED, ReasonKind.CLEARED)
_EXPLAINS_NOTHING = ("confirmation", "teardown", "advice")
Between = Callable[[str, str], Sequence[EdgeSpec]]
"""The edges from one class to another (`RuleSet.edges_between`)."""
Leads = Callable[[Signal, Signal, EdgeSpec], bool]
"""Whether an edge leads from the first signal to the second."""
Survival = Callable[[Signal], ReasonKind | None]
"""Whether the jobs that a signal affects trained on after it: `SURVIVED`, or `OUTLASTED` if its class stays."""


@dataclass
class Candidate:
    """A signal with the reasons for and against it as the root cause.

    `points` is the prior of its class with the weights of its `evidence`, a weight of `model` each. `is_explained`:
    another signal caused it. `is_idle`: it caused nothing, as a warning, or as what its job survived.
    """

    signal: Signal
    model: CauseModel
    reasons: list[Reason] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    is_explained: bool = False
    is_idle: bool = False

    @property
    def points(self) -> float:
        """How likely it is the cause compared with others: each point doubles its odds."""
        return self.model.points(self.signal.failure_class, self.evidence)

    def weigh(self, kind: ReasonKind, about: About | None = None, evidence: str = "") -> None:
        """Add a reason; `evidence` is its name in the model where it is not that of the kind."""
        self.is_explained |= kind in EXPLAINED_KINDS
        self.evidence.append(evidence or kind)
        self.reasons.append(Reason(kind, self.model.weight(evidence or kind), about))

    @property
    def explained_by(self) -> Explanation | None:
        """Its cause; None if unknown."""
        return next(iter(self._explanations(ReasonKind.EXPLAINED_BY)), None)

    @property
    def explains(self) -> tuple[Explanation, ...]:
        """Its effects, one per class, at most `MAX_EFFECTS`."""
        return self._explanations(ReasonKind.EXPLAINS)

    def _explanations(self, kind: ReasonKind) -> tuple[Explanation, ...]:
        of_kind = (reason.about for reason in self.reasons if reason.kind is kind)
        return tuple(about for about in of_kind if isinstance(about, Explanation))


def rank(
    signals: Sequence[Signal],
    between: Between,
    jobs_of: JobsOf,
    model: CauseModel,
    suspects: Suspects | None = None,
    topology: Topology = NO_TOPOLOGY,
    survival: Survival = lambda signal: None,
    lost: Accused | None = None,
    unusual: Mapping[str, Unusual] = MappingProxyType({}),
) -> list[Candidate]:
    """All signals as candidates, the best first. Ties go to the earliest onset.

    A signal that another one explains is the best only if all are explained, or are warnings that explain nothing. One
    that no rule names is never before a named cause; `unusual` has what is known of these, by id.
    """

    stop = Stop(signals, suspects, lost)
    past, awaited = _past(signals, survival), _named_later(signals)
    warned = {signal.signal_id for signal in signals if is_called_a_warning(signal)}
    tried_again = {signal.signal_id for signal in signals if _is_tried_again(signal)}

    def leads(cause: Signal, effect: Signal, edge: EdgeSpec) -> bool:
        if not explains(cause, effect, edge, jobs_of, topology):
            return False
        if cause.failure_class == UNNAMED and not stop.may_follow(cause, effect):
            return False
        if cause.failure_class in WAITING_CLASSES and effect.signal_id in awaited:
            return False
        if cause.signal_id in warned and cause.node != effect.node:
            return False
        if cause.signal_id in tried_again and effect.node not in ("", cause.node):
            return False
        if past.get(cause.signal_id) is ReasonKind.OUTLASTED and not _reaches(cause, effect, suspects):
            return False
        is_ruled_out = past.get(cause.signal_id) in _RULED_OUT
        return not (is_ruled_out or (lost and lost.exonerates(cause, effect)))

    candidates = [Candidate(signal, model) for signal in signals]
    nodes = {signal.node for signal in signals}
    by_class: dict[str, list[Signal]] = {}
    for signal in signals:
        by_class.setdefault(signal.failure_class, []).append(signal)
    class_by_name = {name: _SignalsOfClass(name, signals, by_class, between) for name in by_class}
    for candidate in candidates:
        of_class = class_by_name[candidate.signal.failure_class]
        _weigh_evidence(candidate, of_class.nodes, nodes)
        _weigh_edges(candidate, of_class, leads)
        if suspects and suspects.accuse(candidate.signal):
            is_kernel = candidate.signal.source == "kernel"
            candidate.weigh(ReasonKind.AWAITED, suspects, "awaited-by-kernel" if is_kernel else "")
        if lost:
            _weigh_witnesses(candidate, lost)
        if unusual:
            weigh_unusual(candidate, unusual, stop)
    _share_explanations(candidates)
    _weigh_past(candidates, past)
    _weigh_cut_tracebacks(candidates)
    _weigh_idle_warnings(candidates)
    _weigh_afterwards(candidates)
    unexplained = [
        candidate
        for candidate in candidates
        if not (candidate.is_explained or candidate.is_idle or candidate.signal.signal_id in past)
        and not (lost and _lost_a_victim(candidate.signal, lost))
    ] or candidates
    began = [candidate for candidate in unexplained if candidate.signal.role not in _EXPLAINS_NOTHING] or unexplained
    earliest = min(began, key=lambda candidate: onset_order(candidate.signal))
    earliest.weigh(ReasonKind.EARLIEST)
    ordered = _unexplained_first(
        sorted(candidates, key=lambda candidate: (-candidate.points, onset_order(candidate.signal)))
    )
    return named_first(ordered, unusual) if UNNAMED in by_class else ordered


def _unexplained_first(ordered: list[Candidate]) -> list[Candidate]:
    """The candidates with the best unexplained one before a better one that another signal explains."""
    first = next((candidate for candidate in ordered if not (candidate.is_explained or candidate.is_idle)), ordered[0])
    others = [candidate for candidate in ordered if candidate is not first]
    return [first, *others] if ordered[0].is_explained else ordered


class Relations:
    """Which signals may have caused each other, as far as jobs trained by now."""

    def __init__(
        self,
        between: Between,
        jobs_of: JobsOf,
        topology: Topology = NO_TOPOLOGY,
        trained: Trained = lambda cluster, job: NOT_TRAINED,
    ):
        self._between = between
        self._jobs_of = jobs_of
        self._topology = topology
        self._trained = trained

    def spans(self, cluster: str, jobs: Collection[str]) -> dict[str, TrainingSpan]:
        """From when until when each of these jobs trained."""
        return {job: self._trained(cluster, job) for job in jobs}

    def share_equipment(self, node: str, other: str) -> bool:
        """Whether the topology has something that both nodes depend on: a rack, a switch, storage."""
        return any(self._topology.shares(node, other, kind) for kind in KINDS)

    def hold(self, signal: Signal, others: Sequence[Signal]) -> bool:
        """Whether the signal may have caused one of the others, or one of them the signal.

        The others are of one class, earliest onset first, so that most classes are ruled out without comparing pairs. A
        traceback without its exception belongs to any failure of its job.
        """
        if is_cut_traceback(signal) and any(signal.job == other.job != "" for other in others):
            return True
        own_class, other_class = signal.failure_class, others[0].failure_class
        there, back = self._between(own_class, other_class), self._between(other_class, own_class)
        leads_there = bool(there) and self._lead(there, [signal], others)
        return leads_there or (bool(back) and self._lead(back, others, [signal]))

    def _lead(self, edges: Sequence[EdgeSpec], causes: Sequence[Signal], effects: Sequence[Signal]) -> bool:
        least_ns = effects[0].onset_ns - causes[-1].onset_ns
        most_ns = max(effect.event_time_ns for effect in effects) - causes[0].onset_ns
        return any(
            explains(cause, effect, edge, self._jobs_of, self._topology) and not self._is_survived(cause)
            for edge in edges
            if least_ns <= edge.within and edge.earliest_ns(CLOCK_SKEW_NS) <= most_ns
            for cause in causes
            for effect in effects
        )

    def _is_survived(self, signal: Signal) -> bool:
        return is_survived(signal, self.spans(signal.cluster, self._jobs_of(signal)).values())


def explains(cause: Signal, effect: Signal, edge: EdgeSpec, jobs_of: JobsOf, topology: Topology = NO_TOPOLOGY) -> bool:
    """Whether an edge between their classes leads from one signal to the other, in place and time."""
    lag_ns = effect.onset_ns - cause.onset_ns
    return (
        lag_ns <= edge.within
        and edge.earliest_ns(_skew_ns(cause, effect)) - _unsure_ns(cause, effect) <= lag_ns
        and cause.severity != "info"
        and cause.role not in _EXPLAINS_NOTHING
        and not cause.is_foreign
        and not is_cut_traceback(cause)
        and not is_over(cause, effect.onset_ns)
        and in_scope(cause, effect, edge.scope, jobs_of, topology)
    )


def _reaches(cause: Signal, effect: Signal, suspects: Suspects | None) -> bool:
    """Whether what lasted while the job trained on may cause the effect: at its own node, or that others wait."""
    if suspects and suspects.exonerate(cause):
        return False
    return effect.node in ("", cause.node) or effect.failure_class in WAITING_CLASSES


def _named_later(signals: Sequence[Signal]) -> set[str]:
    """The ids of signals whose rank a report names afterwards: then the others waited for it."""
    reports = [signal for signal in signals if not NAMING_FIELDS.keys().isdisjoint(signal.fields)]
    pairs = ((signal, report) for signal in signals for report in reports)
    return {s.signal_id for s, report in pairs if report.event_time_ns > s.event_time_ns and names(report, s)}


def _skew_ns(cause: Signal, effect: Signal) -> int:
    """How far clocks may differ. A node's kernel, or a log, has one, but its writers may log slightly out of order."""
    is_one_kernel = cause.node == effect.node and cause.source == effect.source == "kernel"
    is_one_log = cause.log == effect.log != ""
    is_one_clock = is_one_kernel or is_one_log
    return OUT_OF_TURN_NS if is_one_clock and effect.onset_ns == effect.event_time_ns else CLOCK_SKEW_NS


def _unsure_ns(cause: Signal, effect: Signal) -> int:
    """A failure noticed by waiting began at some time between the last sign of life and its report.

    Where a report names the cause's rank, only the report shows the order: clocks of nodes differ. A line that no rule
    names may come while others wait. A scheduler notices minutes later that a node is gone.
    """
    waited_ns = effect.event_time_ns - effect.onset_ns
    is_unsure = waited_ns != 0 and (
        effect.failure_class in NOTICED_BY_WAITING or cause.failure_class == UNNAMED or names(effect, cause)
    )
    unsure_ns = waited_ns if is_unsure else 0
    is_noticed_late = cause.failure_class in _NOTICED_BY_SCHEDULERS and cause.onset_ns == cause.event_time_ns
    return max(unsure_ns, NODE_TIMEOUT_NS if is_noticed_late else 0)


def _kind(signal: Signal) -> tuple[str, str]:
    return signal.failure_class, signal.node


def _weigh_evidence(candidate: Candidate, nodes_of_class: set[str], nodes: set[str]) -> None:
    signal = candidate.signal
    if signal.position is None and signal.failure_class in _STANDSTILL:
        candidate.weigh(ReasonKind.STANDSTILL)
    elif candidate.model.weight(role := f"role-{signal.role}"):
        is_usual = signal.role == "root"
        candidate.weigh(ReasonKind.USUAL_CAUSE if is_usual else ReasonKind.UNUSUAL_CAUSE, signal, role)
    if is_unnamed(signal):
        candidate.weigh(ReasonKind.UNNAMED)
    if not signal.node and any(nodes_of_class):
        candidate.weigh(ReasonKind.NODE_NAMED_ELSEWHERE)
    if signal.source == "kernel":
        candidate.weigh(ReasonKind.KERNEL)
    if len(nodes_of_class) == 1 < len(nodes):
        candidate.weigh(ReasonKind.ALONE, Alone(signal.node, len(nodes) - 1))


def _weigh_witnesses(candidate: Candidate, lost: Accused) -> None:
    signal = candidate.signal
    if lost.names(signal):
        candidate.weigh(ReasonKind.LOST_ANOTHER, lost)
    elif signal.node != lost.node and (peer := peer_of(signal)):
        candidate.weigh(ReasonKind.LOST_ANOTHER, structs.replace(lost, node=peer))
    elif signal.node == lost.node and signal.failure_class not in WAITING_CLASSES:
        candidate.weigh(ReasonKind.NAMED_BY_PEERS, lost)


def _lost_a_victim(signal: Signal, lost: Accused) -> bool:
    """Whether it is a lost connection to one that went down after the node that most lost: it began nothing."""
    return bool(peer_of(signal)) and signal.node != lost.node and not lost.names(signal)


def _weigh_edges(candidate: Candidate, of_class: _SignalsOfClass, leads: Leads) -> None:
    signal = candidate.signal
    if explanation := _explanation(signal, of_class, leads):
        candidate.weigh(ReasonKind.EXPLAINED_BY, explanation)
    effects = (_effect(signal, others, edges, leads) for _, others, edges in of_class.effects)
    for effect in islice(filter(None, effects), MAX_EFFECTS):
        candidate.weigh(ReasonKind.EXPLAINS, effect)


def _weigh_idle_warnings(candidates: Sequence[Candidate]) -> None:
    """Warnings such as corrected errors occur at all times: next to a failure, they count only if they explain one."""
    warnings = [candidate for candidate in candidates if _is_warning(candidate.signal)]
    for candidate in warnings if len(warnings) < len(candidates) else ():
        if not candidate.explains and candidate.signal.role != "teardown":
            candidate.is_idle = True
            candidate.weigh(ReasonKind.IDLE_WARNING)


def _weigh_afterwards(candidates: Sequence[Candidate]) -> None:
    """What a kernel reports long after the job's own errors, and what explains none of them, is another matter.

    So is what explains only why the job has stopped: it had failed by then. So is what a kernel reports while the
    scheduler ends a job that had failed, unless others blame its node, whose clock may be ahead.
    """
    failed = [candidate.signal for candidate in candidates if not candidate.is_idle and _is_of_a_job(candidate.signal)]
    first_ns = min((signal.event_time_ns for signal in failed), default=END_NS)
    ended_ns = [candidate.signal.event_time_ns for candidate in candidates if _is_a_cancellation(candidate.signal)]
    for candidate in candidates:
        signal = candidate.signal
        if signal.source != "kernel" or candidate.is_idle:
            continue
        explained = {effect.failure_class for effect in candidate.explains}
        is_late = signal.onset_ns > first_ns + AFTERWARDS_NS and explained.issubset(_STANDSTILL)
        since_ns = (signal.onset_ns - end_ns for end_ns in ended_ns if end_ns > first_ns)
        is_at_the_end = any(CLOCK_SKEW_NS < lag_ns <= AFTERWARDS_NS for lag_ns in since_ns)
        is_blamed = any(reason.kind in _BLAMED_BY_OTHERS for reason in candidate.reasons)
        if is_late or (is_at_the_end and not is_blamed):
            candidate.is_idle = True
            candidate.weigh(ReasonKind.AFTERWARDS)


def _is_a_cancellation(signal: Signal) -> bool:
    return signal.failure_class == "slurm-cancelled" and signal.role == "teardown"


def _is_of_a_job(signal: Signal) -> bool:
    return signal.source != "kernel" and signal.severity in ERRORS


def _past(signals: Sequence[Signal], survival: Survival) -> dict[str, ReasonKind]:
    """Why signals lie in the past, by id: over before other failures began, or followed by more training."""
    found = {
        signal.signal_id: ReasonKind.CLEARED if _is_over_before(signal, signals) else survival(signal)
        for signal in signals
    }
    return {signal_id: kind for signal_id, kind in found.items() if kind}


def _is_over_before(signal: Signal, others: Sequence[Signal]) -> bool:
    """Whether other failures began after it was over, and none while it lasted; or the same elsewhere, for good."""
    if not signal.cleared_ns:
        return False
    again = [other for other in others if other.failure_class == signal.failure_class and not other.cleared_ns]
    if any(other.onset_ns > signal.cleared_ns for other in again):
        return True
    onsets_ns = [other.onset_ns for other in others if other.failure_class != signal.failure_class]
    later_ns = [onset_ns for onset_ns in onsets_ns if onset_ns >= signal.onset_ns]
    return bool(later_ns) and is_over(signal, min(later_ns))


def _weigh_past(candidates: Sequence[Candidate], past: Mapping[str, ReasonKind]) -> None:
    """A job trained on after these, so they did not stop it, or less likely than what came later."""
    for candidate in candidates if len(past) < len(candidates) else ():
        if (kind := past.get(candidate.signal.signal_id)) is None:
            continue
        candidate.is_idle |= kind in _RULED_OUT
        candidate.weigh(kind)


def _weigh_cut_tracebacks(candidates: Sequence[Candidate]) -> None:
    """A traceback without its exception shows that something failed, which other lines name."""
    cut = [candidate for candidate in candidates if is_cut_traceback(candidate.signal)]
    for candidate in cut if len(cut) < len(candidates) else ():
        candidate.is_idle = True
        candidate.weigh(ReasonKind.CUT_TRACEBACK)


def _is_warning(signal: Signal) -> bool:
    return signal.severity not in ERRORS or is_called_a_warning(signal) or _is_tried_again(signal)


def _is_tried_again(signal: Signal) -> bool:
    return signal.source != "kernel" and is_tried_again(signal)


def _share_explanations(candidates: Sequence[Candidate]) -> None:
    """Signals that a process logs twice at once, such as both ends of a traceback in two records, have one cause."""
    explained: dict[tuple[str, str], list[Signal]] = {}
    for candidate in candidates:
        if candidate.is_explained:
            explained.setdefault(_kind(candidate.signal), []).append(candidate.signal)
    for candidate in candidates:
        others = explained.get(_kind(candidate.signal), ())
        if not candidate.is_explained and any(_is_repeated(candidate.signal, other) for other in others):
            candidate.weigh(ReasonKind.SHARED_EXPLANATION)


def _is_repeated(signal: Signal, other: Signal) -> bool:
    return (signal.job, signal.rank) == (other.job, other.rank) and abs(
        signal.onset_ns - other.onset_ns
    ) <= REPEATED_WITHIN_NS


def _explanation(signal: Signal, of_class: _SignalsOfClass, leads: Leads) -> Explanation | None:
    """The first of the signals that explains this one, and how."""
    for other, edges in of_class.causes:
        for edge in edges:
            if leads(other, signal, edge):
                return _end(other, edge)
    return None


def _effect(signal: Signal, others: Sequence[Signal], edges: Sequence[EdgeSpec], leads: Leads) -> Explanation | None:
    """The first of the others that the signal explains, and how; None if it explains none."""
    return next((_end(other, edge) for other in others for edge in edges if leads(signal, other, edge)), None)


def _end(other: Signal, edge: EdgeSpec) -> Explanation:
    return Explanation(other.failure_class, other.node, edge.reason)


class _SignalsOfClass:
    """What the signals of one class share: their nodes, and the signals that edges connect them to.

    `causes` are in the order of all signals, `effects` by class; most classes have no edge between them.
    """

    def __init__(
        self, failure_class: str, signals: Sequence[Signal], by_class: Mapping[str, Sequence[Signal]], between: Between
    ):
        into = {name: edges for name in by_class if (edges := between(name, failure_class))}
        self.nodes = {signal.node for signal in by_class[failure_class]}
        self.causes = (
            [(signal, into[signal.failure_class]) for signal in signals if signal.failure_class in into] if into else []
        )
        self.effects = [
            (name, by_class[name], edges) for name in sorted(by_class) if (edges := between(failure_class, name))
        ]
