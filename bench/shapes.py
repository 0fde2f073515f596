"""Logs of unusual shapes, compared with an even one: no shape may make a line much dearer. `make bench-shapes`.

Each shape is read twice: as a file that `match` reads, and as records that shippers send to a worker.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from time import process_time
from typing import Final, NamedTuple

import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.process.memory import RARELY
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.prefilter import scanner_of
from epicenter.stream.scan.scan import BatchScanner

START_S: Final = 1_772_442_000
LINES: Final = 40_000
RUNS: Final = 3
BATCH_RECORDS: Final = 4_000
EVEN: Final = "even"

Seconds = Callable[[int], float]
"""When line n is written, in seconds after the start."""


class Line(NamedTuple):
    """A line of a log. `node` is its writer."""

    at_s: float
    node: str
    text: str


class Shape(NamedTuple):
    """A log with a `share` of the usual number of lines. In one that `finds`, each line costs what a result does."""

    name: str
    lines: Callable[[int], Iterator[Line]]
    share: float = 1.0
    finds: bool = False
    is_cri: bool = False


def _log(seconds: Seconds, nodes: int = 16, texts: Sequence[str] = ()) -> Callable[[int], Iterator[Line]]:
    shown = texts or QUIET

    def lines(count: int) -> Iterator[Line]:
        chance = random.Random(count)
        for n, text in zip(range(count), cycle(shown), strict=False):
            yield Line(seconds(n), f"node{n % nodes:05d}", text.format(n=n, us=chance.randrange(10**6)))

    return lines


def evenly(n: int) -> float:
    """A thousand lines a second."""
    return n / 1000


def sparsely(n: int) -> float:
    """A line every eleven seconds."""
    return n * 11.0


def jumping(n: int) -> float:
    """Two writers whose clocks are an hour apart take turns."""
    return n / 1000 + n % 2 * 3600


def backwards(n: int) -> float:
    """The newest line comes first."""
    return (LINES - n) * 11.0


QUIET: Final = (
    "INFO:torch.utils.data: worker {n} read shard part-{n:05d}.tar in 0.{n} s, queue 4",
    "NCCL INFO Channel 02/0 : 1[1] -> 2[2] via P2P/IPC",
    "trainer - INFO - tokens of the batch {us}, bucket {n} of 8",
    "prefetch depth 4, queue {n}, bytes {us}",
)
STEPS: Final = ("completed step: {n}, seconds: 4.981, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871",)
STORM: Final = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n} MiB. GPU 3 has a total capacity of 79.11 GiB.",
)
HARMLESS: Final = ("NCCL INFO NET/Plugin: No plugin found (libnccl-net-{n}.so), using internal implementation",)
ESCAPED: Final = ('tokenizer read \\"shard-{n}\\" from C:\\\\data\\\\part-{us} \\u001b[32mok\\u001b[0m\\t{n}',)
TRACEBACK: Final = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line {n}, in <module>',
    "    main()",
    '  File "/app/train.py", line 42, in main',
    "    loss.backward()",
    "ValueError: shape {n} does not fit",
)
LONG: Final = ("INFO tensor {n}: " + "0.123 " * 16_600,)

SHAPES: Final = (
    Shape(EVEN, _log(evenly)),
    Shape("sparse times", _log(sparsely)),
    Shape("jumping times", _log(jumping)),
    Shape("times going backwards", _log(backwards)),
    Shape("100,000 writers", _log(evenly, nodes=100_000)),
    Shape("100,000 writers, sparse", _log(sparsely, nodes=100_000)),
    Shape("one writer", _log(evenly, nodes=1)),
    Shape("escaped", _log(evenly, texts=ESCAPED)),
    Shape("100 kB lines", _log(evenly, texts=LONG), share=0.02),
    Shape("CRI parts", _log(evenly), is_cri=True),
    Shape("all step lines", _log(evenly, texts=STEPS), finds=True),
    Shape("a storm of one rule", _log(evenly, texts=STORM), finds=True),
    Shape("harmless hits", _log(evenly, texts=HARMLESS), finds=True),
    Shape("all tracebacks", _log(evenly, nodes=1, texts=TRACEBACK), finds=True),
    Shape("16 nodes' tracebacks mixed", _log(evenly, texts=TRACEBACK), share=0.2, finds=True),
    Shape("2,400 nodes' tracebacks mixed", _log(evenly, nodes=2400, texts=TRACEBACK), share=0.2, finds=True),
)


def write_file(shape: Shape, count: int, folder: Path) -> Path:
    """The log as syslog or a container's runtime writes it."""
    log = folder / f"{shape.name.replace(' ', '-')}.log"
    write = _as_cri if shape.is_cri else _as_syslog
    log.write_text("".join(map(write, shape.lines(count))))
    return log


def batches_of_file(log: Path) -> Iterator[Batch]:
    """The file as `match` reads it."""
    return read_to_the_end(Sources([str(log)], host="", follow=False))


def batches_of_records(shape: Shape, count: int) -> Iterator[Batch]:
    """The log as a partition of envelopes whose key is the node."""
    lines, first = shape.lines(count), 0
    while part := list(islice(lines, BATCH_RECORDS)):
        received_ns = [int((START_S + line.at_s) * NS_PER_S) for line in part]
        keys = [line.node.encode() for line in part]
        yield Batch("raw-0", list(map(_as_record, part)), keys, received_ns, range(first, first + len(part)))
        first += len(part)


def _as_syslog(line: Line) -> str:
    return f"{_iso(line.at_s)} {line.node} app[311]: {line.text}\n"


def _as_cri(line: Line) -> str:
    half = len(line.text) // 2
    stamp = _iso(line.at_s)
    return f"{stamp} stdout P {line.text[:half]}\n{stamp} stdout F {line.text[half:]}\n"


def _as_record(line: Line) -> bytes:
    pod = {"pod_name": f"llama-{line.node}", "namespace_name": "research", "host": line.node, "container_name": "train"}
    return orjson.dumps({"date": START_S + line.at_s, "log": line.text + "\n", "kubernetes": pod})


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(START_S + at_s, UTC).isoformat(timespec="microseconds")


def scan_all(batches: Iterable[Batch], rules: RuleSet, scanner: Scanner, keep_all: bool) -> int:
    """Read all of it; gives the number of records."""
    buffer = BlockBuffer(BatchScanner(rules, "bench", scanner, keep_all=keep_all, finds_liveness=not keep_all))
    return sum(scanned.records for scanned in buffer.scan_all(batches))


def cost_us(batches: Sequence[Batch], rules: RuleSet, scanner: Scanner, keep_all: bool) -> float:
    """CPU time a record, the best of some runs."""
    best_s, records = float("inf"), 1
    for _ in range(RUNS):
        begun_s = process_time()
        records = scan_all(batches, rules, scanner, keep_all)
        best_s = min(best_s, process_time() - begun_s)
    return best_s / records * 1e6


def main() -> None:
    """Print a table."""
    gc.freeze()
    gc.set_threshold(*RARELY)
    rules = load()
    in_worker, in_match = scanner_of(rules, in_triage=False), scanner_of(rules, in_triage=True)
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"{'':28}{'match, us a line':>20}{'speed':>8}{'worker, us a line':>22}{'speed':>8}")
    even = (0.0, 0.0)
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        for shape in SHAPES:
            if only not in (shape.name, "") and shape.name != EVEN:
                continue
            count = round(LINES * shape.share)
            log = write_file(shape, count, Path(folder))
            found = (
                cost_us(list(batches_of_file(log)), rules, in_match, True),
                cost_us(list(batches_of_records(shape, count)), rules, in_worker, False),
            )
            even = found if shape.name == EVEN else even
            speeds = [even_us / found_us for even_us, found_us in zip(even, found, strict=True)]
            print(f"{shape.name:28}{found[0]:20.2f}{speeds[0]:8.2f}{found[1]:22.2f}{speeds[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
