"""The records of a seed: simulated failures with noise, skewed clocks, implausible times and poison in between."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final, NamedTuple

from epicenter.ingest.simulate import Scenario, simulate
from epicenter.ingest.simulate.faults import fabric, gpu, node, program
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scan.validation import MAX_RECORD_BYTES

LOGS: Final = ("kern.log", "worker.jsonl", "kubernetes-events.jsonl")
"""Files with a time in every line: a second copy of a line is the same line."""

FAULTS: Final = tuple(sorted(kind.name for family in (gpu, node, fabric, program) for kind in family.KINDS))
"""The faults that kernels and workers report in these files."""

AT_ONCE_NS: Final = NS_PER_S // 20
WINDOW_NS: Final = 2 * NS_PER_S
MAX_DELAY_NS: Final = 3 * NS_PER_S
LATENESS_S: Final = 8
"""Windows are sent one after the other, so lines are late by at most a window and a delay."""

SKEWS_S: Final = (-4, -2, 3, 5)
JUMPS_S: Final = (0, 0, -12 * 3600, -3600, -30, 90, 7_200, 12 * 3600)
"""Errors of the clock that stamps Kafka's records: lines with a time must not depend on it."""

FAR_TIMES_S: Final = (-30 * 86_400, -7_200, 40_000)
TIMES_NOT_BELIEVED_S: Final = (3 * 86_400, -50 * 365 * 86_400)
HARMLESS: Final = "kernel: [1.0] usb 1-1: new high-speed USB device number 2 using xhci_hcd"
"""No rule fits it: without a believed time, the id of a match depends on its Kafka position, which differs by run."""

UNTIMED: Final = "untimed"
"""The stream of records that are no lines of a known file."""

POISON: Final = (
    b"",
    None,
    b'{"message": null, "host": "n1"}',
    b'{"log": {"a": 1}}',
    b'{"message": "cut of',
    b'{"host": ' + b"[" * 100_000,
    b'{"message": "' + b"x" * MAX_RECORD_BYTES + b'"}',
)
UNUSUAL_BUT_VALID: Final = (
    b"\xff\xfe\x00 not utf-8",
    b"[1, 2]",
    b'{"step": 1}',
    b'{"message": "lone \\ud800"}',
    b"\x1b[2J\r",
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


class Record(NamedTuple):
    """A shipper's record: `written_ns` is the time of the line, `stream` the file that it comes from.

    Where `depends_on_receipt`, its event time does: no time is stated, or none near it.
    """

    key: str
    value: bytes | None
    written_ns: int
    stream: str
    depends_on_receipt: bool = False


class Feed:
    """All records in the order in which they were written."""

    def __init__(self, seed: int, minutes: float = 1.0):
        draw = Random(f"feed {seed}")
        self.faults = tuple(draw.sample(FAULTS, 2))
        scenario = Scenario(
            nodes=8,
            jobs=3,
            minutes=minutes,
            seed=seed,
            faults=self.faults,
            gpus_per_node=2,
            step_time_s=2.0,
            fault_at_s=60.0,
            after_fault_s=40.0,
            is_tidy=True,
            kernel_noise_per_minute=4.0,
            worker_noise_per_minute=20.0,
        )
        lines = [line for line in simulate(scenario) if line.path.split("/")[1] in LOGS]
        skewed, skew_s = draw.choice(sorted({line.path.split("/")[0] for line in lines})), draw.choice(SKEWS_S)
        self.records = [_record(line.written_ns, line.path, line.text, skewed, skew_s) for line in lines]
        self._add_unusual(draw)

    def delayed(self, draw: Random) -> list[Record]:
        """The records in another order: each file is read late by a different time."""
        delays_ns: dict[str, int] = defaultdict(lambda: draw.randrange(MAX_DELAY_NS))
        return sorted(self.records, key=lambda record: record.written_ns + delays_ns[record.stream])

    def _add_unusual(self, draw: Random) -> None:
        sane = [record for record in self.records if record.stream.endswith("kern.log")]
        for shift_s in (*FAR_TIMES_S, *TIMES_NOT_BELIEVED_S):
            record = draw.choice(sane)
            line = _shifted((record.value or b"").decode(), shift_s)
            if shift_s in TIMES_NOT_BELIEVED_S:
                line = line.partition("kernel: ")[0] + HARMLESS
            self.records.append(record._replace(value=line.encode(), depends_on_receipt=True))
        for value in (*POISON, *POISON, *UNUSUAL_BUT_VALID):
            near = draw.choice(self.records)
            self.records.append(Record(near.key, value, near.written_ns, UNTIMED, depends_on_receipt=True))
        self.records.sort(key=lambda record: record.written_ns)


def jumping(groups: Sequence[Sequence[Record]], draw: Random) -> list[list[Record]]:
    """The groups as stamped by a shipper or broker whose clock jumps back and forth."""
    moved = []
    for group in groups:
        shift_ns = draw.choice(JUMPS_S) * NS_PER_S
        moved.append(
            [
                record if record.depends_on_receipt else record._replace(written_ns=record.written_ns + shift_ns)
                for record in group
            ]
        )
    return moved


def windows(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in groups of a few seconds. Lines that a writer writes at once are in one group."""
    group: list[Record] = []
    bound = _bound_to_next(records)
    for number, record in enumerate(records):
        if group and record.written_ns - group[0].written_ns >= WINDOW_NS and number - 1 not in bound:
            yield group
            group = []
        group.append(record)
    yield group


def _bound_to_next(records: Sequence[Record]) -> set[int]:
    """The places where the sequence must not be cut: some file's next line follows at once."""
    bound: set[int] = set()
    newest: dict[str, int] = {}
    for number, record in enumerate(records):
        before = newest.get(record.stream)
        if before is not None and record.written_ns - records[before].written_ns < AT_ONCE_NS:
            bound.update(range(before, number))
        newest[record.stream] = number
    return bound


def _record(written_ns: int, path: str, text: str, skewed: str, skew_s: int) -> Record:
    node = path.split("/")[0]
    return Record(node, (_shifted(text, skew_s) if node == skewed else text).encode(), written_ns, path)


def _shifted(text: str, shift_s: int) -> str:
    """The line as a clock that is ahead by so much would have stamped it."""

    def shift(found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(found[0]) + timedelta(seconds=shift_s)
        return moved.isoformat(sep=found[0][10], timespec="seconds")

    return _ISO.sub(shift, text)
