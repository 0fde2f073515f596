"""A simulated day of a small cluster: its logs, its truth, and the way through the product into a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import Scenario, TrueFault, Truth, write_all
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.load_settings import load_settings
from epicenter.stream.local.runner import LocalRunner
from epicenter.stream.settings import Settings
from tests.support.logs import the_rules
from tests.support.receiver import Receiver

START: Final = datetime(2026, 3, 2, tzinfo=UTC)
END: Final = START + timedelta(days=1)


def at(hours: float) -> datetime:
    """A time of the day."""
    return START + timedelta(hours=hours)


FAULTS: Final = (
    (0.5, "gpu-off-bus", 3),
    (2.5, "host-oom", 101),
    (5.0, "hang", 102),
    (7.0, "ib-link-flap", 103),
    (9.0, "slurm-preempted", 104),
    (11.0, "heat", 105),
    (13.5, "gpu-off-bus", 36),
    (16.0, "gpu-memory-error", 37),
    (18.0, "nvlink-lost", 106),
    (20.0, "disk-full", 107),
    (22.0, "job-finished", 109),
    (23.0, "gpu-memory-error", 76),
)
"""Hour, fault and seed. The seeds put four failures on one GPU of one node."""

OFFENDER: Final = ("node0003", "0000:52:00")

HOSTILE: Final = "<script>alert(1)</script> \x1b[31m \u202egnp.exe ' OR 1=1 -- ${job} $__timeFilter(x) \\' {{x}} é \x00"


class Day(msgspec.Struct, frozen=True):
    """What really happened, one truth for each run of a job; `logs` holds a folder for each."""

    logs: Path
    truths: tuple[Truth, ...]

    @property
    def failures(self) -> list[TrueFault]:
        """Those that need an incident, in the order in which they happened."""
        return [fault for truth in self.truths for fault in truth.faults if fault.incident]


def write_day(logs: Path) -> Day:
    """Write the logs of the day: failing jobs, a scheduler's log, memory, temperatures, malformed lines."""
    truths = tuple(write_all(_scenario(*fault), logs / f"{fault[2]:03d}-{fault[1]}") for fault in FAULTS)
    _write(logs / "scheduler" / "slurmctld.log", _slurmctld())
    _write(logs / "queue.jsonl", _queue())
    _write(logs / "dcgm.jsonl", _temperatures())
    _write(logs / "memory.jsonl", _memory(truths[0]))
    _write(logs / "malformed.jsonl", _malformed_lines())
    return Day(logs, truths)


class RunAtMidnight(LocalRunner):
    """Has read everything and waits for more: unresolved incidents stay open."""

    async def _finish(self) -> None:
        await self._write(self._pipeline.rest())
        await self._publish(self._pipeline.advance([]))


async def ingest_day(day: Day, data_dir: Path) -> Settings:
    """Read it all, as `epicenter run` does with a webhook, and stop at the end of the day."""
    sources = Sources([str(day.logs)], "", follow=False)
    with Receiver().listening() as receiver:
        settings = load_settings(data_dir=data_dir, webhook_url=receiver.url)
        await RunAtMidnight(settings, the_rules(), sources, lambda _: None, lambda _: None).once()
    return settings


def _scenario(hour: float, fault: str, seed: int) -> Scenario:
    return Scenario(
        nodes=8 if fault == "disk-full" else 4,
        minutes=8,
        seed=seed,
        faults=(fault,),
        gpus_per_node=4,
        start_ns=round(at(hour).timestamp()) * NS_PER_S,
        collective_timeout_s=120,
        after_fault_s=None if fault in ("hang", "heat", "job-finished") else 240,
    )


def _write(path: Path, lines: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


class Wait(msgspec.Struct, frozen=True):
    """A job in the scheduler's queue; one that `is_preempted` loses its nodes twenty minutes after its start."""

    job: int
    submitted: datetime
    started: datetime
    is_preempted: bool


WAITS: Final = tuple(
    Wait(9000 + n, submitted, submitted + timedelta(minutes=4 + n * n / 8), n % 12 == 5)
    for n in range(40)
    for submitted in [at(0.1 + n * 0.58)]
)
"""Most wait some minutes, some for hours, the last ones beyond midnight."""


def _slurmctld() -> Iterator[str]:
    entries: list[tuple[datetime, str]] = []
    for wait in WAITS:
        submitted = f"_slurm_rpc_submit_batch_job: JobId={wait.job} InitPrio=4294901740 usec=412"
        entries.append((wait.submitted, submitted))
        nodes = "NodeList=node[0001-0004] #CPUs=512 Partition=gpu"
        entries.append((wait.started, f"sched: Allocate JobId={wait.job} {nodes}"))
        if wait.is_preempted:
            by = f"has been requeued to reclaim resources for JobId={wait.job + 3}"
            entries.append((wait.started + timedelta(minutes=20), f"preempted JobId={wait.job} {by}"))
    for when, text in sorted(entries):
        if when < END:
            yield f"[{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}] {text}"


def _queue() -> Iterator[str]:
    """What `squeue` and `sinfo` show every ten minutes in the evening: jobs wait and nodes are idle."""
    for minute in range(0, 180, 10):
        when = at(18 + minute / 60)
        yield _line(
            when, "login1", f"{9032 + minute // 60:>18}       gpu train-7b    alice PD       0:00      8 (Resources)"
        )
        yield _line(when, "login1", "gpu*         up   infinite      4   idle node[0005-0008]")


def _temperatures() -> Iterator[str]:
    for minute in range(0, 24 * 60, 15):
        for gpu in range(4):
            celsius = 55 + gpu + (30 if gpu == 2 and 660 <= minute < 720 else 0) + minute % 4
            labels = f'gpu="{gpu}",UUID="GPU-0a1b2c3d-1111-2222-3333-44445555666{gpu}",Hostname="node0003"'
            yield _line(at(minute / 60), "node0003", f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} {celsius}")


def _memory(truth: Truth) -> Iterator[str]:
    """A leak of the first job: rank 1 grows."""
    job = truth.jobs[0]
    for batch in range(60):
        for rank in range(4):
            used = 41_200_000_000 + (batch * 300_000_000 if rank == 1 else 0)
            held = f"{{'gpu_used': {used}, 'gpu_reserved': {used + 10**10}, 'cpu_rss': 9120000000, 'batch': {batch}}}"
            yield _line(at(0.55 + batch / 600), job.nodes[0], held, job=job.job, rank=rank, source="worker")


def _malformed_lines() -> Iterator[str]:
    """Lines of an attacker, and lines that can't be parsed."""
    message = f"RuntimeError: CUDA error: an illegal memory access was encountered {HOSTILE}"
    yield _line(at(6), "node0008", message, job="it's \\' $job", rank=0, source="worker")
    yield _line(at(6.01), "node<b>'\\", f"NVRM: Xid (PCI:0000:9a:00): 13, pid=1, {HOSTILE}", source="kernel")
    yield _line(at(0.54), "node0003", "** 41 printk messages dropped **", source="kernel")
    yield '{"timestamp": "2026-03-02T06:00:00Z", "host": "node0008", "message": '
    yield "[1, 2]"


def _line(when: datetime, node: str, message: str, **more: Any) -> str:
    return json.dumps({"timestamp": when.isoformat(), "host": node, "message": message} | more)
