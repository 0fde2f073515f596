"""The newest records of the raw topic: whether they are what shippers of logs send, and who sends what is not."""

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
from epicenter.stream.checks.finding import Finding, or_all_is_well, problem, warning
from epicenter.stream.checks.topics import length
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.scan.validation import Fault

NAME: Final = "raw records"
SHARE_DEAD: Final = 0.01
SHARE_DEAD_IS_GARBAGE: Final = 0.2
SHARE_WITHOUT: Final = 0.2
FUTURE_MS: Final = 60_000
SHIPPERS: Final = "docs/envelopes.md says which fields are read"
NAMED: Final = 5
NAME_CHARS: Final = 80


class ObservedRecord(msgspec.Struct, frozen=True):
    """A raw record, as far as it matters here. `who` sent it: its node if it tells one, else its key."""

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
        "let the shipper key them by node: its lines stay in order then",
    ),
    (
        lambda record: record.is_plain,
        "are not compressed",
        "set lz4 or zstd in the shipper: a tenth of disk and network",
    ),
)
"""What records of many senders may lack; how that is told, and mended."""


def observed_records(
    batch: Batch, scanner: BatchScanner, now_ms: int, plain: Collection[int] = ()
) -> list[ObservedRecord]:
    """The records of one partition, looked at as a worker would; the offsets of `plain` ones were not compressed."""
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
    """What is wrong with them, with the worst senders by name."""
    text = f"the newest {len(records)}: all can be processed" if records else "there are none yet"
    yield from or_all_is_well(NAME, text, _of(records) if records else ())


def _of(records: Sequence[ObservedRecord]) -> Iterator[Finding]:
    yield from _dead([record for record in records if record.dead], len(records))
    for is_wrong, what, fix in LACKING:
        if len(some := [record for record in records if is_wrong(record)]) > SHARE_WITHOUT * len(records):
            yield warning(NAME, f"{len(some)} of the newest {len(records)} {what}: {_senders(some)}", fix)
    ahead = [record for record in records if record.ahead_ms > FUTURE_MS]
    if ahead:
        most = length(max(record.ahead_ms for record in ahead))
        yield warning(NAME, f"{len(ahead)} come from the future, up to {most}: {_senders(ahead)}", "mend those clocks")


def _dead(dead: Sequence[ObservedRecord], total: int) -> Iterator[Finding]:
    if len(dead) <= SHARE_DEAD * total:
        return
    reason = _most_common_reason([record.dead for record in dead if record.dead])
    text = f"{len(dead)} of the newest {total} become dead letters ({reason}): {_senders(dead)}"
    fix = "mend that shipper, then `epicenter dead-letters replay --all`; docs/envelopes.md says what a record may be"
    make = problem if len(dead) > SHARE_DEAD_IS_GARBAGE * total else warning
    yield make(NAME, text, fix)


def _most_common_reason(faults: Sequence[Fault]) -> str:
    """That of the most common kind."""
    ((kind, _),) = Counter(fault.kind for fault in faults).most_common(1)
    ((reason, _),) = Counter(fault.reason for fault in faults if fault.kind is kind).most_common(1)
    return reason


def _senders(records: Iterable[ObservedRecord]) -> str:
    counts = Counter(record.who or "somebody without node and key" for record in records)
    named = [f"{sanitize(who[:NAME_CHARS])} ({count})" for who, count in counts.most_common(NAMED)]
    return ", ".join(named) + (f" and {len(counts) - NAMED} more" if len(counts) > NAMED else "")
