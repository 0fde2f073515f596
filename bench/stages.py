"""The cost of a line on the hot path, stage by stage, in one process and without a broker.

Each row repeats the row above it and does one thing more; its figure is the cost of that, the best of some runs.
"""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from time import process_time
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from bench.match import some_rules
from bench.stream_input import HEARTBEATS, HITS, PARTITIONS, RECORDS_A_BATCH, envelopes
from epicenter.ingest.batch.records import Records
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.kafka.raw_batches import CHUNK_RECORDS, Chunk, WholeBatches
from epicenter.stream.process.memory import RARELY
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.prefilter import MARKS, Prefilter
from epicenter.stream.scan.scan import BatchScanner

RECORDS: Final = 400_000
BATCHES_A_FETCH: Final = 20
PATTERNS: Final = 300
RUNS: Final = 5
FAR_FUTURE_MS: Final = 1 << 50
CODECS: Final = {
    "none": 0,
    "lz4": DefaultRecordBatch.CODEC_LZ4,
    "zstd": DefaultRecordBatch.CODEC_ZSTD,
}


def main() -> None:
    """Print a table for the given codec, lz4 by default."""
    codec = sys.argv[1] if len(sys.argv) > 1 else "lz4"
    fetches = list(fetched(CODECS[codec], quiet=False))
    quiet = list(fetched(CODECS[codec], quiet=True))
    rules = RuleSet(tuple(some_rules(PATTERNS)), (), marks=MARKS)
    gc.freeze()
    gc.set_threshold(*RARELY)
    search, catalogue = HyperscanScanner(rules.expressions), HyperscanScanner(load().expressions)
    prefilter = Prefilter(HyperscanScanner(rules.expressions, MARKS))
    decode_ns = cost_ns(fetches, lambda chunk: None)
    columns_ns = cost_ns(fetches, as_batch)
    join_ns = cost_ns(fetches, lambda chunk: Records(as_batch(chunk).values))
    search_ns = cost_ns(fetches, lambda chunk: search.scan(Records(as_batch(chunk).values)))
    catalogue_ns = cost_ns(fetches, lambda chunk: catalogue.scan(Records(as_batch(chunk).values)))
    prefilter_ns = cost_ns(fetches, lambda chunk: prefilter.prefiltered(Records(as_batch(chunk).values)))
    quiet_ns = cost_ns(quiet, scanning(rules))
    all_ns = cost_ns(fetches, scanning(rules))
    rows = {
        f"unpack and decode a batch ({codec})": decode_ns,
        "values and keys as columns": columns_ns - decode_ns,
        "one text of them": join_ns - columns_ns,
        f"search it for {PATTERNS} patterns": search_ns - join_ns,
        "marks in the same search, escapes, suspicious envelopes": prefilter_ns - search_ns,
        "liveness, and the rest": quiet_ns - prefilter_ns,
        f"{HITS:.1%} hits and {HEARTBEATS:.0%} heartbeats": all_ns - quiet_ns,
        "all of it": all_ns,
        "(the catalogue's patterns instead, in addition)": catalogue_ns - search_ns,
    }
    for name, nanoseconds in rows.items():
        print(f"{name:<56} {nanoseconds:6.0f} ns a line")
    size_bytes = sum(len(content) for _, content, _ in fetches)
    print(f"{'as a broker stores it (' + codec + ')':<56} {size_bytes / RECORDS:6.0f} bytes a line")


def fetched(codec: int, quiet: bool, count: int = RECORDS) -> Iterator[tuple[TopicPartition, bytes, int]]:
    """(partition, bytes of the broker's answer, first offset) of all fetches of `count` records."""
    records = envelopes(count, share=0.0 if quiet else 1.0)
    batches: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(count // RECORDS_A_BATCH):
        ours = batches[number % PARTITIONS]
        builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
        for offset, (key, value) in enumerate(islice(records, RECORDS_A_BATCH)):
            builder.append(offset, 1_772_442_000_000, key, value, [])
        ours.append(struct.pack(">q", len(ours) * RECORDS_A_BATCH) + bytes(builder.build())[8:])
    for partition, ours in enumerate(batches):
        for first in range(0, len(ours), BATCHES_A_FETCH):
            content = b"".join(ours[first : first + BATCHES_A_FETCH])
            yield TopicPartition("raw", partition), content, first * RECORDS_A_BATCH


def cost_ns(fetches: list[tuple[TopicPartition, bytes, int]], work: Callable[[Chunk], Any]) -> float:
    """CPU time a line of this work on every chunk."""
    best_s = float("inf")
    for _ in range(RUNS):
        begun_s = process_time()
        for chunk in chunks_of(fetches):
            work(chunk)
        best_s = min(best_s, process_time() - begun_s)
    return best_s / RECORDS * 1e9


def chunks_of(fetches: list[tuple[TopicPartition, bytes, int]]) -> Iterator[Chunk]:
    """The chunks in which a worker reads them."""
    for partition, content, first in fetches:
        yield from WholeBatches(CHUNK_RECORDS, partition, MemoryRecords(content), None, first, None, None, True, 0)


def as_batch(chunk: Chunk) -> Any:
    """The chunk by columns."""
    return chunk.as_batch(TopicPartition("raw", 0), FAR_FUTURE_MS)


def scanning(rules: RuleSet) -> Callable[[Chunk], Any]:
    """The whole work on a chunk."""
    scanner = BlockBuffer(BatchScanner(rules, "bench"))
    return lambda chunk: scanner.scan(as_batch(chunk))


if __name__ == "__main__":
    main()
