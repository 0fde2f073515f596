"""The shipped windows, from log lines as their sources print them; healthy runs fire none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.signals import Signal
from epicenter.sinks.clickhouse.rows import match_rows
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.scan.scan import ScanResult
from tests.support.logs import a_scanner, batch, kernel, the_rules, vector

Lines = Iterable[tuple[float, bytes]]


def scanned(lines: Lines) -> ScanResult:
    in_order = [value for _, value in sorted(lines, key=lambda line: line[0])]
    return a_scanner().scan(batch(in_order, live=True))


def run(lines: Lines, until: float = 0) -> tuple[list[Signal], list[Incident]]:
    """The signals of windows, and the incidents; time advances to the second `until`."""
    engine, found = Engine(the_rules()), scanned([*lines, (until, vector("n9", until, "still here"))])
    engine.add([*found.matches, *found.observed], found.heartbeats)
    incidents = engine.flush()
    return engine.windowed(), incidents


def fired(lines: Lines, until: float = 0) -> list[str]:
    return [signal.rule for signal in run(lines, until)[0]]


def k8s_event(second: float, reason: str, message: str, pod: str = "trainer-0") -> tuple[float, bytes]:
    about = {"kind": "Pod", "namespace": "ml", "name": pod}
    return second, vector("", second, message, reason=reason, involvedObject=about, source_type="kubernetes_events")


def worker(second: float, text: str, node: str = "n1", job: str = "A") -> tuple[float, bytes]:
    return second, vector(node, second, text, job)


def slurmctld(second: float, text: str) -> tuple[float, bytes]:
    return second, vector("head", second, text, source="slurmctld")


def memory(
    second: float, used: float, reserved: float = 60e9, rank: int = 3, batch_number: int = 0
) -> tuple[float, bytes]:
    text = f"{{'gpu_used': {used:.0f}, 'gpu_reserved': {reserved:.0f}, 'cpu_rss': 9120000000, 'batch': {batch_number}}}"
    return worker(second, f"[rank{rank}]: {text}")


def step(second: float, number: int) -> tuple[float, bytes]:
    return worker(second, f"completed step: {number}, seconds: 5.000, TFLOP/s/device: 380.102, loss: 2.871")


def test_rising_memory_is_a_leak() -> None:
    lines = [memory(5 * number, 40e9 + 0.2e9 * number) for number in range(60)]
    signals, incidents = run(lines)
    (leak,) = signals
    assert (leak.rule, leak.failure_class, leak.severity) == ("training.gpu_memory_rises", "gpu-memory-leak", "warning")
    assert (leak.job, leak.node, leak.rank) == ("A", "n1", 3)
    assert leak.text == "allocated GPU memory rose by 24.5 % over 50 samples, from 4e+10 to 4.98e+10"
    assert leak.event_time_ns - leak.onset_ns == 245_000_000_000
    assert incidents == []


@pytest.mark.parametrize(
    "used",
    [
        [40e9] * 100,
        [40e9 + 1e9 * (number % 4) for number in range(100)],
        [40e9 + 0.01e9 * number for number in range(100)],
        [20e9] * 3 + [41e9] * 97,
    ],
    ids=["level", "up and down", "hardly", "once at the start"],
)
def test_steady_memory_is_no_leak(used: list[float]) -> None:
    assert fired(memory(5 * number, size) for number, size in enumerate(used)) == []


def test_a_jump_of_memory_is_found() -> None:
    lines = [memory(5 * number, 40e9 + 12e9 * (number == 40)) for number in range(60)]
    assert fired(lines) == ["training.gpu_memory_jump"]


def test_reserved_memory_that_outgrows_the_allocated_is_found() -> None:
    lines = [memory(5 * number, 40e9, 44e9 + 0.1e9 * number) for number in range(60)]
    assert fired(lines) == ["training.gpu_memory_fragments"]


def test_memory_of_megatron_is_grouped_by_rank() -> None:
    text = "[Rank {}] (after {} iterations) memory (MB) | allocated: {} | max allocated: 70000.0 | reserved: 70100.0"
    lines = [worker(5 * n + rank, text.format(rank, n, 41200.1 + 200 * n * rank)) for n in range(60) for rank in (0, 1)]
    signals, _ = run(lines)
    assert [(signal.failure_class, signal.rank) for signal in signals] == [("gpu-memory-leak", 1)]


def dcgm(second: float, celsius: int, gpu: int = 3) -> tuple[float, bytes]:
    text = f'DCGM_FI_DEV_GPU_TEMP{{gpu="{gpu}",UUID="GPU-0a1b",pci_bus_id="00000000:9A:00.0",Hostname="n1"}} {celsius}'
    return second, vector("n1", second, text)


def test_a_hot_gpu_is_found() -> None:
    signals, incidents = run([dcgm(30 * number, 70 + 4 * number) for number in range(10)])
    (hot,) = signals
    assert (hot.failure_class, hot.node, hot.gpu, hot.severity) == ("gpu-thermal", "n1", "0000:9a:00", "warning")
    assert hot.text == "98 C, and above 87 C in the last 3 samples"
    assert incidents == []
    assert fired(dcgm(30 * number, 88 if number % 3 else 86) for number in range(30)) == []


def test_steps_that_slow_down_are_found() -> None:
    fast = [step(5 * number, number) for number in range(60)]
    signals, incidents = run([*fast, *(step(295 + 8 * number, 59 + number) for number in range(1, 20))])
    (slow,) = signals
    assert (slow.rule, slow.job, slow.role) == ("training.steps_slow_down", "A", "advice")
    assert slow.text == "a step takes 8 s, 60 % more than the 5 s that were usual"
    assert incidents == []


def test_pauses_for_checkpoints_are_no_slower_steps() -> None:
    second, lines = 0.0, []
    for number in range(200):
        second += 95 if number % 20 == 0 else 5
        lines.append(step(second, number))
    assert fired(lines) == []


def test_repeated_corrected_errors_are_found() -> None:
    edac = "EDAC MC3: 1 CE memory scrubbing error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x91f21)"
    signals, incidents = run([(60 * number, kernel("n1", 60 * number, edac)) for number in range(10)])
    assert [(signal.rule, signal.node, signal.text) for signal in signals] == [
        ("machine.corrected_memory_errors", "n1", "10 corrected memory errors in 540 s")
    ]
    assert incidents == []
    assert fired((600 * number, kernel("n1", 600 * number, edac)) for number in range(40)) == []


def test_a_storm_of_corrected_pcie_errors_is_found() -> None:
    aer = "nvidia 0000:9b:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)"
    storm = [(number, kernel("n1", number, aer)) for number in range(100)]
    assert fired(storm) == ["machine.corrected_pcie_errors"]
    assert fired(storm[:40]) == []


def test_a_flapping_link_is_found() -> None:
    def link(second: float, word: str) -> tuple[float, bytes]:
        return second, kernel("n1", second, f"mlx5_core 0000:c1:00.0 enp193s0f0np0: Link {word}")

    lines = [link(300 * number + 20 * place, word) for number in range(3) for place, word in enumerate(("down", "up"))]
    signals, incidents = run(lines)
    assert [(signal.rule, signal.text) for signal in signals] == [
        ("nic.link_flaps", "link enp193s0f0np0 went down 3 times in 600 s")
    ]
    assert len(incidents) == 1
    assert fired(lines[:4]) == []


def test_a_storm_of_retries_is_found() -> None:
    text = "'HTTP Error 429 thrown while requesting HEAD https://huggingface.co/acme/llm-7b/resolve/main/config.json"
    assert fired(worker(number, text, f"n{number % 8}") for number in range(60)) == ["environment.retry_storm"]
    assert fired(worker(60 * number, text) for number in range(60)) == []


NO_ROOM = "0/14 nodes are available: 14 Insufficient nvidia.com/gpu. preemption: 0/14 nodes are available."


def test_a_pod_that_finds_a_node_soon_is_no_failure() -> None:
    waits = [k8s_event(60 * minute, "FailedScheduling", NO_ROOM) for minute in range(5)]
    assigned = k8s_event(400, "Scheduled", "Successfully assigned ml/trainer-0 to gpu-node-3")
    assert run([*waits, assigned], until=4000) == ([], [])
    other = k8s_event(400, "Scheduled", "Successfully assigned ml/trainer-1 to gpu-node-3", "trainer-1")
    signals, incidents = run([*waits, other], until=4000)
    assert [(signal.rule, signal.text) for signal in signals] == [
        ("k8s.unschedulable_for_long", "pod trainer-0 found no node for 600 s")
    ]
    assert [incident.failure_class for incident in incidents] == ["k8s-unschedulable"]


def test_the_schedulers_own_lines_name_the_pod() -> None:
    waits = '"Unable to schedule pod; no fit; waiting" pod="ml/trainer-0" err="0/14 nodes are available: 14 too few."'
    bound = '"Successfully bound pod to node" pod="ml/trainer-0" node="gpu-node-3" evaluatedNodes=14 feasibleNodes=1'
    head = "I0302 09:00:01.712345       1 schedule_one.go:302] "
    pending = [(second, vector("head", second, head + waits)) for second in (0, 280)]
    assert fired(pending, until=700) == ["k8s.unschedulable_for_long"]
    assert fired([*pending, (300, vector("head", 300, head + bound))], until=700) == []


@pytest.mark.parametrize(
    ("tries_s", "rules"), [((0,), []), ((0, 700), []), ((0, 290, 580), ["k8s.unschedulable_for_long"])]
)
def test_a_pod_that_the_scheduler_no_longer_names_waits_no_longer(tries_s: tuple[int, ...], rules: list[str]) -> None:
    waits = [k8s_event(second, "FailedScheduling", NO_ROOM) for second in tries_s]
    assert fired(waits, until=1250) == rules


def test_a_job_that_waits_for_more_than_an_hour_is_recorded() -> None:
    submitted = slurmctld(0, "_slurm_rpc_submit_batch_job: JobId=881 InitPrio=4294901740 usec=412")
    started = slurmctld(3000, "sched: Allocate JobId=881 NodeList=gpu-a-[01-08] #CPUs=1024 Partition=gpu")
    assert fired([submitted, started], until=9000) == ["capacity.demand"]
    signals, incidents = run([submitted], until=9000)
    assert [(signal.rule, signal.job, signal.text) for signal in signals] == [
        ("capacity.demand", "", "1 jobs were handed in"),
        ("capacity.queue_wait", "881", "job 881 has waited for its nodes for 3600 s"),
    ]
    assert incidents == []


def squeue(second: float, jobs: Iterable[int]) -> Lines:
    return [
        (second, vector("head", second, f"{job:>18}       gpu train-7b    alice PD       0:00      8 (Resources)"))
        for job in jobs
    ]


def test_many_waiting_jobs_or_pods_are_found() -> None:
    assert fired([*squeue(0, range(880, 886)), *squeue(300, range(883, 890))]) == ["capacity.many_jobs_wait"]
    assert fired([*squeue(0, range(880, 885)), *squeue(300, range(880, 885))]) == []
    pods = [k8s_event(number, "FailedScheduling", NO_ROOM, f"trainer-{number}") for number in range(10)]
    assert fired(pods) == ["capacity.many_pods_wait"]
    no_cpu = NO_ROOM.replace("nvidia.com/gpu", "cpu")
    assert fired(k8s_event(number, "FailedScheduling", no_cpu, f"trainer-{number}") for number in range(10)) == []


def test_idle_nodes_while_jobs_wait_are_found() -> None:
    idle = "gpu*         up   infinite      4   idle gpu-a-[01-04]"

    def snapshot(minute: int) -> Lines:
        return [*squeue(60 * minute, [881]), (60 * minute + 1, vector("head", 60 * minute + 1, idle))]

    often = [line for minute in range(0, 40, 10) for line in snapshot(minute)]
    assert fired(often)[-1] == "capacity.idle_while_queued"
    assert "capacity.idle_while_queued" not in fired(snapshot(0))


def test_idle_nodes_while_pods_wait_are_found() -> None:
    lines = []
    for minute in range(0, 40, 10):
        unneeded = "I0302 09:14:01.712345       1 nodes.go:126] gpu-pool-7xk2p was unneeded for 5m10.02s"
        lines.append((60 * minute + 1, vector("head", 60 * minute + 1, unneeded)))
        lines.append(k8s_event(60 * minute, "FailedScheduling", NO_ROOM))
    assert "capacity.idle_while_queued" in fired(lines)


def preemption(second: float, job: int) -> Lines:
    text = "slurmstepd: error: *** {} ON n1 CANCELLED AT 2026-03-02T09:14:55 DUE TO PREEMPTION ***"
    return [worker(second, text.format(what), job=str(job)) for what in (f"JOB {job}", f"STEP {job}.0")]


def test_frequent_preemptions_are_found() -> None:
    often = [line for hour in range(3) for line in preemption(7200 * hour, 881)]
    assert fired(often).count("capacity.preempted_once") == 3
    assert fired(often)[-1] == "capacity.job_preempted_often"
    assert "capacity.job_preempted_often" not in fired(often[:4])
    many = [line for job in range(10) for line in preemption(60 * job, 900 + job)]
    assert fired(many)[-1] == "capacity.many_preempted"
    assert {incident.failure_class for incident in run(many)[0]} == {"job-fact", "preemption-frequent"}


def test_signals_of_windows_are_stored_like_matches() -> None:
    pipeline = Pipeline(the_rules(), "default", 0)
    lines = [memory(5 * number, 40e9 + 12e9 * (number == 40)) for number in range(60)]
    pipeline.process(batch([value for _, value in lines], live=True))
    pipeline.flush()
    (match,) = pipeline.windowed()
    (row,) = zip(*match_rows([(match, the_rules().spec_of(match))]).columns, strict=True)
    assert row[2:6] == ("training.gpu_memory_jump", "gpu-memory-spike", "warning", "root")
    assert pipeline.windowed() == []
