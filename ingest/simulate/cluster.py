"""The cluster while it runs: what each part logs, through which channel; what faults act on."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from epicenter.ingest.simulate import envelopes
from epicenter.ingest.simulate.clockwork import Clockwork, Process
from epicenter.ingest.simulate.envelopes import Pod
from epicenter.ingest.simulate.headers import rfc3339_us
from epicenter.ingest.simulate.model import Job, Node, Scenario, Text, Timed
from epicenter.ingest.simulate.transport import Channel, Wrap

SLURMCTLD: Final = "scheduler/slurmctld.log"
EVENTS: Final = "scheduler/kubernetes-events.jsonl"


class Cluster:
    """Nodes and jobs, and the channels of their logs. Block times are true times, in order."""

    def __init__(self, scenario: Scenario, nodes: tuple[Node, ...], jobs: tuple[Job, ...]):
        self.scenario = scenario
        self.nodes = nodes
        self.jobs = jobs
        self.clockwork = Clockwork(scenario.start_ns)
        self.end_ns = 0
        self._kernels: dict[int, Channel] = {}
        self._workers: dict[tuple[str, int], Channel] = {}
        self._others: dict[str, Channel] = {}

    @property
    def now_ns(self) -> int:
        """True time."""
        return self.clockwork.now_ns

    def rng(self, name: str) -> Random:
        """A separate source of randomness for each purpose, so that they don't disturb each other."""
        return Random(f"{self.scenario.seed}/{name}")

    def start(self, process: Process, after_s: float = 0.0) -> None:
        """Let a process begin."""
        self.clockwork.start(process, after_s)

    def jobs_on(self, node: Node) -> list[Job]:
        """The jobs that were placed on a node."""
        return [job for job in self.jobs if any(other.index == node.index for other in job.nodes)]

    def last_until(self, after_s: float) -> None:
        """Let the run last at least so long from now."""
        self.end_ns = max(self.end_ns, self.now_ns + round(after_s) * 10**9)

    # ---- writers ----

    def kernel(self, node: Node, block: Iterable[Timed], uptime_ns: int | None = None) -> None:
        """Lines of a node's kernel. `uptime_ns` is for lines that the kernel wrote long before they were read."""
        if node.is_dead or not node.has_shipper:
            return
        channel = self._kernel(node)
        for at, text in block:
            since_boot_ns = at - node.booted_ns if uptime_ns is None else uptime_ns
            channel.send(at, _packed(since_boot_ns, _rendered(text, node.clock(at))))

    def worker(self, job: Job, place: int, block: Iterable[Timed], stream: str = "stderr") -> None:
        """Lines of a job's processes on its node number `place`; those of Ray all come out on the head."""
        node = job.nodes[place]
        printing = 0 if job.framework == "ray" else place
        if node.is_dead or job.nodes[printing].is_dead or not self._is_shipped(job, printing):
            return
        channel = self._worker(job, printing)
        for at, text in block:
            line = _rendered(text, node.clock(at))
            line = line[: len(line) // 2] if job.is_cut else line
            if job.is_buffered and stream == "stdout":
                channel.buffer(at, line)
            else:
                channel.send(at, line if job.platform == "slurm" else f"{stream}\n{line}")

    def job_out(self, job: Job, block: Iterable[Timed]) -> None:
        """Lines of srun and slurmstepd in a Slurm job's own file: without a task before them."""
        for at, text in block:
            if job.has_plain_log:
                self._other(_out(job)).send(at, _rendered(text, at))
            else:
                line = envelopes.task_line(job, 0, job.nodes[0].clock(at), _rendered(text, at))
                self._other(f"scheduler/slurm-{job.job_id}.jsonl").send(at, line)

    def slurmctld(self, block: Iterable[Timed]) -> None:
        """Lines of the Slurm controller."""
        for at, text in block:
            self._other(SLURMCTLD).send(at, f"[{rfc3339_us(at)[:23]}] {_rendered(text, at)}")

    def event(self, reason: str, about: str, text: str, kind: str = "Warning", host: str = "") -> None:
        """A Kubernetes event, now."""
        labels = envelopes.labels_of(about, self.jobs)
        line = envelopes.event_line(self.now_ns, kind, reason, about, text, host, labels)
        self._other(EVENTS).send(self.now_ns, line)

    def kill(self, node: Node) -> None:
        """The node stops with all that runs on it."""
        node.is_dead = True
        for job in self.jobs_on(node):
            if (channel := self._workers.get((job.job_id, job.place(node)))) is not None:
                channel.drop()

    def release(self, job: Job) -> None:
        """The job's processes end in order and flush their buffers."""
        for place in range(len(job.nodes)):
            if (channel := self._workers.get((job.job_id, place))) is not None:
                channel.release(self.now_ns)

    # ---- channels ----

    def _is_shipped(self, job: Job, place: int) -> bool:
        return (job.platform == "slurm" and job.has_plain_log) or job.nodes[place].has_shipper

    def _kernel(self, node: Node) -> Channel:
        if node.index not in self._kernels:

            def wrap(at_ns: int, packed: str) -> str:
                since_boot_ns, _, text = packed.partition("\n")
                return envelopes.kernel_line(node, node.clock(at_ns), text, int(since_boot_ns))

            rng = None if node.kernel_shipper == "rsyslog" else self._disturbance(f"kernel/{node.index}")
            self._kernels[node.index] = Channel(self.clockwork, envelopes.kernel_path(node), wrap, rng)
        return self._kernels[node.index]

    def _worker(self, job: Job, place: int) -> Channel:
        key = (job.job_id, place)
        if key not in self._workers:
            path = f"{job.nodes[place].name}/worker.jsonl"
            if job.platform == "slurm" and job.has_plain_log:
                path = _out(job)
            self._workers[key] = Channel(
                self.clockwork, path, _wrap_of(job, place), self._disturbance(f"worker/{job.job_id}/{place}")
            )
        return self._workers[key]

    def _other(self, path: str) -> Channel:
        if path not in self._others:
            self._others[path] = Channel(self.clockwork, path, lambda at_ns, text: text, None)
        return self._others[path]

    def _disturbance(self, name: str) -> Random | None:
        return None if self.scenario.is_tidy else self.rng(f"transport/{name}")


def _rendered(text: Text, clock_ns: int) -> str:
    return text if isinstance(text, str) else text(clock_ns)


def _packed(since_boot_ns: int, text: str) -> str:
    return f"{since_boot_ns}\n{text}"


def _out(job: Job) -> str:
    return f"scheduler/slurm-{job.job_id}.out"


def _wrap_of(job: Job, place: int) -> Wrap:
    """What is put around a line of the job's node number `place`; it may come with its stream on a line before it."""
    node, pod = job.nodes[place], Pod(job, place)

    def by_pod(at_ns: int, packed: str) -> str:
        stream, is_packed, text = packed.partition("\n")
        return pod.wrap(node.clock(at_ns), text if is_packed else packed, stream if is_packed else "stdout")

    def by_label(at_ns: int, text: str) -> str:
        return envelopes.label(place, len(job.nodes), text)

    def by_task(at_ns: int, text: str) -> str:
        return envelopes.task_line(job, place, node.clock(at_ns), text)

    if job.platform == "kubernetes":
        return by_pod
    return by_label if job.has_plain_log else by_task
