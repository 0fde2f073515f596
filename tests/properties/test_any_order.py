"""Incidents don't depend on how the input is cut, in which order it arrives, how often, and with which restarts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.engine import Engine
from epicenter.rules.event_time.watermark import Watermark
from epicenter.rules.model.incident import Incident
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import ScanResult
from tests.support.logs import START_NS, a_scanner, at, batch, fluent_bit, iso, kernel, the_rules, vector

NODES = ("n1", "n2", "n3")
JOBS_OF_NODE = {"n1": ("A",), "n2": ("A", "B"), "n3": ("B",)}
MAX_S = 3000

KERNEL_TEXTS = (
    "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:9a:00): 31, pid=70011, name=python, Ch 00000010, intr 00000000. MMU Fault",
    "Out of memory: Killed process 51877 (python3) total-vm:812345678kB, anon-rss:501234567kB",
    "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
)
WORKER_TEXTS = (
    "Traceback (most recent call last):",
    "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "[rank7]:[E ProcessGroupNCCL.cpp:683] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4120, "
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
    "slurmstepd: error: *** STEP 7877.0 ON n1 CANCELLED AT 2026-03-02T09:20:11 ***",
    "  Status: SUCCESS (exit 0)",
    "loading shard 17",
    "saving checkpoint at iteration     500 to /ckpt/run7 in torch_dist format",
    "Evaluating iter 4/10",
    "n1:991:1203 [3] NCCL INFO ncclCommInitRank comm 0x55d00003a9c0 rank 3 nranks 8 cudaDev 3 - Init COMPLETE",
    " 3: completed step: 7, seconds: 5.000, TFLOP/s/device: 380.1",
)


@dataclass
class Log:
    """One finished file: its lines with the times that the core reads from them."""

    name: str
    node: str
    timed: list[tuple[float, bytes]]

    def piece(self, first: int, last: int) -> Batch:
        values = [value for _, value in self.timed[first:last]]
        return batch(values, source=self.name, first=first + 1, key=self.node.encode())


def step_line(step: int) -> str:
    return f"completed step: {step}, seconds: 5.000, TFLOP/s/device: 380.1"


seconds = st.integers(1, MAX_S)


@st.composite
def kernel_logs(draw: st.DrawFn, node: str) -> Log:
    lines = draw(st.lists(st.tuples(seconds, st.sampled_from(KERNEL_TEXTS)), max_size=4))
    return Log(f"{node}/kern.log", node, [(second, kernel(node, second, text)) for second, text in sorted(lines)])


@st.composite
def worker_logs(draw: st.DrawFn, node: str, job: str) -> Log:
    """A job's lines on one node: its steps at some pace, which may fall back, and some errors."""
    ship = draw(st.sampled_from([vector, fluent_bit]))
    lines = draw(st.lists(st.tuples(seconds, st.sampled_from(WORKER_TEXTS)), max_size=4))
    pace, count, back_at = draw(st.integers(1, 60)), draw(st.integers(0, 40)), draw(st.integers(0, 60))
    pause, drift = draw(st.sampled_from([0, 0, 200, 1200])), draw(st.floats(0, 70))
    for number in range(count):
        is_rerun = number >= back_at
        second = number * pace + drift + (pause if is_rerun else 0)
        lines.append((round(second), step_line(max(0, number - 10 * is_rerun))))
    timed = [(second, ship(node, second, text, job)) for second, text in sorted(lines)]
    return Log(f"{node}/{job}.jsonl", node, [(0, ship(node, 0, "starting", job)), *timed])


@st.composite
def plain_logs(draw: st.DrawFn) -> Log:
    """A file of Python's logging; the lines of a traceback have no time."""
    timed: list[tuple[float, bytes]] = []
    for second, has_failed in sorted(draw(st.lists(st.tuples(seconds, st.booleans()), max_size=4))):
        timed.append((second, f"{iso(second)[:-4].replace('T', ' ')} - INFO - epoch done".encode()))
        if has_failed:
            timed += [(second, b"Traceback (most recent call last):"), (second, b'  File "train.py", line 8, in main')]
    return Log("n3/train.log", "n3", timed)


@st.composite
def ranks(draw: st.DrawFn) -> Log:
    """Four ranks of one node that report their steps; one may stop before the others."""
    pace, count, lost = draw(st.integers(1, 20)), draw(st.integers(10, 60)), draw(st.integers(0, 3))
    lines = [
        (number * pace + 1, f" {rank}: {step_line(number)}")
        for number in range(count)
        for rank in range(4)
        if rank or number < count - lost
    ]
    return Log("n4/C.jsonl", "n4", [(second, vector("n4", second, text, "C")) for second, text in lines])


@st.composite
def clusters(draw: st.DrawFn) -> list[Log]:
    logs = [draw(kernel_logs(node)) for node in NODES]
    logs += [draw(worker_logs(node, job)) for node, jobs in JOBS_OF_NODE.items() for job in jobs]
    logs += [draw(ranks()), draw(plain_logs())]
    return [merged(logs)] if draw(st.booleans()) else logs


def merged(logs: list[Log]) -> Log:
    """The envelopes of all nodes in one file."""
    timed = [line for log in logs for line in log.timed if line[1].startswith(b"{")]
    return Log("all.jsonl", "", sorted(timed, key=lambda line: line[0]))


def documents(incidents: dict[str, Incident]) -> list[Incident]:
    return sorted(incidents.values(), key=lambda incident: incident.incident_id)


def at_once(logs: list[Log]) -> list[Incident]:
    engine, scanner = Engine(the_rules()), a_scanner()
    for log in logs:
        add(engine, scanner.scan(log.piece(0, len(log.timed))))
    return documents({incident.incident_id: incident for incident in engine.flush()})


def add(engine: Engine, scanned: ScanResult) -> None:
    engine.add([*scanned.matches, *scanned.observed], scanned.heartbeats)


@given(clusters(), st.data())
def test_cut_shuffled_and_repeated_arrival_gives_the_same_incidents(logs: list[Log], data: st.DataObject) -> None:
    engine = Engine(the_rules())
    pieces = [scanned for log in logs for scanned in BlockBuffer(a_scanner()).scan_all(cut(log, data))]
    again = data.draw(st.lists(st.sampled_from(pieces), max_size=3)) if pieces else []
    for scanned in data.draw(st.permutations([*pieces, *again])):
        add(engine, scanned)
    assert documents({incident.incident_id: incident for incident in engine.flush()}) == at_once(logs)


def cut(log: Log, data: st.DataObject) -> list[Batch]:
    borders = data.draw(st.lists(st.integers(0, len(log.timed)), max_size=3).map(sorted))
    ends = [0, *borders, len(log.timed)]
    return [log.piece(first, last) for first, last in pairwise(ends) if first < last]


@given(clusters(), st.data())
def test_watermark_advances_and_restarts_between_give_the_same_incidents(logs: list[Log], data: st.DataObject) -> None:
    engine, scanner = Engine(the_rules()), BlockBuffer(a_scanner())
    newest: dict[str, Incident] = {}
    done = dict.fromkeys(range(len(logs)), 0)
    stops = data.draw(st.lists(st.integers(1, MAX_S + 2000), max_size=6, unique=True).map(sorted))
    for stop in stops:
        arrive_until(stop, logs, done, engine, scanner)
        upto_ns = at(stop) - 1 if not scanner.waiting else 0
        newest |= {incident.incident_id: incident for incident in engine.advance(upto_ns)}
        if data.draw(st.booleans()):
            engine = Engine(the_rules(), engine.snapshot())
    arrive_until(10 * MAX_S, logs, done, engine, scanner)
    for _, scanned in scanner.rest():
        add(engine, scanned)
    newest |= {incident.incident_id: incident for incident in engine.flush()}
    last = max((second for log in logs for second, _ in log.timed), default=0)
    if all(stop <= last for stop in stops):
        assert documents(newest) == at_once(logs)
    else:
        assert {incident.incident_id for incident in documents(newest)} >= {
            incident.incident_id for incident in at_once(logs)
        }


def arrive_until(stop: float, logs: list[Log], done: dict[int, int], engine: Engine, scanner: BlockBuffer) -> None:
    for number, log in enumerate(logs):
        upto = sum(second < stop for second, _ in log.timed)
        if upto > done[number]:
            add(engine, scanner.scan(log.piece(done[number], upto)))
            done[number] = upto


SOURCES = st.sampled_from(["a", "b", "c"])
TIMES = st.integers(-(10**12), 10**15).map(lambda offset_ns: START_NS + offset_ns)
MOVES = st.one_of(
    st.tuples(st.just("observe"), SOURCES, st.none() | TIMES),
    st.tuples(st.just("hold"), st.lists(SOURCES, min_size=1, unique=True), st.none()),
    st.tuples(st.just("idle"), st.booleans(), st.integers(0, 10**13)),
)


@given(st.lists(MOVES, max_size=20), st.integers(0, 10**12))
def test_the_watermark_never_goes_back_and_waits_for_the_slowest_source(moves: list[tuple], lateness_ns: int) -> None:  # type: ignore[type-arg]
    watermark = Watermark(lateness_ns)
    before_ns = watermark.value_ns
    for move, what, amount in moves:
        if move == "observe":
            watermark.observe(what, amount)
        elif move == "hold":
            now_ns = watermark.hold(what)
            slowest_ns = min(watermark.newest_ns_by_source.get(source, 0) for source in what)
            assert now_ns == max(before_ns, slowest_ns - lateness_ns)
        else:
            newest_ns = max(watermark.newest_ns_by_source.values(), default=0)
            assert watermark.idle(amount, at_pace=what) <= max(before_ns, newest_ns + (amount if what else 0))
        assert watermark.value_ns >= before_ns
        before_ns = watermark.value_ns
