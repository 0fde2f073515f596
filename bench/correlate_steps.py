"""Every rank of 20,000 reports each step: what heartbeats cost where they are made, and in the cluster's partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time

from aiokafka import TopicPartition

from bench.correlate_input import GPUS, START_NS, Job, jobs, rule_set
from epicenter.rules.model.heartbeats import Heartbeat, Step
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.kafka.messages import ProgressTick, decode, encode, encode_in_pieces
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.scan.scan import ScanResult
from epicenter.stream.services.partition import PartitionCorrelator

JOBS, NODES_EACH = 20, 125
STEP_NS = 5 * NS_PER_S
ROUNDS, WARM_ROUNDS = 15, 3
RAW_PARTITIONS = 8
BATCHES_A_ROUND = 10
LATENESS_NS = NS_PER_S


class Way:
    """One way to send steps: CPU seconds of the workers that send, and of the one that correlates."""

    def __init__(self, bundles_steps: bool):
        self._bundles_steps = bundles_steps
        self._correlator = PartitionCorrelator(rule_set(), LATENESS_NS)
        self._ends = {f"logs.raw/{number}": 0 for number in range(RAW_PARTITIONS)}
        self.sending_s = self.correlating_s = 0.0
        self.heartbeats = self.bytes = 0

    def process(self, batch: Sequence[Sequence[Heartbeat]]) -> None:
        """What each raw partition had, then a tick."""
        ranges = [self._range(number, heartbeats) for number, heartbeats in enumerate(batch)]
        start_s = process_time()
        sent = [
            value
            for scanned in ranges
            for value in encode_in_pieces([scanned.part(0, 1, bundles_steps=self._bundles_steps)])
        ]
        sent_s = process_time()
        for value in [*sent, encode(ProgressTick(dict(self._ends), (), 0, at_pace=False))]:
            self._correlator.process(self._correlator.offset + 1, decode(value))
        self.correlating_s += process_time() - sent_s
        self.sending_s += sent_s - start_s
        self.heartbeats += sum(map(len, batch))
        self.bytes += sum(map(len, sent))

    def forget_costs(self) -> None:
        """What the first rounds cost, in which everything is new, does not count."""
        self.sending_s = self.correlating_s = 0.0
        self.heartbeats = self.bytes = 0

    def _range(self, number: int, heartbeats: Sequence[Heartbeat]) -> ScannedRange:
        self._ends[f"logs.raw/{number}"] += len(heartbeats)
        newest_ns = max((heartbeat.event_time_ns for heartbeat in heartbeats), default=None)
        scanned = ScanResult(heartbeats=list(heartbeats), newest_ns=newest_ns)
        return ScannedRange(TopicPartition("logs.raw", number), self._ends[f"logs.raw/{number}"], scanned)


def steps() -> dict[str, float]:
    """Both ways in turn, batch by batch."""
    running, single, in_bundles = jobs(JOBS, NODES_EACH), Way(bundles_steps=False), Way(bundles_steps=True)
    for number in range(ROUNDS):
        for batch in batches(running, number):
            single.process(batch)
            in_bundles.process(batch)
        if number < WARM_ROUNDS:
            single.forget_costs()
            in_bundles.forget_costs()
    return {
        "ranks": JOBS * NODES_EACH * GPUS,
        "heartbeats": single.heartbeats,
        "single_per_s": single.heartbeats / single.correlating_s,
        "bundled_per_s": in_bundles.heartbeats / in_bundles.correlating_s,
        "single_sent_per_s": single.heartbeats / single.sending_s,
        "bundled_sent_per_s": in_bundles.heartbeats / in_bundles.sending_s,
        "single_bytes": single.bytes / single.heartbeats,
        "bundled_bytes": in_bundles.bytes / in_bundles.heartbeats,
    }


def batches(running: Sequence[Job], number: int) -> Iterator[list[list[Heartbeat]]]:
    """The heartbeats of one step of every job, in parts of half a second, by raw partition."""
    begin_ns, length_ns = START_NS + number * STEP_NS, STEP_NS // BATCHES_A_ROUND
    of_round = [heartbeat for place, job in enumerate(running) for heartbeat in reports(job, place, number)]
    cut: list[list[list[Heartbeat]]] = [[[] for _ in range(RAW_PARTITIONS)] for _ in range(BATCHES_A_ROUND)]
    for partition, heartbeat in of_round:
        cut[(heartbeat.event_time_ns - begin_ns) // length_ns][partition].append(heartbeat)
    yield from cut


def reports(job: Job, place: int, step: int) -> Iterator[tuple[int, Heartbeat]]:
    """Every rank's report of a step, those of a node within 8 ms, and signs of life every ten seconds."""
    at_ns = START_NS + step * STEP_NS + place * STEP_NS // JOBS
    for index, node in enumerate(job.nodes):
        node_ns = at_ns + index * 37 % 101 * 1_000_000
        for rank in range(index * GPUS, (index + 1) * GPUS):
            yield index % RAW_PARTITIONS, Step(node_ns + rank % GPUS * 1_000_000, "bench", job.name, node, step, rank)
    if step % 2 == 0:
        for alive in (*job.alive(at_ns + 5), *job.kernels_alive(at_ns + 9)):
            yield job.nodes.index(alive.node) % RAW_PARTITIONS, alive
