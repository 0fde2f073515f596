"""The lines of a scenario, written out one by one: source, text, time and log file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scenarios.notation import ALL_RANKS
from epicenter.stream.scenarios.shippers import WrittenLine, iso, record_of
from epicenter.stream.scenarios.spec import SHIPPERS_OF, LineSpec, ScenarioSpec, StepSpec

GPU_SLOTS: Final = ("18:00", "2a:00", "3a:00", "5d:00", "9a:00", "ab:00", "ba:00", "db:00")
"""Bus and device of a node's GPUs by local rank, as on a common board with eight of them."""

NS_PER_US: Final = 1000

_PLACEHOLDER = re.compile(r"\{([a-z_0-9]+)\}")


class Line(msgspec.Struct, frozen=True):
    """One record. `file` and `number` (from 1) are its position, however it arrives."""

    time_ns: int
    file: str
    number: int
    key: bytes | None
    value: bytes


def written_out(spec: ScenarioSpec) -> list[list[Line]]:
    """The lines of each step, in the order of their times; those of one file never change their order."""
    numbers: Counter[str] = Counter()
    return [[_line(written, numbers) for written in _lines_of_step(spec, step)] for step in spec.all_steps]


def _line(written: WrittenLine, numbers: Counter[str]) -> Line:
    file = _file_of(written)
    numbers[file] += 1
    return Line(written.time_ns, file, numbers[file], written.node.encode() or None, record_of(written))


def _file_of(written: WrittenLine) -> str:
    """A node has a kernel log and a log for each job; a scheduler and an API server have a log each."""
    name = written.job if written.source == "worker" and written.job else written.source
    place = written.node if written.source in ("kernel", "worker") else ""
    return "/".join(filter(None, (place, f"{name}.log")))


def _lines_of_step(spec: ScenarioSpec, step: StepSpec) -> list[WrittenLine]:
    texts = [text for line in step.lines for text in _written_lines(spec, line)]
    return [written for text in sorted(texts, key=lambda text: text[0].time_ns) for written in text]


def _written_lines(spec: ScenarioSpec, line: LineSpec) -> Iterator[list[WrittenLine]]:
    """For each time and each writer, the lines of the text, a microsecond apart."""
    writers = _writers_of(spec, line)
    pause_ns = line.spread // len(writers)
    job = spec.jobs.get(line.job)
    shipper = line.shipper or (job.shipper if job and line.source == "worker" else None) or SHIPPERS_OF[line.source][0]
    for count, offset_ns in enumerate(line.offsets_ns):
        for number, (node, rank) in enumerate(writers):
            time_ns = spec.starts + offset_ns + number * pause_ns
            fields = _fields(spec, line, node, rank, time_ns, line.step + count * line.stride)
            texts = _filled(line.text, fields).rstrip("\n").split("\n")
            yield [
                WrittenLine(time_ns + later * NS_PER_US, text, line.source, shipper, node, line.job, rank)
                for later, text in enumerate(texts)
            ]


def _writers_of(spec: ScenarioSpec, line: LineSpec) -> Sequence[tuple[str, int | None]]:
    job = spec.jobs.get(line.job)
    if job and line.ranks:
        ranks = range(job.world_size) if line.ranks == ALL_RANKS else line.ranks
        return [(job.node_of(int(rank)), int(rank)) for rank in ranks]
    return [(node, None) for node in line.on] or [("", None)]


def _fields(
    spec: ScenarioSpec, line: LineSpec, node: str, rank: int | None, time_ns: int, step: int
) -> dict[str, object]:
    job = spec.jobs.get(line.job)
    local_rank = (rank or 0) % (job.ranks_per_node if job else 1)
    slot = GPU_SLOTS[local_rank % len(GPU_SLOTS)]
    clock = iso(time_ns)
    return {
        "step": step,
        "node": node,
        "rank": rank,
        "local_rank": local_rank,
        "world": job.world_size if job else 1,
        "pci": f"0000:{slot}",
        "bus": f"{slot[:2]}000",
        "pid": 40_000 + (rank or 0),
        "iso": clock[:19],
        "clock": clock[11:],
        "c10": f"{clock[5:7].lstrip('0')}{clock[8:10]} {clock[11:19]}.{time_ns % NS_PER_S:09d}",
    }


def _filled(text: str, fields: dict[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda placeholder: str(fields[placeholder[1]]), text)
