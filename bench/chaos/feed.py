"""The records of a seed: simulated failures with noise, skewed clocks, odd times and poison in between."""

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
"""Files whose every line states its time: a second copy of one is the same line."""

FAULTS: Final = tuple(sorted(one.name for family in (gpu, node, fabric, program) for one in family.KINDS))
"""Those that kernels and workers tell of, in the files below."""

AT_ONCE_NS: Final = NS_PER_S // 20
WINDOW_NS: Final = 2 * NS_PER_S
MAX_DELAY_NS: Final = 3 * NS_PER_S
LATENESS_S: Final = 8
"""Windows are sent one after the other, so lines come late by a window and a delay at most."""

SKEWS_S: Final = (-4, -2, 3, 5)
JUMPS_S: Final = (0, 0, -12 * 3600, -3600, -30, 90, 7_200, 12 * 3600)
"""So much the clock that stamps Kafka's records may be off: what states a time of its own must not feel it."""

ODD_TIMES_S: Final = (-30 * 86_400, -7_200, 40_000)
TIMES_NOT_BELIEVED_S: Final = (3 * 86_400, -50 * 365 * 86_400)
HARMLESS: Final = "kernel: [1.0] usb 1-1: new high-speed USB device number 2 using xhci_hcd"
"""What is said without a time of its own has an id by its place in Kafka, which is another one in every run."""

ODD: Final = "odd"
"""The stream of what has no time of its own, or none that is believed: the time of its receipt counts."""

POISON: Final = (
    b"",
    None,
    b'{"message": null, "host": "n1"}',
    b'{"log": {"a": 1}}',
    b'{"message": "cut of',
    b'{"host": ' + b"[" * 100_000,
    b'{"message": "' + b"x" * MAX_RECORD_BYTES + b'"}',
)
ODD_BUT_FINE: Final = (
    b"\xff\xfe\x00 not utf-8",
    b"[1, 2]",
    b'{"step": 1}',
    b'{"message": "lone \\ud800"}',
    b"\x1b[2J\r",
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


class Record(NamedTuple):
    """What a shipper sends: `written_ns` is its own time, `stream` the file that it reads."""

    key: str
    value: bytes | None
    written_ns: int
    stream: str


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
        self._add_odd(draw)

    def delayed(self, draw: Random) -> list[Record]:
        """The records in another order: each file is read late by a time of its own."""
        delays_ns: dict[str, int] = defaultdict(lambda: draw.randrange(MAX_DELAY_NS))
        return sorted(self.records, key=lambda one: one.written_ns + delays_ns[one.stream])

    def _add_odd(self, draw: Random) -> None:
        sane = [one for one in self.records if one.stream.endswith("kern.log")]
        for shift_s in (*ODD_TIMES_S, *TIMES_NOT_BELIEVED_S):
            one = draw.choice(sane)
            line = _shifted((one.value or b"").decode(), shift_s)
            if shift_s in TIMES_NOT_BELIEVED_S:
                line = line.partition("kernel: ")[0] + HARMLESS
            self.records.append(one._replace(value=line.encode(), stream=ODD))
        for value in (*POISON, *POISON, *ODD_BUT_FINE):
            near = draw.choice(self.records)
            self.records.append(Record(near.key, value, near.written_ns, ODD))
        self.records.sort(key=lambda one: one.written_ns)


def jumping(groups: Sequence[Sequence[Record]], draw: Random) -> list[list[Record]]:
    """The groups as a shipper or broker stamps them whose clock jumps back and forth."""
    moved = []
    for group in groups:
        shift_ns = draw.choice(JUMPS_S) * NS_PER_S
        moved.append(
            [one if one.stream == ODD else one._replace(written_ns=one.written_ns + shift_ns) for one in group]
        )
    return moved


def windows(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in groups of a few seconds. What one writer writes in one go stands in one group."""
    group: list[Record] = []
    bound = _bound_to_next(records)
    for number, one in enumerate(records):
        if group and one.written_ns - group[0].written_ns >= WINDOW_NS and number - 1 not in bound:
            yield group
            group = []
        group.append(one)
    yield group


def _bound_to_next(records: Sequence[Record]) -> set[int]:
    """The places where the sequence must not be cut: some file's next line follows at once."""
    bound: set[int] = set()
    newest: dict[str, int] = {}
    for number, one in enumerate(records):
        before = newest.get(one.stream)
        if before is not None and one.written_ns - records[before].written_ns < AT_ONCE_NS:
            bound.update(range(before, number))
        newest[one.stream] = number
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
