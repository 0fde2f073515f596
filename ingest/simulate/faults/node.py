"""Faults of a node: its memory, its processor, its power, its kernel."""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate import endings, kernel_host, reactions, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.envelopes import pod_name
from epicenter.ingest.simulate.faults.case import TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.headers import SITE, by_rank, spread
from epicenter.ingest.simulate.model import Job, Timed

_LOADER: Final = f"{SITE}/torch/utils/data"


def data_loader_killed(job: Job, rank: int, at_ns: int, signal: str, hint: str = "") -> list[Timed]:
    """The Python side of a DataLoader worker's end by a signal."""
    texts = [
        "Traceback (most recent call last):",
        f'  File "{torch_lines.SCRIPTS[job.framework]}", line 268, in <module>',
        "    train(",
        f'  File "{_LOADER}/dataloader.py", line 1448, in _get_data',
        "    success, data = self._try_get_data()",
        f'  File "{_LOADER}/_utils/signal_handling.py", line 73, in handler',
        "    _error_if_any_worker_fails()",
        f"RuntimeError: DataLoader worker (pid {job.pid(rank) + 1_700}) is killed by signal: {signal}. {hint}",
    ]
    return spread(at_ns, by_rank(rank, texts))


def _host_oom(cluster: Cluster, case: Case) -> Process:
    """The host runs out of memory; a DataLoader worker is killed and its rank raises."""
    yield from _killed_loader(cluster, case, "/kubepods.slice", None)


def _cgroup_oom(cluster: Cluster, case: Case) -> Process:
    """The pod or step runs into its limit; a DataLoader worker is killed and its rank raises."""
    cgroup = kernel_host.cgroup_of(case.job, case.place)
    yield from _killed_loader(cluster, case, cgroup, 536_870_912)


def _killed_loader(cluster: Cluster, case: Case, cgroup: str, limit_kib: int | None) -> Process:
    job = case.job
    killed = kernel_host.out_of_memory(case.pid + 20_000, "pt_data_worker", cluster.now_ns, cgroup, limit_kib)
    cluster.kernel(case.node, killed)
    job.is_stalled = True
    yield 0.25
    reactions.emit(cluster, job, case.rank, data_loader_killed(job, case.rank, cluster.now_ns, "Killed"))
    yield 0.9
    yield from reactions.process_ends(cluster, job, case.rank, 1)


def _oom_killed(cluster: Cluster, case: Case) -> Process:
    """The container's first process is killed at its limit, and with it all of the pod."""
    job, cgroup = case.job, kernel_host.cgroup_of(case.job, case.place)
    cluster.kernel(case.node, kernel_host.out_of_memory(case.pid, "python3", cluster.now_ns, cgroup, 536_870_912))
    job.is_stalled = True
    yield 1.5
    pod = pod_name(job, case.place)
    killed = f"Memory cgroup out of memory: Killed process {case.pid} (python3) total-vm:1095512064kB,"
    cluster.event("OOMKilling", f"Node/{case.node.name}", f"{killed} anon-rss:535271000kB", host=case.node.name)
    yield 1.0
    message = f"Pod: training.{pod} exited with code 137, reason: OOMKilled"
    cluster.event("ExitedWithCode", f"PyTorchJob/{job.job_id}", message)
    yield from reactions.process_ends(cluster, job, case.rank, -9)


def _panic(cluster: Cluster, case: Case) -> Process:
    """The kernel panics with a log line; the node is back after some minutes."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_host.panic(cluster.now_ns, rng))
    yield 0.2
    yield from node_vanishes(cluster, case)


def node_vanishes(cluster: Cluster, case: Case) -> Process:
    """Everything on the node stops without a log line; each job on it notices differently."""
    cluster.kill(case.node)
    for job in cluster.jobs_on(case.node):
        if not job.is_over:
            cluster.start(reactions.node_is_lost(cluster, job, job.place(case.node)))
    yield 45.0
    if any(job.platform == "kubernetes" for job in cluster.jobs_on(case.node)):
        node = case.node.name
        cluster.event("NodeNotReady", f"Node/{node}", f"Node {node} status is now: NodeNotReady", "Normal")


def _node_dies(cluster: Cluster, case: Case) -> Process:
    """Power, board or network card: the node logs nothing any more."""
    yield from node_vanishes(cluster, case)


def _power_supply(cluster: Cluster, case: Case) -> Process:
    """The management controller reports the supply, then the node is off."""
    text = "ACPI: \\_SB_.PSU1: Power supply failure detected, redundancy lost"
    cluster.kernel(case.node, [(cluster.now_ns, text)])
    yield 2.0
    yield from node_vanishes(cluster, case)


def _maintenance(cluster: Cluster, case: Case) -> Process:
    """An operator restarts the node; it is back after minutes."""
    texts = ["systemd-shutdown[1]: Syncing filesystems and block devices.", "reboot: Restarting system"]
    for job in cluster.jobs_on(case.node):
        job.is_stalled = True
        if job.framework in TORCHRUN:
            place = job.place(case.node)
            cluster.worker(job, place, torch_lines.agent_terminated(job, place, cluster.now_ns))
    yield 1.0
    cluster.kernel(case.node, spread(cluster.now_ns, texts, 400_000_000))
    yield 1.0
    cluster.start(_comes_back(cluster, case), 240.0)
    yield from node_vanishes(cluster, case)


def _comes_back(cluster: Cluster, case: Case) -> Process:
    """The node starts again, with another boot."""
    from epicenter.ingest.simulate.noise import emit_boot

    case.node.is_dead, case.node.booted_ns = False, cluster.now_ns - 15 * 10**9
    emit_boot(cluster, case.node)
    node = case.node.name
    cluster.slurmctld([(cluster.now_ns, f"Node {node} unexpectedly rebooted boot_time={case.node.booted_ns // 10**9}")])
    for job in cluster.jobs_on(case.node):
        if job.platform == "kubernetes" and not job.is_over:
            yield from endings.failed(cluster, job, 0, ())


KINDS: Final = (
    FaultKind("host-oom", "host-oom-kill", _host_oom, ("oom-dataloader-host", "oom-host"), 3.0, frameworks=TORCHRUN),
    FaultKind("cgroup-oom", "cgroup-oom-kill", _cgroup_oom, ("oom-dataloader-host", "oom-host", "slurm-oom"), 2.0,
        frameworks=TORCHRUN),
    FaultKind("k8s-oomkilled", "cgroup-oom-kill", _oom_killed, ("k8s-oomkilled", "oom-host", "sigkill"), 1.5,
        frameworks=("hf",), platforms=("kubernetes",)),
    FaultKind("kernel-panic", "kernel-panic", _panic, ("kernel-oops-bug", "node-fail", "node-reboot"), 2.0, "node",
        ("node",), lasts_s=900),
    FaultKind("node-dies", "node-fail", _node_dies, ("slurm-node-fail", "k8s-node-notready", "heartbeat-timeout"), 3.0,
        "node", ("node",), verdict="node-dead", lasts_s=1500),
    FaultKind("power-supply", "power-supply-fault", _power_supply, ("node-fail", "slurm-node-fail",
        "k8s-node-notready"), 0.7, "node", ("node",), lasts_s=900),
    FaultKind("node-maintenance", "node-reboot", _maintenance, ("node-fail", "slurm-node-fail", "k8s-node-notready"),
        7.6, "node", ("node",), lasts_s=900),
)  # fmt: skip
