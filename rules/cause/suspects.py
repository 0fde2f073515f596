"""Which rank the others wait for, from logs alone: named, absent, at another collective, or behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import ClassVar, Final, Literal, get_args

import msgspec
from msgspec import structs

from epicenter.rules.cause.absence import Sources, absence, node_finder
from epicenter.rules.cause.collectives import FINGERPRINT, LOCAL, UNGROUPED, CollectiveTable, NamedBy, Row
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.model.signals import Signal

MAX_SUSPECTS: Final = 64
"""At most this many suspects of a job, lowest ranks first."""

SuspectKind = Literal["named", "absent", "mismatch", "behind"]
KINDS: Final[tuple[SuspectKind, ...]] = get_args(SuspectKind)
"""The kinds of evidence against a rank, strongest first."""

WAITING_CLASSES: Final = ("nccl-timeout", "gloo-error", "heartbeat-timeout", "hang", "hang-py-spy")
"""Classes whose reporter waits for another rank, so it is rarely the culprit."""

NodesByJob = Mapping[str, Mapping[int, str]]
"""The nodes of the ranks of each job, as far as known."""

_EQUAL_SIZED: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BARRIER")


class Operation(msgspec.Struct, frozen=True, order=True):
    """A collective operation; `sizes` is empty if ranks may pass different ones."""

    name: str
    sizes: str


class Named(msgspec.Struct, frozen=True):
    """A report names the rank."""

    kind: ClassVar[SuspectKind] = "named"
    report: NamedBy


class Absent(msgspec.Struct, frozen=True):
    """The rank never reported the timeout, although `reported` of the `members` that should have did."""

    kind: ClassVar[SuspectKind] = "absent"
    reported: int
    members: int


class Mismatch(msgspec.Struct, frozen=True):
    """The rank runs another operation than the others; `group` is empty if no line names it."""

    kind: ClassVar[SuspectKind] = "mismatch"
    runs: Operation
    usual: Operation
    group: str


class Behind(msgspec.Struct, frozen=True):
    """The rank got no further than the collective `last`, while others wait in `newest`.

    `has_enqueued`: all ranks enqueued `newest`, so the rank still waits in `last`; otherwise `last` is the last that it
    enqueued.
    """

    kind: ClassVar[SuspectKind] = "behind"
    last: int
    newest: int
    group: str
    has_enqueued: bool


Against = Named | Absent | Mismatch | Behind
"""Evidence against a rank."""


@dataclass(frozen=True)
class Suspect:
    """A rank that the others may wait for, with the evidence. `node` is empty if unknown."""

    job: str
    rank: int
    evidence: Against
    node: str = ""

    @property
    def kind(self) -> SuspectKind:
        """The kind of evidence against it."""
        return self.evidence.kind


@dataclass(frozen=True)
class Suspects:
    """The suspects that the strongest evidence names, all of one job, lowest rank first."""

    suspects: tuple[Suspect, ...]

    @property
    def job(self) -> str:
        """Their job."""
        return self.suspects[0].job

    @property
    def kind(self) -> SuspectKind:
        """The kind of evidence against them."""
        return self.suspects[0].kind

    @property
    def nodes(self) -> frozenset[str]:
        """Where they run, as far as known."""
        return frozenset(suspect.node for suspect in self.suspects if suspect.node)

    @cached_property
    def node(self) -> str:
        """The one node that all of them run on, else empty."""
        return next(iter(self.nodes)) if len({suspect.node for suspect in self.suspects}) == 1 and self.nodes else ""

    @property
    def rank(self) -> int | None:
        """The rank, if there is only one; else None."""
        return self.suspects[0].rank if len(self.suspects) == 1 else None

    def accuse(self, signal: Signal) -> bool:
        """Whether a signal is likelier a cause because it comes from a suspect that does not wait itself."""
        return signal.failure_class not in WAITING_CLASSES and self._is_about(signal)

    def exonerate(self, signal: Signal) -> bool:
        """Whether a signal comes from another node than the one where all suspects run."""
        return signal.node not in ("", self.node or signal.node)

    def culprit_of(self, signal: Signal) -> Signal:
        """The signal; one of the suspects' job that only waited gets their rank and node."""
        if signal.failure_class not in WAITING_CLASSES or signal.job != self.job:
            return signal
        return structs.replace(signal, node=self.node, rank=self.rank, gpu="")

    def _is_about(self, signal: Signal) -> bool:
        if signal.rank is not None and signal.job == self.job:
            return any(suspect.rank == signal.rank for suspect in self.suspects)
        return bool(self.node) and signal.node == self.node


def suspects(table: CollectiveTable, context: IncidentContext = NO_CONTEXT) -> list[Suspect]:
    """The suspects of every job, strongest evidence first, then by job and rank.

    The strongest evidence is a report that names ranks. Then comes a rank that never reported the timeout, among those
    that should have (`absence`); then another operation or size in the same collective; then a rank that enqueued, or
    at least completed, less than the others of its process group. Evidence against more than half of the ranks is
    ignored.
    """
    levels = _by_strength(table, _nodes_by_job(table, context), context)
    return _first_of_each_rank(suspect for level in levels for suspect in level)


def strongest_suspects(table: CollectiveTable, context: IncidentContext = NO_CONTEXT) -> Suspects | None:
    """The suspects with the strongest evidence, with their nodes; None without any.

    If the placement of a rank is unknown, a rank between two ranks of one node is assumed to run there too, and ranks
    that never reported are assumed to run on the only node of the job without a rank whose place is known.
    """
    nodes_by_job = _nodes_by_job(table, context)
    found = _first_of_each_rank(next(filter(None, _by_strength(table, nodes_by_job, context)), []))
    if not found:
        return None
    first = found[0]
    chosen = [suspect for suspect in found if (suspect.job, suspect.kind) == (first.job, first.kind)]
    nodes = nodes_by_job[first.job]
    node_of, silent = node_finder(nodes), _sources(first.job, nodes, context).silent_nodes
    fallback = next(iter(silent)) if first.kind == "absent" and len(silent) == 1 else ""
    return Suspects(
        tuple(replace(suspect, node=suspect.node or node_of(suspect.rank) or fallback) for suspect in chosen)
    )


def _by_strength(table: CollectiveTable, nodes_by_job: NodesByJob, context: IncidentContext) -> Iterator[list[Suspect]]:
    """The suspects of every job that are named, then those that are absent, then those out of step."""
    members = {job: _members(table, job, context) for job in nodes_by_job}
    yield [suspect for job in nodes_by_job for suspect in _named(table, job, members[job])]
    yield [
        suspect for job, nodes in nodes_by_job.items() for suspect in _absent(table, job, members[job], nodes, context)
    ]
    yield [suspect for job in nodes_by_job for suspect in _out_of_step(table, job)]


def _sources(job: str, nodes: Mapping[int, str], context: IncidentContext) -> Sources:
    """Where the job's lines come from; `silent_nodes` have no rank whose place is known."""
    mute = frozenset(context.mute_nodes_by_job.get(job, ())) | set(context.unheard_nodes_by_job.get(job, ()))
    return Sources(
        speakers=frozenset(context.speaking_ranks_by_job.get(job, ())),
        placed=frozenset(context.seen_ranks_by_job.get(job, ())),
        silent_nodes=frozenset(context.nodes_by_job.get(job, ())) - set(nodes.values()) - mute,
        mute_nodes=mute,
    )


def _nodes_by_job(table: CollectiveTable, context: IncidentContext) -> NodesByJob:
    return {job: _nodes_by_rank(table, job, context) for job in table.jobs()}


def _nodes_by_rank(table: CollectiveTable, job: str, context: IncidentContext) -> dict[int, str]:
    places: dict[int, tuple[int, str]] = {}
    for rows in table.groups(job).values():
        for rank, row in rows.items():
            if row.place and (rank not in places or row.place < places[rank]):
                places[rank] = row.place
    of_rows = {rank: node for rank, (_, node) in places.items()}
    return of_rows | {rank: node for (other, rank), node in context.node_of_rank.items() if other == job}


def _first_of_each_rank(found: Iterable[Suspect]) -> list[Suspect]:
    """The strongest evidence first, then by job and rank; of a job, the first `MAX_SUSPECTS` ranks."""
    by_job: dict[str, dict[int, Suspect]] = {}
    for suspect in found:
        by_job.setdefault(suspect.job, {}).setdefault(suspect.rank, suspect)
    kept = [suspect for of_job in by_job.values() for suspect in islice(of_job.values(), MAX_SUSPECTS)]
    return sorted(kept, key=lambda suspect: (KINDS.index(suspect.kind), suspect.job, suspect.rank))


def _members(table: CollectiveTable, job: str, context: IncidentContext) -> set[int]:
    """The ranks that the job must have, including those that only a report names."""
    ranks = {rank for rows in table.groups(job).values() for rank in rows} | set(table.named_by_job.get(job, ()))
    size = max(context.world_size_by_job.get(job, 0), max(ranks, default=-1) + 1)
    return set(range(size)) | set(context.seen_ranks_by_job.get(job, ()))


def _is_minority(count: int, of: int) -> bool:
    return 0 < 2 * count <= of


def _named(table: CollectiveTable, job: str, members: set[int]) -> list[Suspect]:
    named = table.named_by_job.get(job, {})
    if not _is_minority(len(named), len(members)):
        return []
    return [Suspect(job, rank, Named(named[rank])) for rank in sorted(named)]


def _absent(
    table: CollectiveTable, job: str, members: set[int], nodes: Mapping[int, str], context: IncidentContext
) -> list[Suspect]:
    reported = {rank for rows in table.groups(job).values() for rank in rows}
    found = absence(reported, members, node_finder(nodes), _sources(job, nodes, context))
    evidence = Absent(len(reported), found.expected)
    return [Suspect(job, rank, evidence) for rank in found.ranks]


def _out_of_step(table: CollectiveTable, job: str) -> list[Suspect]:
    groups = _comparable(table.groups(job))
    others = [suspect for group, rows in groups.items() for suspect in _differing(job, group, rows)]
    return others + [suspect for group, rows in groups.items() for suspect in _behind(job, group, rows)]


def _comparable(groups: Mapping[str, Mapping[int, Row]]) -> dict[str, Mapping[int, Row]]:
    """Groups whose numbers can be compared across ranks.

    Lines that name no group belong to the group in which their rank reports the same collective; if no line names a
    group, they are one.
    """
    numbered = set(groups) - {UNGROUPED, FINGERPRINT, LOCAL}
    ungrouped = groups.get(UNGROUPED, {})
    named = {group: _with_operations(groups[group], ungrouped) for group in sorted(numbered)}
    alone = {FINGERPRINT} if named or LOCAL in groups else {FINGERPRINT, UNGROUPED}
    return named | {group: rows for group, rows in groups.items() if group in alone}


def _with_operations(rows: Mapping[int, Row], ungrouped: Mapping[int, Row]) -> Mapping[int, Row]:
    return {rank: _with_operation(row, ungrouped.get(rank)) for rank, row in rows.items()} if ungrouped else rows


def _with_operation(row: Row, ungrouped: Row | None) -> Row:
    if row.work and ungrouped and ungrouped.work and row.work.seq == ungrouped.work.seq:
        return Row(row.place, ungrouped.work, row.reached)
    return row


def _differing(job: str, group: str, rows: Mapping[int, Row]) -> list[Suspect]:
    """Ranks whose operation or size in the collective that most ranks wait in is not the usual one."""
    operations = _operations(rows)
    counts = Counter(operations.values()).most_common(2)
    if len(counts) < 2 or counts[0][1] == counts[1][1]:
        return []
    usual = counts[0][0]
    differing = sorted(rank for rank, operation in operations.items() if operation != usual)
    if not _is_minority(len(differing), len(operations)):
        return []
    name = _name(group)
    return [Suspect(job, rank, Mismatch(operations[rank], usual, name), rows[rank].node) for rank in differing]


def _operations(rows: Mapping[int, Row]) -> dict[int, Operation]:
    """What each rank runs in the collective that most of them wait in."""
    works = {rank: row.work for rank, row in rows.items() if row.work and row.work.op}
    counts = Counter(work.seq for work in works.values())
    usual = max(counts, key=lambda seq: (counts[seq], seq), default=-1)
    return {
        rank: Operation(work.op, work.sizes if work.op in _EQUAL_SIZED else "")
        for rank, work in works.items()
        if work.seq == usual
    }


def _name(group: str) -> str:
    return "" if group in (UNGROUPED, FINGERPRINT) else group


def _behind(job: str, group: str, rows: Mapping[int, Row]) -> list[Suspect]:
    """Ranks that did not enqueue the collective in which others wait; if all did, those that completed the least."""
    waits = {rank: number for rank, row in rows.items() if (number := _waits_in(row)) is not None}
    newest = max(waits.values(), default=0)
    enqueued = {rank: row.reached.last_enqueued for rank, row in rows.items() if row.reached}
    lowest = min(enqueued.values(), default=newest)
    has_enqueued = lowest >= newest
    if has_enqueued:
        enqueued, lowest = waits, min(waits.values(), default=newest)
    behind = sorted(rank for rank, number in enqueued.items() if number == lowest < newest)
    if not _is_minority(len(behind), len(rows)):
        return []
    evidence = Behind(lowest, newest, _name(group), has_enqueued)
    return [Suspect(job, rank, evidence, rows[rank].node) for rank in behind]


def _waits_in(row: Row) -> int | None:
    """The collective that a rank waits in; None if it waits in none or its lines don't show it."""
    if row.work:
        return row.work.seq
    reached = row.reached
    return reached.last_completed + 1 if reached and reached.last_enqueued > reached.last_completed else None
