"""What `make bench-stream` reads: 300-byte envelopes of Fluent Bit as 256 nodes send them, in whole record batches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Final

import orjson
from aiokafka import AIOKafkaProducer

NODES: Final = 256
RECORDS_A_BATCH: Final = 500
PARTITIONS: Final = 4
START_S: Final = 1_772_442_000
RECORDS_A_SECOND: Final = 1_000_000
"""Event time advances at the rate of the goal."""

HITS, HEARTBEATS = 0.001, 0.01
HIT = "[  {n}.123456] NVRM: Xid (PCI:0000:61:00): 31, pid={n}, name=python3, Ch 00000008, intr 10000000. MMU Fault"
HEARTBEAT = "completed step: {n}, seconds: 4.981, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871"
QUIET = (
    "INFO:torch.utils.data: worker {rank} read shard part-{n:05d}.tar in 0.{n} s, queue {rank}",
    "node{node:04d}:{n}:{n} [{rank}] NCCL INFO Channel {rank:02d}/0 : {rank}[{rank}] -> 1[1] via P2P/IPC",
    "2026-03-02 09:00:00,{n:03d} - trainer - INFO - tokens of the batch {n}, bucket {rank} of 8",
    "[rank{rank}]: prefetch depth 4, queue {rank}, bytes {n}",
)


def envelopes(count: int, seed: int = 1, share: float = 1.0) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` records; each batch comes from one node. `share` of the usual hits and heartbeats."""
    tails = [list(_tails(random.Random(seed + node), node, share)) for node in range(NODES)]
    chance = random.Random(seed)
    for number in range(count):
        if number % RECORDS_A_BATCH == 0:
            node = chance.randrange(NODES)
        time_s = START_S + number / RECORDS_A_SECOND
        yield b"node%04d" % node, b'{"date":%.6f,' % time_s + chance.choice(tails[node])


def _tails(chance: random.Random, node: int, share: float, count: int = 1000) -> Iterator[bytes]:
    """Envelopes of a node without their times: exactly the wanted share of hits and heartbeats among them."""
    hits, heartbeats = round(count * HITS * share), round(count * HEARTBEATS * share)
    shapes = [HIT] * hits + [HEARTBEAT] * heartbeats
    for shape in shapes + [chance.choice(QUIET) for _ in range(count - hits - heartbeats)]:
        text = shape.format(n=chance.randrange(1000), rank=chance.randrange(8), node=node)
        pod = {
            "pod_name": f"llama-70b-worker-{node}",
            "namespace_name": "training",
            "host": f"node{node:04d}",
            "container_name": "pytorch",
            "labels": {"training.kubeflow.org/job-name": "llama-70b"},
        }
        yield orjson.dumps({"stream": "stdout", "log": text, "kubernetes": pod})[1:]


async def produce(bootstrap: str, topic: str, count: int, codec: str) -> None:
    """Fill a topic with whole batches, as a shipper with a linger does."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, max_batch_size=1 << 20)
    await producer.start()
    records, waiting = envelopes(count), []
    for number in range(-(-count // RECORDS_A_BATCH)):
        batch = producer.create_batch()
        for _, (key, value) in zip(range(RECORDS_A_BATCH), records, strict=False):
            batch.append(key=key, value=value, timestamp=None)
        batch.close()
        waiting.append(await producer.send_batch(batch, topic, partition=number % PARTITIONS))
    await asyncio.gather(*waiting)
    await producer.stop()
