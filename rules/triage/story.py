"""The content of one job's log, gathered match by match in bounded memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from epicenter.rules.cause.recovery import answers, subject
from epicenter.rules.cause.survival import may_pass
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Match, Position
from epicenter.rules.model.signals import ERRORS, TEMPLATE_FIELD, UNNAMED, Signal, is_cut_traceback
from epicenter.rules.model.times import NS_PER_S, is_known
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.triage.bars import Bars, bar_of, number_of, scaled_bar_of
from epicenter.rules.triage.losses import Losses
from epicenter.rules.triage.steps import Steps, whole

MAX_KEPT_PER_CLASS: Final = 6
MAX_KEPT_OF_EARLIER: Final = 2
MAX_KEPT_ATTEMPTS: Final = 20
ADVICE: Final = "advice "
"""Before a class whose lines only advise, to keep them apart from its failures."""

MAX_KEPT_RANKS: Final = 4096
MAX_KEPT_UNNAMED: Final = 200
"""At most this many messages that no rule names; the one that was silent for longest is dropped first."""

MAX_KEPT_RECOVERIES: Final = 1000
MAX_KEPT_TEXT: Final = 1000
FACT_ROLES: Final = ("context", "placement", "finished")
HEADER: Final = "job.passthrough_args"
"""The launcher prints it first: a second one in a log, after steps or a status, begins a new attempt."""

TOTALS: Final = (HEADER, "job.steps", "job.optimization_steps")
"""Rules that state the number of steps, in their field `steps_total`."""

STARTS: Final = ("job.restored", "job.fresh_start")
_OF_ONE_ATTEMPT: Final = ("job.summary", "job.status", "job.stage", "progress.finished", *STARTS)
_HEARTBEAT: Final = "heartbeat-timeout"
_CANCELLED_AT: Final = re.compile(r"CANCELLED AT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


@dataclass
class Finding:
    """All signals of one class: the first ones word for word, the first of each rank, and how many there were.

    `signals` are those of the newest attempt, `earlier` a few of the attempts before it. `weak` counts tracebacks whose
    exception is cut off.
    """

    failure_class: str
    severity: str
    role: str
    count: int = 0
    weak: int = 0
    signals: list[Signal] = field(default_factory=list)
    earlier: list[Signal] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    by_rank: dict[int, Signal] = field(default_factory=dict)
    last_by_subject: dict[tuple[str, ...], Signal] = field(default_factory=dict)

    @property
    def first(self) -> Signal:
        """The earliest one."""
        return (self.earlier or self.signals)[0]

    @property
    def is_error(self) -> bool:
        """Whether it is more than a warning."""
        return self.severity in ERRORS

    def note(self, signal: Signal) -> None:
        """Add a signal."""
        self.count += 1
        self.weak += is_cut_traceback(signal)
        if len(self.signals) < MAX_KEPT_PER_CLASS:
            self.signals.append(signal)
        if signal.node:
            self.nodes.add(signal.node)
        if signal.rank is not None and len(self.by_rank) < MAX_KEPT_RANKS:
            self.by_rank.setdefault(signal.rank, signal)
        if (about := subject(signal)) in self.last_by_subject or len(self.last_by_subject) < MAX_KEPT_RANKS:
            self.last_by_subject[about] = signal

    def is_over(self, recoveries: Sequence[tuple[Signal, Collection[str]]]) -> bool:
        """Whether a line says soon after each of them that what it is about works again, and nothing is left of it."""
        is_passing = may_pass(self.failure_class)
        of_class = [line for line, classes in recoveries if is_passing and self.failure_class in classes]
        return bool(of_class) and all(
            any(answers(line, signal) for line in of_class) for signal in self.last_by_subject.values()
        )

    def begin_attempt(self) -> None:
        """Move the signals so far to an earlier attempt."""
        self.earlier = [*self.earlier, *self.signals][:MAX_KEPT_OF_EARLIER]
        self.signals = []


@dataclass
class UnnamedMessage:
    """All lines of one template that no rule names."""

    template: str
    first: Signal
    last: Signal
    count: int = 0
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)

    def note(self, signal: Signal) -> None:
        """Add a line."""
        self.last, self.count = signal, self.count + 1
        if signal.node:
            self.nodes.add(signal.node)
        if signal.rank is not None and len(self.ranks) < MAX_KEPT_RANKS:
            self.ranks.add(signal.rank)


@dataclass
class Fact:
    """The first and newest match of a quiet rule, the newest content of each field, and which ranks logged it."""

    first: Match
    newest: Match
    count: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)

    def note(self, match: Match) -> None:
        """Add a match."""
        self.newest, self.count = match, self.count + 1
        self.fields |= {name: content for name, content in match.fields.items() if content}
        if match.event.rank is not None:
            self.ranks.add(match.event.rank)


@dataclass(frozen=True)
class NodeExit:
    """How a node's task ended, by its `NODE_EXIT` line. `task` is -1 if the line has no label."""

    node: str
    code: str
    line: int
    task: int = -1


@dataclass(frozen=True)
class EndedAttempt:
    """An attempt that another one followed, with the signals of its failures."""

    number: int
    last_step: int | None
    signals: tuple[Signal, ...]


@dataclass(frozen=True)
class Marker:
    """The newest part of a step that a rank announced; `batch` is -1 if the line lacks it."""

    name: str
    batch: int = -1


@dataclass
class Story:
    """A job's log (or several files of one job) as it was read; `files[0]` is the log itself, unless it is a folder.

    `job` is its name, if a path, a line or an envelope states it. `jobs` are the names that its lines have in the
    engine, made of the file's name where nothing states it; none for what belongs to no job.

    `faults` say which of its files could not be read to the end, and why.

    `nodes` and `ranks` are those of its matching lines.

    `verdict` is the engine's newest on the job's missing logs. `newest_ns` is the time of the newest line,
    `own_newest_ns` that of the job's, `others_newest_ns` that of other jobs and of the nodes.
    """

    path: str
    job: str = ""
    jobs: frozenset[str] = frozenset()
    files: tuple[str, ...] = ("",)
    is_folder: bool = False
    slurm_id: str = ""
    folder: str = ""
    artifacts: tuple[str, ...] = ()
    lines: int = 0
    dead: int = 0
    first_ns: int | None = None
    newest_ns: int | None = None
    verdict: str = ""
    own_newest_ns: int | None = None
    others_newest_ns: int | None = None
    is_cut_off: bool = False
    faults: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    steps: Steps = field(default_factory=Steps)
    losses: Losses = field(default_factory=Losses)
    last_step_text: str = ""
    findings: dict[str, Finding] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    unnamed: dict[str, UnnamedMessage] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    node_exits: dict[str, NodeExit] = field(default_factory=dict)
    markers: dict[int, Marker] = field(default_factory=dict)
    reported_dead: set[int] = field(default_factory=set)
    step_at: dict[str, int] = field(default_factory=dict)
    ended: list[EndedAttempt] = field(default_factory=list)
    progress_rules: set[str] = field(default_factory=set)
    bars: Bars = field(default_factory=Bars)
    recoveries: deque[tuple[Signal, Collection[str]]] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_RECOVERIES))

    def note(self, match: Match, rules: RuleSet) -> None:
        """Process a match. Pass those of a file in the order of its lines, the log itself first."""
        spec = rules.of(match).spec
        self._note_time(match)
        self._note_speaker(match)
        self._note_node_exit(match)
        if spec.role == "progress":
            self._note_step(match)
            self._note_loss(match, rules)
        elif spec.knows_only_structure:
            self._note_unnamed(signal_of(rules, match))
        elif spec.role in FACT_ROLES:
            self._note_fact(match)
            if spec.clears:
                self.recoveries.append((signal_of(rules, match), spec.clears))
        elif spec.role != "harmless":
            self.note_signal(signal_of(rules, match))

    def note_signal(self, signal: Signal) -> None:
        """Add a signal to the finding of its class."""
        key = ADVICE + signal.failure_class if signal.role == "advice" else signal.failure_class
        finding = self.findings.setdefault(key, Finding(signal.failure_class, signal.severity, signal.role))
        finding.note(signal)
        is_stored = any(signal is stored for stored in finding.signals) or (
            finding.by_rank.get(signal.rank or 0) is signal
        )
        if self.steps.last is not None and is_stored:
            self.step_at[signal.signal_id] = self.steps.last
        if signal.failure_class == _HEARTBEAT:
            self.reported_dead |= tasks_in(" ".join((signal.fields.get("tasks", ""), signal.text, *signal.block)))

    def _note_unnamed(self, signal: Signal) -> None:
        template = signal.fields[TEMPLATE_FIELD]
        message = self.unnamed.pop(template, None) or UnnamedMessage(template, signal, signal)
        message.note(signal)
        self.unnamed[template] = message
        if len(self.unnamed) > MAX_KEPT_UNNAMED:
            del self.unnamed[next(iter(self.unnamed))]

    def suggested(self) -> list[Signal]:
        """The first line of each message that no rule names, but whose words suggest a class."""
        return [message.first for message in self.unnamed.values() if message.first.failure_class != UNNAMED]

    def fact(self, rule: str, name: str) -> str:
        """The newest content of a quiet rule's field; empty if there is none."""
        found = self.facts.get(rule)
        return found.fields.get(name, "") if found else ""

    def failures(self) -> list[Finding]:
        """Findings that report a failure, in the order of their first lines; advice does not, nor what was over soon.

        A traceback whose exception is cut off counts only if nothing else failed.
        """
        failures = [finding for finding in self._failures() if not finding.is_over(self.recoveries)]
        strong = [finding for finding in failures if finding.count > finding.weak]
        return strong or failures

    def _failures(self) -> list[Finding]:
        return [finding for finding in self.findings.values() if finding.role not in ("advice", "finished")]

    def is_dated(self, time_ns: int) -> bool:
        """Whether a time comes from a line of the log, rather than only from the order of lines."""
        return is_known(time_ns)

    def time_of(self, signal: Signal) -> int | None:
        """When a signal was logged; None if no line has a time."""
        return signal.event_time_ns if self.is_dated(signal.event_time_ns) else None

    def node_of(self, rank: int | None) -> str:
        """The node of a task, by the line at its end; empty if unknown."""
        return next((exit_.node for exit_ in self.node_exits.values() if exit_.task == rank), "")

    def is_in_log(self, position: Position | None) -> bool:
        """Whether a position is in the log itself rather than in another file of the job."""
        return position is not None and not self.is_folder and self.files[0] in ("", position.source)

    def follows(self, signal: Signal, line: Position, time_ns: int | None) -> bool:
        """Whether a signal comes after a line: below it in the same file, later than it in another."""
        if signal.position and signal.position.source == line.source:
            return signal.position.offset > line.offset
        signal_ns = self.time_of(signal)
        return signal_ns is not None and time_ns is not None and self.is_dated(time_ns) and signal_ns > time_ns

    def _note_time(self, match: Match) -> None:
        time_ns = match.event.event_time_ns
        if match.event.has_own_time:
            self.first_ns = time_ns if self.first_ns is None else self.first_ns
        if match.event.has_own_time or self.is_dated(time_ns):
            self.newest_ns = max(self.newest_ns or 0, time_ns)
        if cancelled_ns := _cancelled_at_ns(match.event.text):
            self.newest_ns = max(self.newest_ns or 0, cancelled_ns)

    def _note_speaker(self, match: Match) -> None:
        if match.event.node and len(self.nodes) < MAX_KEPT_RANKS:
            self.nodes.add(match.event.node)
        if match.event.rank is not None and len(self.ranks) < MAX_KEPT_RANKS:
            self.ranks.add(match.event.rank)

    def _note_step(self, match: Match) -> None:
        self.progress_rules.add(match.rule)
        event = match.event
        about_ns = event.event_time_ns if self.is_dated(event.event_time_ns) else None
        if self.steps.note(self._with_step(match.fields), event, about_ns):
            self._begin_attempt(keep=STARTS)
        if self.steps.last_line == event.position.offset:
            self.last_step_text = event.text.rstrip("\r").rpartition("\r")[2][:MAX_KEPT_TEXT]

    def _with_step(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        """The fields of a progress line, with the step of a bar that counts training steps."""
        if "step" in fields:
            return fields
        bar, unnamed = scaled_bar_of(fields), bar_of(fields)
        if unnamed and self.bars.note(unnamed, self._known_total()):
            bar = unnamed
        if not (bar or unnamed):
            self.bars.note_report()
        if bar is None:
            return fields
        self.steps.is_rounded |= bar.is_rounded
        first = number_of(fields.get("first_step", str(bar.step)))
        return {**fields, "step": str(bar.step), "steps_total": str(bar.total), "first_step": str(first)}

    def _known_total(self) -> int | None:
        stated = (self.fact(rule, "steps_total") for rule in TOTALS)
        return next(filter(None, map(whole, stated)), self.steps.total if self.steps.is_total_of_job else None)

    def _note_loss(self, match: Match, rules: RuleSet) -> None:
        if not self.losses.jumps(match.fields, whole(match.fields.get("step"))):
            return
        for rule in (rule.spec.id for rule in rules.rules if rule.spec.detect == "loss-jump"):
            jump = msgspec.structs.replace(match, rule=rule, match_id=stable_id(rule, match.match_id))
            self.note_signal(signal_of(rules, jump))

    def _note_fact(self, match: Match) -> None:
        if match.rule == HEADER and (self.steps.last is not None or "job.status" in self.facts):
            self.steps.begin_attempt()
            self._begin_attempt()
        if match.rule in STARTS:
            self.steps.interrupt()
            for other in STARTS:
                self.facts.pop(other, None)
        self.facts.setdefault(match.rule, Fact(match, match)).note(match)
        if match.rule == "jax.accused_task" and _HEARTBEAT in self.findings:
            self.reported_dead |= tasks_in(match.fields.get("tasks", ""))
        if name := match.fields.get("stage_marker", ""):
            batch = match.fields.get("batch", "")
            rank = -1 if match.event.rank is None else match.event.rank
            self.markers[rank] = Marker(name, int(batch) if batch.isdigit() else -1)

    def _begin_attempt(self, keep: tuple[str, ...] = ()) -> None:
        for rule in _OF_ONE_ATTEMPT:
            if rule not in keep:
                self.facts.pop(rule, None)
        if len(self.ended) < MAX_KEPT_ATTEMPTS:
            signals = tuple(signal for finding in self._failures() for signal in finding.signals)
            self.ended.append(EndedAttempt(self.steps.attempts - 1, self.steps.last_before, signals))
        for finding in self.findings.values():
            finding.begin_attempt()
        self.unnamed.clear()
        self.node_exits.clear()
        self.markers.clear()
        self.losses = Losses()

    def _note_node_exit(self, match: Match) -> None:
        fields, event = match.fields, match.event
        if "node" in fields and "exit_code" in fields and "NODE_EXIT" in event.text:
            exit_ = NodeExit(fields["node"], fields["exit_code"], event.position.offset, _or_none(event.rank))
            self.node_exits.setdefault(exit_.node, exit_)


def tasks_in(text: str) -> set[int]:
    """The numbers of JAX tasks that a text names (`/job:jax_worker/replica:0/task:17`)."""
    numbers = (name.partition("/")[0].strip(" ,.:;") for name in text.split("/task:")[1:])
    return {int(number.split()[0]) for number in numbers if number and number.split()[0].isdigit()}


def _cancelled_at_ns(text: str) -> int | None:
    """When Slurm cancelled the job; its time has no zone and counts as UTC, like those of other lines."""
    found = _CANCELLED_AT.search(text)
    try:
        return int(datetime.fromisoformat(f"{found[1]}+00:00").timestamp()) * NS_PER_S if found else None
    except ValueError:
        return None


def _or_none(rank: int | None) -> int:
    return -1 if rank is None else rank
