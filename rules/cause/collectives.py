"""How far each rank got in its collectives, from the ranks' own timeout reports."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from epicenter.rules.model.signals import Signal

MAX_RANKS: Final = 1 << 16
"""A table has room for the ranks from 0 up to this number, exclusive, of a process group."""

MAX_ROWS: Final = 2 * MAX_RANKS
"""Rows over all groups of a table."""

UNGROUPED: Final = "-"
"""The group of lines that name none. Before PyTorch 2.2 none does; later the line after the timeout names it."""

LOCAL: Final = "?"
"""The group of lines with a number but no GUID: each process counts its groups, so only 0 spans all ranks."""

FINGERPRINT: Final = "fingerprint"
"""The group of collectives as TORCH_DISTRIBUTED_DEBUG=DETAIL numbers them."""

REPORTING_CLASSES: Final = ("nccl-timeout",)
"""Ranks that report one of these were still running at the timeout."""


class NamedBy(StrEnum):
    """Which report names a rank. Snapshots have the values, so they stay; `rules.report.reason_text` has the words."""

    TIMEOUT_REPORT = "the timeout report names it as lagging"
    DESYNC_REPORT = "the report names it as missing"
    STRAGGLER_REPORT = "the job's own straggler report names it"


NAMING_FIELDS: Final = {
    "lagging_ranks": NamedBy.TIMEOUT_REPORT,
    "missing_ranks": NamedBy.DESYNC_REPORT,
    "slow_ranks": NamedBy.STRAGGLER_REPORT,
}
"""Fields with ranks that a report names as suspects, with the kind of report."""

_REPORT_FIELDS: Final = {"seq", "last_enqueued", "op_a", *NAMING_FIELDS}
_BREAK: Final = "\x1f"
_LABELLED_RANK = re.compile(r"rank=(\d+)|(?<!\d)(\d+): ?\[")
_PLAIN_RANK = re.compile(r"\d+")
_NUMBER = re.compile(r"-?\d{1,18}")


class Work(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The collective that a rank waited in. `seq` counts within the process group; fields that a line lacks are empty.

    `sizes` is NumelIn, or the shape before PyTorch 2.0.
    """

    event_time_ns: int
    seq: int
    op: str = ""
    sizes: str = ""


class Reached(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The last collectives that a rank had enqueued and completed; -1 before the first."""

    event_time_ns: int
    last_enqueued: int
    last_completed: int


class Row(msgspec.Struct, gc=False):
    """The first report of one rank. For each part the earliest line counts, so later attempts change nothing."""

    place: tuple[int, str] | None = None
    work: Work | None = None
    reached: Reached | None = None

    def merge(self, other: Row) -> None:
        """Take each part from the other row if it is earlier."""
        if other.place:
            self.place = min(self.place or other.place, other.place)
        if other.work:
            self.work = min(self.work or other.work, other.work, key=_with_operation_first)
        if other.reached:
            self.reached = min(self.reached or other.reached, other.reached)

    @property
    def node(self) -> str:
        """Where the rank ran; empty if unknown."""
        return self.place[1] if self.place else ""


def _with_operation_first(work: Work) -> tuple[bool, Work]:
    return (not work.op, work)


class CollectiveTable(msgspec.Struct):
    """Per job and process group: rank -> row. Per job: the ranks that a report names, with the report.

    The order of adding changes nothing. Bounded: ranks from `MAX_RANKS` on are skipped. Above `MAX_ROWS` rows, the
    groups that sort last (by job, then group) are dropped whole, for good.
    """

    rows_by_group: dict[str, dict[int, Row]] = {}
    named_by_job: dict[str, dict[int, NamedBy]] = msgspec.field(default_factory=dict, name="blamed_by_job")
    row_count: int = 0
    given_up_from: str = ""

    def add(self, signal: Signal) -> None:
        """Add a signal; a signal without a collective changes nothing."""
        if signal.failure_class not in REPORTING_CLASSES and _REPORT_FIELDS.isdisjoint(signal.fields):
            return
        for field, report in NAMING_FIELDS.items():
            for rank in ranks_in(signal.fields[field]) if field in signal.fields else ():
                named = self.named_by_job.setdefault(signal.job, {})
                named[rank] = min(named.get(rank, report), report)
        for group, rank, row in _rows(signal):
            self._merge_row(group_key(signal.job, group), rank, row)

    def absorb(self, other: CollectiveTable) -> None:
        """Add everything in another table."""
        if other.given_up_from:
            self._give_up_from(min(self.given_up_from or other.given_up_from, other.given_up_from))
        for key, rows in other.rows_by_group.items():
            for rank, row in rows.items():
                self._merge_row(key, rank, row)
        for job, theirs in other.named_by_job.items():
            ours = self.named_by_job.setdefault(job, {})
            for rank, report in theirs.items():
                ours[rank] = min(ours.get(rank, report), report)

    def jobs(self) -> list[str]:
        """The jobs in the table, sorted."""
        return sorted({key.split(_BREAK)[0] for key in self.rows_by_group} | self.named_by_job.keys())

    def groups(self, job: str) -> dict[str, dict[int, Row]]:
        """The process groups of a job, in order."""
        prefix = group_key(job, "")
        found = {key: rows for key, rows in self.rows_by_group.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): found[key] for key in sorted(found)}

    def _merge_row(self, key: str, rank: int, row: Row) -> None:
        if not 0 <= rank < MAX_RANKS or (self.given_up_from and key >= self.given_up_from):
            return
        rows = self.rows_by_group.setdefault(key, {})
        if rank in rows:
            rows[rank].merge(row)
            return
        rows[rank] = Row(row.place, row.work, row.reached)
        self.row_count += 1
        if self.row_count > MAX_ROWS:
            self._give_up_from(max(self.rows_by_group))

    def _give_up_from(self, key: str) -> None:
        self.given_up_from = key
        for dropped_key in [group for group in self.rows_by_group if group >= key]:
            self.row_count -= len(self.rows_by_group.pop(dropped_key))


def names(report: Signal, signal: Signal) -> bool:
    """Whether a report names the rank of a signal of its job as the one that the others wait for."""
    if signal.rank is None or report.job != signal.job or NAMING_FIELDS.keys().isdisjoint(report.fields):
        return False
    return any(signal.rank in ranks_in(report.fields.get(field, "")) for field in NAMING_FIELDS)


def group_key(job: str, group: str) -> str:
    """The key of a process group of a job; keys sort by job, then group."""
    return f"{job}{_BREAK}{group}"


def ranks_in(text: str) -> list[int]:
    """The ranks of a list such as `3, 11`, `3: [tensor a], 11: [tensor b]` or `{StragglerId(rank=3, ...)}`."""
    if not text:
        return []
    if "[" in text or "=" in text:
        found = [number or index for number, index in _LABELLED_RANK.findall(text)]
    else:
        found = _PLAIN_RANK.findall(text)
    return [int(number) for number in found if len(number) < 6 and int(number) < MAX_RANKS]


def _rows(signal: Signal) -> list[tuple[str, int, Row]]:
    """The (group, rank, row) triples in the signal."""
    fields = signal.fields
    if "op_a" in fields and "op_b" in fields:
        ranks = [(side, _number(fields.get(f"rank_{side}", ""))) for side in "ab"]
        return [(FINGERPRINT, rank, _fingerprint(signal, side)) for side, rank in ranks if rank is not None]
    group = _group(fields)
    rank = _rank(signal, group)
    row = Row(_place(signal, signal.node), _work(signal), _reached(signal))
    is_report = signal.failure_class in REPORTING_CLASSES and signal.role != "advice"
    if rank is None or not (row.work or row.reached or is_report):
        return []
    return [(group, rank, row)]


def _group(fields: dict[str, str]) -> str:
    number = fields.get("group", "")
    return fields.get("group_guid") or (LOCAL if number not in ("", "0") else number or UNGROUPED)


def _rank(signal: Signal, group: str) -> int | None:
    """The rank within the whole job; group 0 has all ranks, so its ranks are those of the job."""
    if signal.rank is not None:
        return signal.rank
    return _number(signal.fields.get("group_rank", "")) if group == "0" else None


def _place(signal: Signal, node: str) -> tuple[int, str] | None:
    return (signal.event_time_ns, node) if node else None


def _work(signal: Signal) -> Work | None:
    fields = signal.fields
    seq = _number(fields.get("seq", ""))
    if seq is None:
        return None
    return Work(signal.event_time_ns, seq, fields.get("op", ""), fields.get("numel") or fields.get("shape", ""))


def _reached(signal: Signal) -> Reached | None:
    enqueued = _number(signal.fields.get("last_enqueued", ""))
    completed = _number(signal.fields.get("last_completed", ""))
    if enqueued is None or completed is None:
        return None
    return Reached(signal.event_time_ns, enqueued, completed)


def _fingerprint(signal: Signal, side: str) -> Row:
    fields = signal.fields
    seq = _number(fields.get(f"seq_{side}", ""))
    node = signal.node if signal.rank is not None and fields.get(f"rank_{side}") == str(signal.rank) else ""
    work = Work(signal.event_time_ns, seq or 0, fields.get(f"op_{side}", ""), fields.get(f"shape_{side}", ""))
    return Row(_place(signal, node), work)


def _number(text: str) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None
