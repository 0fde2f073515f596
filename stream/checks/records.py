"""The newest records of the raw topic: whether they are well-formed, and who sends those that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.parse.envelope import parse
from epicenter.rules.errors import RecordError
from epicenter.rules.model.records import RawRecord
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.checks.finding import Finding, or_ok, problem, warning
from epicenter.stream.checks.topics import length
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scan.validation import Fault

NAME: Final = "raw records"
WARNING_DEAD_SHARE: Final = 0.01
PROBLEM_DEAD_SHARE: Final = 0.2
WARNING_LACKING_SHARE: Final = 0.2
FUTURE_MS: Final = 60_000
SHIPPERS: Final = "docs/envelopes.md lists the fields that epicenter reads"
NAMED: Final = 5
NAME_CHARS: Final = 80


class ObservedRecord(msgspec.Struct, frozen=True):
    """A raw record, as far as it matters here. `who` is its sender: its node if it names one, else its key."""

    who: str
    has_key: bool
    has_node: bool
    has_time: bool
    ahead_ms: int = 0
    dead: Fault | None = None
    is_plain: bool = False


LACKING: Final[tuple[tuple[Callable[[ObservedRecord], bool], str, str], ...]] = (
    (lambda record: not record.has_node, "name no node", f"let the shipper add `host`: {SHIPPERS}"),
    (lambda record: not record.has_time, "state no time", f"let the shipper add `timestamp`: {SHIPPERS}"),
    (
        lambda record: not record.has_key,
        "have no key",
        "let the shipper use the node as key: this keeps a node's lines in order",
    ),
    (
        lambda record: record.is_plain,
        "are not compressed",
        "set lz4 or zstd in the shipper: this needs a tenth of disk and network",
    ),
)
"""What records may lack, how the finding puts it, and the fix."""


def observed_records(
    batch: Batch, scanner: BatchScanner, now_ms: int, plain: Collection[int] = ()
) -> list[ObservedRecord]:
    """The records of one partition, scanned as by a worker; those with an offset in `plain` were not compressed."""
    dead = {
        dead_letter.position.offset: Fault(dead_letter.kind, dead_letter.reason)
        for dead_letter in scanner.scan(batch).dead_letters
    }
    return [_observed(batch.record(number), dead, now_ms, plain) for number in range(len(batch))]


def _observed(record: RawRecord, dead: dict[int, Fault], now_ms: int, plain: Collection[int]) -> ObservedRecord:
    key = record.key.decode("utf-8", "replace") if record.key else ""
    node, has_time = key, False
    with suppress(RecordError):
        event = parse(record, "").event
        node, has_time = event.node, event.has_own_time
    return ObservedRecord(
        who=node or key,
        has_key=record.key is not None,
        has_node=bool(node),
        has_time=has_time,
        ahead_ms=max(0, record.received_ns // 1_000_000 - now_ms),
        dead=dead.get(record.position.offset),
        is_plain=record.position.offset in plain,
    )


def record_findings(records: Sequence[ObservedRecord]) -> Iterator[Finding]:
    """Their findings, with the worst senders by name."""
    text = f"the newest {len(records)}: all can be processed" if records else "none yet"
    yield from or_ok(NAME, text, _of(records) if records else ())


def _of(records: Sequence[ObservedRecord]) -> Iterator[Finding]:
    yield from _dead([record for record in records if record.dead], len(records))
    for is_wrong, what, fix in LACKING:
        if len(some := [record for record in records if is_wrong(record)]) > WARNING_LACKING_SHARE * len(records):
            yield warning(NAME, f"{len(some)} of the newest {len(records)} {what}: {_senders(some)}", fix)
    ahead = [record for record in records if record.ahead_ms > FUTURE_MS]
    if ahead:
        most = length(max(record.ahead_ms for record in ahead))
        yield warning(
            NAME, f"{len(ahead)} are ahead of the clock, by up to {most}: {_senders(ahead)}", "fix the senders' clocks"
        )


def _dead(dead: Sequence[ObservedRecord], total: int) -> Iterator[Finding]:
    if len(dead) <= WARNING_DEAD_SHARE * total:
        return
    reason = _most_common_reason([record.dead for record in dead if record.dead])
    text = f"{len(dead)} of the newest {total} become dead letters ({reason}): {_senders(dead)}"
    fix = "fix that shipper, then run `epicenter dead-letters replay --all`; docs/envelopes.md describes valid records"
    make = problem if len(dead) > PROBLEM_DEAD_SHARE * total else warning
    yield make(NAME, text, fix)


def _most_common_reason(faults: Sequence[Fault]) -> str:
    """The most common reason of the most common kind."""
    ((kind, _),) = Counter(fault.kind for fault in faults).most_common(1)
    ((reason, _),) = Counter(fault.reason for fault in faults if fault.kind is kind).most_common(1)
    return reason


def _senders(records: Iterable[ObservedRecord]) -> str:
    counts = Counter(record.who or "a sender without node and key" for record in records)
    named = [f"{sanitize(who[:NAME_CHARS])} ({count})" for who, count in counts.most_common(NAMED)]
    return ", ".join(named) + (f" and {len(counts) - NAMED} more" if len(counts) > NAMED else "")
