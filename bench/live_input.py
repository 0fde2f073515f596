"""A live cluster's lines for benches that measure time: 300-byte envelopes of Fluent Bit, at a steady rate.

A batch has the lines of a tenth of a second from ten nodes. It is packed once and sent as often as the rate needs, so
that sending costs next to nothing; event time advances with each tenth.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Final

import orjson
from aiokafka import AIOKafkaProducer

PARTITIONS: Final = 4
LINES_A_BATCH: Final = 250
NODES_A_BATCH: Final = 10
ROUND_S: Final = 0.1
LINES_A_ROUND: Final = PARTITIONS * LINES_A_BATCH
STEP_S: Final = 1.0

HARMLESS: Final = (
    "Detected kernel version 4.19.0, which is below the recommended minimum of 5.5.0;"
    " this can cause the process to hang."
)
HARMLESS_SHARE: Final = 0.001
STEP: Final = "completed step: {step}, seconds: 1.000, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, loss: 2.871"
STEP_SHARE: Final = 0.01
QUIET: Final = (
    "INFO:torch.utils.data: worker {n} read shard part-{n:05d}.tar in 0.{n} s, queue 3",
    "node{node:04d}:{n}:{n} [2] NCCL INFO Channel 02/0 : 2[2] -> 1[1] via P2P/IPC",
    "trainer - INFO - tokens of the batch {n}, bucket 2 of 8",
    "[rank2]: prefetch depth 4, queue 2, bytes {n}",
)


class LiveCluster:
    """Nodes with a job each; `run` sends their lines to a raw topic until its event is set, at least 10,000 a second.

    `sent` counts them.
    """

    def __init__(self, bootstrap: str, topic: str, nodes: int, lines_per_s: int, seed: int = 1):
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4", max_batch_size=1 << 20)
        self._topic = topic
        self._copies = max(1, round(lines_per_s * ROUND_S / LINES_A_ROUND))
        self._chance = random.Random(seed)
        self._tails = [self._quiet_tails(node) for node in range(nodes)]
        self._next_node = 0
        self.sent = 0

    async def run(self, until: asyncio.Event) -> None:
        """Send at the rate."""
        await self._producer.start()
        begun_s = due_s = time.monotonic()
        try:
            while not until.is_set():
                await self._send_round(int((time.monotonic() - begun_s) / STEP_S) + 1)
                due_s += ROUND_S
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        finally:
            await self._producer.stop()

    async def send(self, node: int, value: bytes) -> None:
        """One line of a node; when this returns, the broker has it."""
        partition = node // NODES_A_BATCH % PARTITIONS
        await self._producer.send_and_wait(self._topic, value, key=_name(node), partition=partition)

    async def _send_round(self, step: int) -> None:
        waiting = []
        for _ in range(PARTITIONS):
            nodes = [(self._next_node + offset) % len(self._tails) for offset in range(NODES_A_BATCH)]
            self._next_node = (nodes[-1] + 1) % len(self._tails)
            partition = nodes[0] // NODES_A_BATCH % PARTITIONS
            batch = self._batch(nodes, step)
            for _ in range(self._copies):
                waiting.append(await self._producer.send_batch(batch, self._topic, partition=partition))
        await asyncio.gather(*waiting)
        self.sent += self._copies * LINES_A_ROUND

    def _batch(self, nodes: Sequence[int], step: int) -> object:
        batch, now_ms = self._producer.create_batch(), int(time.time() * 1000)
        head = b'{"date":%.6f,' % (now_ms / 1000)
        for number in range(LINES_A_BATCH):
            node = nodes[number % len(nodes)]
            batch.append(key=_name(node), value=head + self._tail(node, step), timestamp=now_ms)
        batch.close()
        return batch

    def _tail(self, node: int, step: int) -> bytes:
        share = self._chance.random()
        if share < STEP_SHARE:
            return _tail(node, STEP.format(step=step))
        if share < STEP_SHARE + HARMLESS_SHARE:
            return _tail(node, HARMLESS)
        return self._chance.choice(self._tails[node])

    def _quiet_tails(self, node: int) -> list[bytes]:
        return [
            _tail(node, shape.format(n=self._chance.randrange(1000), node=node)) for shape in QUIET for _ in range(4)
        ]


def gpu_lost(node: int) -> bytes:
    """The kernel's line, as rsyslog sends it: an incident that opens at once."""
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1e6):06d}+00:00"
    text = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
    return f"{stamp} node{node:04d} kernel: [ 8005.250000] {text}".encode()


def _name(node: int) -> bytes:
    return b"node%04d" % node


def _tail(node: int, text: str) -> bytes:
    pod = {
        "pod_name": f"job{node}-worker-0",
        "namespace_name": "training",
        "host": f"node{node:04d}",
        "container_name": "pytorch",
        "labels": {"training.kubeflow.org/job-name": f"job{node}"},
    }
    return orjson.dumps({"stream": "stdout", "log": text, "kubernetes": pod})[1:]
