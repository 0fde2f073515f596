"""The simulator writes real formats, the same bytes for the same scenario, and a truth that its lines bear out."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ingest.simulate import Fault, Scenario, SimulatedLine, Truth, simulate, truth_of, write_all, write_paced
from rules.errors import ConfigError
from rules.model import NS_PER_S

FAULTS: tuple[Fault, ...] = ("gpu-off-bus", "host-oom", "jax-heartbeat", "none")
ALL = [
    pytest.param(Scenario(nodes=6, gpus_per_node=4, steps=30, fault=fault, seed=seed), id=f"{fault}-seed{seed}")
    for fault in FAULTS
    for seed in (1, 7)
] + [pytest.param(Scenario(nodes=3, steps=4, fault="none", framework="maxtext"), id="maxtext-healthy")]
BUS_OFF = Scenario(nodes=32, fault="gpu-off-bus")
KERNEL_LINE = re.compile(r"\S+\.\d{6}\+00:00 node\d{4} kernel: \[ *\d+\.\d{6}\] .+")
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def by_file(lines: list[SimulatedLine]) -> dict[str, list[SimulatedLine]]:
    grouped = defaultdict(list)
    for line in lines:
        grouped[line.path].append(line)
    return grouped


def worker_text(line: SimulatedLine) -> str:
    record = json.loads(line.text)
    return str(record["message"]) if "message" in record else str(record["log"]).removesuffix("\n")


def worker_lines(scenario: Scenario) -> list[tuple[str, str]]:
    """Node and text of every worker line."""
    return [(line.path[:8], worker_text(line)) for line in simulate(scenario) if line.path.endswith("worker.jsonl")]


def kernel_lines(scenario: Scenario) -> list[str]:
    return [line.text for line in simulate(scenario) if line.path.endswith("kern.log")]


def ns_of(stamp: str) -> int:
    """Nanoseconds of an RFC 3339 time with any number of fraction digits."""
    seconds, fraction, _ = re.fullmatch(r"(.{19})\.(\d+)(Z|\+00:00)", stamp).groups()  # type: ignore[union-attr]
    whole = datetime.fromisoformat(f"{seconds}+00:00") - EPOCH
    return round(whole.total_seconds()) * NS_PER_S + int(fraction.ljust(9, "0"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- every scenario --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ALL)
def test_same_scenario_gives_same_bytes(scenario: Scenario, tmp_path: Path) -> None:
    write_all(scenario, tmp_path / "a")
    write_all(scenario, tmp_path / "b")

    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_another_seed_gives_other_lines() -> None:
    small = Scenario(nodes=6, gpus_per_node=2)

    assert list(simulate(small)) != list(simulate(msgspec.structs.replace(small, seed=2)))


@pytest.mark.parametrize("scenario", ALL)
def test_lines_come_in_event_time_order(scenario: Scenario) -> None:
    times = [line.event_time_ns for line in simulate(scenario)]

    assert times == sorted(times)
    assert times[0] >= scenario.start_ns


@pytest.mark.parametrize("scenario", ALL)
def test_kernel_lines_are_rsyslog_lines_of_their_node(scenario: Scenario) -> None:
    for line in simulate(scenario):
        if line.path.endswith("kern.log"):
            stamp, node, program, _ = line.text.split(" ", 3)
            assert KERNEL_LINE.fullmatch(line.text), line.text
            assert (node, program) == (line.path[:8], "kernel:")
            assert ns_of(stamp) == line.event_time_ns


@pytest.mark.parametrize("scenario", ALL)
def test_worker_lines_are_the_json_of_the_nodes_shipper(scenario: Scenario) -> None:
    for line in simulate(scenario):
        if not line.path.endswith("worker.jsonl"):
            continue
        record, node = json.loads(line.text), line.path[:8]
        kubernetes = record["kubernetes"]
        assert record["stream"] in ("stdout", "stderr")
        if int(node[4:]) % 2:
            assert ns_of(record["timestamp"]) == line.event_time_ns
            assert record["source_type"] == "kubernetes_logs"
            assert record["file"].startswith(
                f"/var/log/pods/training_{kubernetes['pod_name']}_{kubernetes['pod_uid']}/"
            )
            assert (kubernetes["pod_node_name"], kubernetes["pod_namespace"]) == (node, "training")
            labels = kubernetes["pod_labels"]
        else:
            assert ns_of(record["@timestamp"]) == line.event_time_ns
            assert record["log"].endswith("\n")
            assert (kubernetes["host"], kubernetes["namespace_name"]) == (node, "training")
            labels = kubernetes["labels"]
        assert labels["training.kubeflow.org/job-name"] == scenario.job
        assert "\n" not in worker_text(line)


@pytest.mark.parametrize("scenario", ALL)
def test_every_node_speaks_on_both_logs(scenario: Scenario) -> None:
    grouped = by_file(list(simulate(scenario)))

    for node in truth_of(scenario).nodes:
        assert len(grouped[f"{node}/kern.log"]) > 5
        assert len(grouped[f"{node}/worker.jsonl"]) > 5


@pytest.mark.parametrize("scenario", ALL)
def test_paced_writing_ends_with_the_same_files(scenario: Scenario, tmp_path: Path) -> None:
    waits: list[float] = []
    speed = 60.0

    at_once = write_all(scenario, tmp_path / "at-once")
    paced = write_paced(scenario, tmp_path / "paced", speed, waits.append)

    last_ns = max(line.event_time_ns for line in simulate(scenario))
    assert contents(tmp_path / "at-once") == contents(tmp_path / "paced")
    assert at_once == paced
    assert min(waits) > 0
    assert sum(waits) * speed == pytest.approx((last_ns - scenario.start_ns) / NS_PER_S, abs=0.2)


def test_paced_writing_shows_each_instant_before_it_waits(tmp_path: Path) -> None:
    scenario = Scenario(nodes=4, gpus_per_node=2, fault="none", steps=3)
    sizes: list[int] = []

    def wait(seconds: float) -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("node*/*")))

    write_paced(scenario, tmp_path, 1.0, wait)

    assert sizes[0] > 0
    assert all(a < b for a, b in pairwise(sizes))


def test_writing_again_replaces_the_files(tmp_path: Path) -> None:
    scenario = Scenario(nodes=4, gpus_per_node=2, fault="none", steps=3)

    write_all(scenario, tmp_path)
    first = contents(tmp_path)
    write_all(scenario, tmp_path)

    assert contents(tmp_path) == first


# ---- truth -----------------------------------------------------------------------------------------------------------


def test_truth_file_holds_the_truth(tmp_path: Path) -> None:
    truth = write_all(BUS_OFF, tmp_path)

    assert msgspec.json.decode((tmp_path / "truth.json").read_bytes(), type=Truth) == truth
    assert json.loads((tmp_path / "truth.json").read_text())["root_cause"] == {
        "class": "xid-79",
        "node": "node0017",
        "gpu": "0000:61:00",
        "rank": 16 * 8 + 3,
        "event_time": "2026-03-02T09:01:00.342504+00:00",
        "also_ok": ["gpu-fallen-off-bus", "pcie-aer-fatal"],
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_xid_79_stands_once_where_the_truth_says(seed: int) -> None:
    scenario = msgspec.structs.replace(BUS_OFF, seed=seed)
    root = truth_of(scenario).root_cause
    assert root is not None

    xids = [line for line in kernel_lines(scenario) if "NVRM: Xid" in line and ": 79," in line]

    assert len(xids) == 1
    assert xids[0].startswith(f"{root.event_time} {root.node} kernel: ")
    assert f"NVRM: Xid (PCI:{root.gpu}): 79, pid=" in xids[0]
    assert xids[0].endswith("name=python3, GPU has fallen off the bus.")


def test_nccl_start_lines_join_the_truths_rank_to_its_bus() -> None:
    root = truth_of(BUS_OFF).root_cause
    assert root is not None

    starts = [
        text for node, text in worker_lines(BUS_OFF) if node == root.node and f" rank {root.rank} nranks 256" in text
    ]

    assert len(starts) == 1
    assert "cudaDev 3 nvmlDev 3 busId 61000 " in starts[0]


def test_kernel_cascade_around_the_fault_is_in_order() -> None:
    text = "\n".join(line for line in kernel_lines(BUS_OFF) if " node0017 " in line)
    marks = (
        "AER: Uncorrectable (Fatal) error message received from 0000:61:00.0",
        "Xid (PCI:0000:61:00): 79",
        "NVRM: GPU 0000:61:00.0: GPU has fallen off the bus.",
        "rpcSendMessage failed with status 0x0000000f",
        "Xid (PCI:0000:61:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    )

    assert [text.index(mark) for mark in marks] == sorted(text.index(mark) for mark in marks)
    assert len(re.findall("rpcSendMessage|GspRmFree|nvAssertFailedNoLog|nvCheckOkFailedNoLog", text)) == 48


@pytest.mark.parametrize("scenario", [BUS_OFF, Scenario(nodes=4, gpus_per_node=2, seed=5, collective_timeout_s=30)])
def test_all_ranks_but_the_dead_nodes_report_the_time_out(scenario: Scenario) -> None:
    truth = truth_of(scenario)
    assert truth.root_cause is not None
    dead = truth.nodes.index(truth.root_cause.node)
    per_node = scenario.gpus_per_node
    timeout_ms = round(scenario.collective_timeout_s * 1000)
    pattern = re.compile(
        r"\[rank(\d+)\]:\[E302 \d\d:\d\d:\d\d\.\d{9} ProcessGroupNCCL\.cpp:\d+\] \[Rank \1\] Watchdog caught collective"
        r" operation timeout: WorkNCCL\(SeqNum=\d+, OpType=ALLREDUCE, NumelIn=(\d+), NumelOut=\2,"
        rf" Timeout\(ms\)={timeout_ms}\) ran for (\d+) milliseconds before timing out\."
    )

    reports = [(node, match) for node, text in worker_lines(scenario) if (match := pattern.fullmatch(text))]

    assert sorted(int(match[1]) for _, match in reports) == [r for r in truth.ranks if r // per_node != dead]
    assert all(node == truth.nodes[int(match[1]) // per_node] for node, match in reports)
    assert all(timeout_ms < int(match[3]) < timeout_ms + 100 for _, match in reports)


def test_time_outs_put_back_by_what_they_ran_point_at_the_fault() -> None:
    root = truth_of(BUS_OFF).root_cause
    assert root is not None
    fault_ns = ns_of(root.event_time)

    for line in simulate(BUS_OFF):
        if line.path.endswith("worker.jsonl") and ":683] " in line.text:
            ran_ms = int(re.findall(r"ran for (\d+) milliseconds", line.text)[0])
            assert 0 < line.event_time_ns - ran_ms * 1_000_000 - fault_ns < NS_PER_S


def test_the_dead_nodes_worker_goes_quiet_while_its_kernel_speaks_on() -> None:
    root = truth_of(BUS_OFF).root_cause
    assert root is not None
    after = [line for line in simulate(BUS_OFF) if line.event_time_ns > ns_of(root.event_time) + NS_PER_S]

    files = by_file(after)

    assert f"{root.node}/worker.jsonl" not in files
    assert len(files[f"{root.node}/kern.log"]) > 10


@pytest.mark.parametrize("fault", ["gpu-off-bus", "host-oom", "jax-heartbeat"])
def test_steps_stop_at_the_fault(fault: Fault) -> None:
    scenario = Scenario(nodes=6, fault=fault)
    steps = [
        line.event_time_ns
        for line in simulate(scenario)
        if "] iteration " in line.text or "completed step: " in line.text
    ]

    assert max(steps) <= scenario.start_ns + 60 * NS_PER_S
    assert len(steps) == (9 * 6 if fault == "jax-heartbeat" else 10)


def test_slurm_cancels_the_step_at_the_end() -> None:
    out = [line.text for line in simulate(BUS_OFF) if line.path == "scheduler/slurm-7877.out"]

    assert "slurmstepd: error: *** STEP 7877.0 ON node0001 CANCELLED AT 2026-03-02T09:11:04 ***" in out
    assert "srun: error: node0017: task 16: Killed" in out
    assert any(
        re.fullmatch(r"srun: error: node\[.*0018-0032\]: tasks .*,17-31: Exited with exit code 1", t) for t in out
    )


# ---- the other faults ------------------------------------------------------------------------------------------------


def test_host_oom_is_told_by_kernel_then_worker_then_peers() -> None:
    scenario = Scenario(fault="host-oom")
    root = truth_of(scenario).root_cause
    assert root is not None
    kernel = [line for line in kernel_lines(scenario) if f" {root.node} " in line]
    texts = worker_lines(scenario)

    assert any("pt_data_worker invoked oom-killer: gfp_mask=0x140dca(" in line for line in kernel)
    kills = [line for line in kernel if "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)" in line]
    assert [line.split(" ")[0] for line in kills] == [root.event_time]
    assert sum(": Killed process " in line and "Out of memory" in line for line in kernel) == 1
    assert any(
        re.fullmatch(
            rf"\[rank{root.rank}\]: RuntimeError: DataLoader worker \(pid \d+\) is killed by signal: Killed\. ", text
        )
        for node, text in texts
        if node == root.node
    )
    closed = {node for node, text in texts if f"Connection closed by remote peer {root.node}<" in text}
    timed_out = {node for node, text in texts if "683] [Rank " in text}
    assert closed == {"node0016", "node0018"}
    assert timed_out == set(truth_of(scenario).nodes) - closed - {root.node}


def test_jax_heartbeat_silences_one_node_and_ends_the_others() -> None:
    scenario = Scenario(fault="jax-heartbeat")
    truth = truth_of(scenario)
    assert truth.root_cause is not None
    died_ns = ns_of(truth.root_cause.event_time)
    files = by_file([line for line in simulate(scenario) if line.event_time_ns >= died_ns])
    texts = worker_lines(scenario)

    assert f"{truth.root_cause.node}/kern.log" not in files
    assert f"{truth.root_cause.node}/worker.jsonl" not in files
    survivors = [node for node in truth.nodes if node != truth.root_cause.node]
    leader = [
        node for node, text in texts if "Use error polling to propagate the following error to all tasks:" in text
    ]
    assert leader == ["node0001"]
    assert f"/job:jax_worker/replica:0/task:{truth.root_cause.rank}" in [text for _, text in texts]
    for mark in ("Polled an error from coordination service", "Terminating process because the JAX distributed"):
        assert sorted(node for node, text in texts if mark in text) == survivors


def test_jax_heartbeat_never_takes_the_leader() -> None:
    nodes = {truth_of(Scenario(nodes=2, fault="jax-heartbeat", seed=seed)).root_cause for seed in range(10)}

    assert {root.node for root in nodes if root} == {"node0002"}


@pytest.mark.parametrize("framework", ["megatron", "maxtext"])
def test_a_healthy_run_shows_no_failure(framework: str) -> None:
    scenario = msgspec.convert({"fault": "none", "framework": framework}, Scenario)
    truth = truth_of(scenario)
    lines = [line.text for line in simulate(scenario)]

    assert truth.healthy
    assert truth.root_cause is None
    assert not truth.classes
    for word in ("Xid", "oom-kill", "Watchdog caught", "Traceback", "CANCELLED", "fallen off", "UNAVAILABLE"):
        assert not any(word in line for line in lines), word


def test_a_healthy_megatron_run_counts_every_step_and_ends() -> None:
    texts = worker_lines(Scenario(nodes=3, fault="none", steps=12))
    steps = [
        (node, int(m[1])) for node, text in texts if (m := re.search(r"\] iteration +(\d+)/ +12 \| consumed", text))
    ]

    assert steps == [("node0003", step) for step in range(1, 13)]
    assert texts[-1][1].startswith("[after training is done] datetime: ")


def test_a_healthy_maxtext_run_counts_every_step_on_every_task() -> None:
    texts = worker_lines(Scenario(nodes=3, fault="none", framework="maxtext", steps=12))
    steps = sorted(
        (node, int(m[1])) for node, text in texts if (m := re.search(r"completed step: (\d+), seconds: ", text))
    )

    assert steps == [(f"node000{node}", step) for node in (1, 2, 3) for step in range(12)]
    assert texts[-1][1].endswith("Saved a checkpoint at step 11.")


# ---- size, and what can't be simulated -------------------------------------------------------------------------------


def test_noise_rates_scale_the_output() -> None:
    quiet = Scenario(nodes=4, fault="none", kernel_noise_per_minute=0, worker_noise_per_minute=0)
    loud = msgspec.structs.replace(quiet, kernel_noise_per_minute=60, worker_noise_per_minute=60)

    # 4 nodes, about 17 minutes, one happening a second on each of two logs
    assert len(list(simulate(loud))) - len(list(simulate(quiet))) > 4 * 16 * 60 * 2


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"nodes": 1}, "nodes"),
        ({"nodes": 3, "fault": "host-oom"}, "nodes"),
        ({"gpus_per_node": 9}, "gpus_per_node"),
        ({"step_time_s": 0.01, "fault": "none"}, "step_time_s"),
        ({"steps": 0, "fault": "none"}, "steps"),
        ({"fault_at_s": 5}, "fault_at_s"),
        ({"fault_at_s": 2000}, "fault_at_s"),
        ({"framework": "maxtext"}, "framework"),
        ({"fault": "jax-heartbeat", "framework": "megatron"}, "framework"),
        ({"collective_timeout_s": 1}, "collective_timeout_s"),
    ],
)
def test_a_scenario_that_contradicts_itself_is_refused(wrong: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(msgspec.convert(wrong, Scenario))

    assert [problem.split(":")[0] for problem in error.value.problems] == [name]


def test_speed_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="speed"):
        write_paced(BUS_OFF, tmp_path, 0, lambda seconds: None)
