"""Simulates one training job on a GPU cluster: real log formats in event-time order, with the ground truth beside them.

Deterministic: the same scenario gives the same bytes. All randomness comes from `random.Random(seed)`, all time from
`start_ns`. The files of a folder: `<node>/kern.log`, `<node>/worker.jsonl`, `scheduler/slurm-<job>.out`, `truth.json`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from heapq import merge
from pathlib import Path
from random import Random
from typing import BinaryIO, Final

import msgspec

from ingest import simulate_faults as faults
from ingest import simulate_lines as lines
from ingest.simulate_lines import MS, Host, Timed
from ingest.simulate_plan import Fault, Framework, Plan, RootCause, Scenario, Truth, ns, plan_of, step_ns, truth_of
from rules.errors import ConfigError
from rules.model import NS_PER_S

__all__ = [
    "TRUTH_FILE",
    "Fault",
    "Framework",
    "RootCause",
    "Scenario",
    "SimulatedLine",
    "Truth",
    "simulate",
    "truth_of",
    "write_all",
    "write_paced",
]

TRUTH_FILE: Final = "truth.json"

_TAIL_NS: Final = 2 * NS_PER_S
_INSTANT_NS: Final = 100 * MS


class SimulatedLine(msgspec.Struct, frozen=True):
    """One physical line, without its line end, and the file it stands in (relative to the output folder)."""

    event_time_ns: int
    path: str
    text: str


def simulate(scenario: Scenario) -> Iterator[SimulatedLine]:
    """Every line of the run, in event-time order.

    Raises:
        ConfigError: the scenario contradicts itself; names every problem.
    """
    return _simulate(plan_of(scenario))


def write_all(scenario: Scenario, folder: Path) -> Truth:
    """Write the whole run and its truth into `folder` at once; files of an earlier run are replaced.

    Each file's time of modification is that of its last line, as after a real run.
    """
    ended_ns: dict[str, int] = {}
    with ExitStack() as stack:
        files = _Files(folder, stack)
        for line in simulate(scenario):
            files.write(line)
            ended_ns[line.path] = line.event_time_ns
    for path, time_ns in ended_ns.items():
        os.utime(folder / path, ns=(time_ns, time_ns))
    return _write_truth(scenario, folder)


def write_paced(scenario: Scenario, folder: Path, speed: float, wait: Callable[[float], None]) -> Truth:
    """Write the run as it happens, `speed` times as fast as real time; ends up with the same files as `write_all`.

    Lines of the same tenth of a simulated second appear together; before the next ones, `wait` gets the seconds to let
    pass. The truth is there from the start.
    """
    if speed <= 0:
        raise ConfigError([f"speed: {speed}: must be above 0"])
    truth = _write_truth(scenario, folder)
    with ExitStack() as stack:
        files = _Files(folder, stack)
        now = 0
        for line in simulate(scenario):
            instant = (line.event_time_ns - scenario.start_ns) // _INSTANT_NS
            if instant > now:
                files.flush()
                wait((instant - now) * _INSTANT_NS / NS_PER_S / speed)
                now = instant
            files.write(line)
    return truth


# ---- the run ---------------------------------------------------------------------------------------------------------


class _Emitter:
    """Turns blocks of text into lines of the right file."""

    def __init__(self, plan: Plan):
        self._job = plan.scenario.job
        self._shippers = [lines.Shipper(host) for host in plan.hosts]

    def kernel(self, host: Host, block: Iterable[Timed]) -> list[SimulatedLine]:
        path = f"{host.name}/kern.log"
        return [SimulatedLine(at, path, lines.kernel_line(host, at, text)) for at, text in block]

    def worker(self, host: Host, block: Iterable[Timed], stream: str = "stderr") -> list[SimulatedLine]:
        path, wrap = f"{host.name}/worker.jsonl", self._shippers[host.index].wrap
        return [SimulatedLine(at, path, wrap(at, text, stream)) for at, text in block]

    def scheduler(self, block: Iterable[Timed]) -> list[SimulatedLine]:
        path = f"scheduler/slurm-{self._job}.out"
        return [SimulatedLine(at, path, text) for at, text in block]


def _simulate(plan: Plan) -> Iterator[SimulatedLine]:
    emit = _Emitter(plan)
    ending = _in_order(_fault(plan, emit) if plan.fault_ns is not None else _normal_end(plan, emit))
    end_ns = ending[-1].event_time_ns + _TAIL_NS
    return merge(_start(plan, emit), _background(plan, emit, end_ns), ending, key=_event_time)


def _event_time(line: SimulatedLine) -> int:
    return line.event_time_ns


def _in_order(unordered: Iterable[SimulatedLine]) -> list[SimulatedLine]:
    return sorted(unordered, key=_event_time)


def _start(plan: Plan, emit: _Emitter) -> list[SimulatedLine]:
    start_ns, out = plan.scenario.start_ns, []
    for host in plan.hosts:
        out += [SimulatedLine(at, f"{host.name}/kern.log", text) for at, text in lines.boot_ring(host, start_ns)]
        out += emit.worker(host, lines.start_of_worker(host, plan.scenario.nodes, start_ns))
    return _in_order(out)


def _background(plan: Plan, emit: _Emitter, end_ns: int) -> Iterator[SimulatedLine]:
    """Noise on every node to the end, progress until training stops; one slice a step, so that memory stays small."""
    rng = Random(f"{plan.scenario.seed}/background")
    begin, step = plan.scenario.start_ns, -1  # the first slice is the start-up
    while begin < end_ns:
        end = plan.training_ns if step < 0 else min(begin + step_ns(plan.scenario), end_ns)
        out = _noise(plan, emit, rng, begin, end)
        if step >= 0 and end <= plan.stop_ns:
            out += _progress(plan, emit, rng, step, end)
        yield from _in_order(out)
        begin, step = end, step + 1


def _noise(plan: Plan, emit: _Emitter, rng: Random, begin: int, end: int) -> list[SimulatedLine]:
    minutes = (end - begin) / NS_PER_S / 60
    out: list[SimulatedLine] = []
    for host in plan.hosts:
        for at in _moments(rng, begin, end, plan.scenario.kernel_noise_per_minute * minutes):
            block = lines.spread(at, lines.kernel_noise(rng), 7 * lines.US)
            if not _is_silent(plan, host, at):
                out += emit.kernel(host, block)
        for at in _moments(rng, begin, end, plan.scenario.worker_noise_per_minute * minutes):
            text = lines.worker_noise(host, rng)
            if plan.training_ns <= at < plan.stop_ns:
                out += emit.worker(host, [(at, text)])
    return out


def _moments(rng: Random, begin: int, end: int, expected: float) -> list[int]:
    """About `expected` moments in the slice, whole microseconds, far enough from its end for a burst to fit."""
    count = int(expected + rng.random())
    return [begin + int((end - begin) * rng.random() * 0.99) // lines.US * lines.US for _ in range(count)]


def _is_silent(plan: Plan, host: Host, at: int) -> bool:
    return plan.scenario.fault == "jax-heartbeat" and host is plan.culprit and at >= plan.stop_ns


def _progress(plan: Plan, emit: _Emitter, rng: Random, step: int, end: int) -> list[SimulatedLine]:
    scenario = plan.scenario
    if plan.framework == "megatron":
        at = end - rng.randrange(1, 20) * MS
        text = lines.megatron_step(at, step, scenario.steps, scenario.step_time_s, rng)
        return emit.worker(plan.hosts[-1], [(at, text)], "stdout")
    if step == 0:
        return []  # MaxText prints a step when the next one is done
    return _maxtext_step(plan, emit, rng, step - 1, end)


def _maxtext_step(plan: Plan, emit: _Emitter, rng: Random, step: int, end: int) -> list[SimulatedLine]:
    out = []
    for host in plan.hosts:
        at = end - rng.randrange(1_000, 20_000) * lines.US
        out += emit.worker(host, [(at, lines.maxtext_step(at, step, plan.scenario.step_time_s, rng))])
    return out


def _normal_end(plan: Plan, emit: _Emitter) -> list[SimulatedLine]:
    rng, steps = Random(f"{plan.scenario.seed}/end"), plan.scenario.steps
    at = plan.stop_ns + 300 * MS
    if plan.framework == "megatron":
        return emit.worker(plan.hosts[0], lines.megatron_end(steps, at), "stdout")
    out = _maxtext_step(plan, emit, rng, steps - 1, at)
    for host in plan.hosts:
        out += emit.worker(host, lines.maxtext_end(steps, at + rng.randrange(2_000) * MS))
    return out


# ---- faults ----------------------------------------------------------------------------------------------------------


def _fault(plan: Plan, emit: _Emitter) -> list[SimulatedLine]:
    rng = Random(f"{plan.scenario.seed}/fault")
    cascades = {"gpu-off-bus": _gpu_off_bus, "host-oom": _host_oom, "jax-heartbeat": _jax_heartbeat}
    return cascades[plan.scenario.fault](plan, emit, rng)


def _gpu_off_bus(plan: Plan, emit: _Emitter, rng: Random) -> list[SimulatedLine]:
    """The kernel says what happened; the node's worker hangs without a word; everyone else waits for the time-out."""
    out = emit.kernel(plan.culprit, faults.gpu_off_bus(plan.culprit, plan.gpu, plan.stop_ns, rng))
    timed_out, ended = _time_outs(plan, emit, rng, plan.peers, _collective(plan, rng))
    return out + timed_out + emit.scheduler(_cancelled(plan, ended, hung=plan.culprit.index))


def _host_oom(plan: Plan, emit: _Emitter, rng: Random) -> list[SimulatedLine]:
    """The node's rank ends at once, its neighbours in the ring lose their sockets, the others wait for the time-out."""
    culprit, at = plan.culprit, plan.stop_ns
    out = emit.kernel(culprit, faults.host_oom(culprit, plan.rank, at))
    out += emit.worker(culprit, faults.data_loader_killed(culprit, plan.rank, at + 210 * MS))
    out += emit.worker(culprit, faults.torchrun_failed(culprit, plan.rank, at + 900 * MS, 1))
    out += emit.scheduler([(at + ns(2.6), faults.task_failed([culprit.index]))])
    work = _collective(plan, rng)
    neighbours = [plan.hosts[(culprit.index + i) % len(plan.hosts)] for i in (-1, 1)]
    for host in neighbours:
        out += _lose_peer(plan, emit, rng, host, work)
    waiting = [host for host in plan.peers if host not in neighbours]
    timed_out, ended = _time_outs(plan, emit, rng, waiting, work)
    return out + timed_out + emit.scheduler(_cancelled(plan, ended, hung=None))


def _lose_peer(plan: Plan, emit: _Emitter, rng: Random, host: Host, work: faults.Collective) -> list[SimulatedLine]:
    out: list[SimulatedLine] = []
    closed_ns = {rank: plan.stop_ns + ns(rng.uniform(1.5, 4)) for rank in host.ranks}
    for rank, at in closed_ns.items():
        out += emit.worker(host, faults.peer_closed(host, rank, at, plan.culprit.name, work))
    first = min(host.ranks, key=closed_ns.__getitem__)
    agent_ns = max(closed_ns.values()) + ns(1.5)
    out += emit.worker(host, faults.torchrun_failed(host, first, agent_ns, -6))
    return out + emit.scheduler([(agent_ns + ns(1.8), faults.task_failed([host.index]))])


def _time_outs(
    plan: Plan, emit: _Emitter, rng: Random, waiting: list[Host], work: faults.Collective
) -> tuple[list[SimulatedLine], dict[int, int]]:
    """Every waiting rank's watchdog fires and its node's agent ends; also returns when, by host index."""
    out: list[SimulatedLine] = []
    ended_ns: dict[int, int] = {}
    for host in waiting:
        fired_ns: dict[int, int] = {}
        for rank in host.ranks:
            ran_ms = work.timeout_ms + rng.randrange(1, 95)
            fired_ns[rank] = plan.stop_ns + ns(rng.uniform(0.02, 0.9)) + ran_ms * MS
            out += emit.worker(host, faults.watchdog_timeout(rank, fired_ns[rank], ran_ms, work))
        first = min(host.ranks, key=fired_ns.__getitem__)
        agent_ns = max(fired_ns.values()) + ns(rng.uniform(1.3, 2))
        ended_ns[host.index] = agent_ns + ns(1.5)
        out += emit.worker(host, faults.torchrun_failed(host, first, agent_ns, -6))
    return out, ended_ns


def _cancelled(plan: Plan, ended_ns: dict[int, int], hung: int | None) -> list[Timed]:
    first = min(ended_ns, key=ended_ns.__getitem__)
    others = sorted(set(ended_ns) - {first})
    return faults.slurm_cancel(plan.scenario.job, first, others, hung, max(ended_ns.values()) + 100 * MS)


def _collective(plan: Plan, rng: Random) -> faults.Collective:
    steps_done = (plan.stop_ns - plan.training_ns) // step_ns(plan.scenario)
    return faults.Collective(
        sequence=steps_done * 48 + rng.randrange(1, 48),
        numel=rng.choice((8_388_608, 33_554_432, 67_108_864)),
        timeout_ms=round(plan.scenario.collective_timeout_s * 1000),
    )


def _jax_heartbeat(plan: Plan, emit: _Emitter, rng: Random) -> list[SimulatedLine]:
    """The node says nothing any more; the leader misses its heartbeat and every survivor ends."""
    noticed_ns = plan.stop_ns + ns(plan.scenario.heartbeat_timeout_s)
    out: list[SimulatedLine] = []
    ended_ns: dict[int, int] = {}
    for host in plan.peers:
        is_leader = host.index == 0
        at = noticed_ns + (0 if is_leader else ns(rng.uniform(0.005, 0.4)))
        ended_ns[host.index] = at + 700 * MS
        out += emit.worker(host, faults.heartbeat_lost(host.index, is_leader, plan.culprit.index, at))
    return out + emit.scheduler(_cancelled(plan, ended_ns, hung=plan.culprit.index))


# ---- files -----------------------------------------------------------------------------------------------------------


class _Files:
    """The open log files of one folder; `stack` closes them."""

    def __init__(self, folder: Path, stack: ExitStack):
        self._folder = folder
        self._stack = stack
        self._open: dict[str, BinaryIO] = {}
        self._unflushed: set[str] = set()

    def write(self, line: SimulatedLine) -> None:
        file = self._open.get(line.path) or self._create(line.path)
        file.write(line.text.encode() + b"\n")
        self._unflushed.add(line.path)

    def flush(self) -> None:
        for path in self._unflushed:
            self._open[path].flush()
        self._unflushed.clear()

    def _create(self, path: str) -> BinaryIO:
        full = self._folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        self._open[path] = self._stack.enter_context(full.open("wb"))
        return self._open[path]


def _write_truth(scenario: Scenario, folder: Path) -> Truth:
    truth = truth_of(scenario)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRUTH_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(truth)) + b"\n")
    return truth
