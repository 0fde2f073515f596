"""The simulator writes real formats, the same bytes for the same scenario, and a truth that its lines confirm."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from epicenter.ingest.simulate import (
    KINDS,
    Scenario,
    SimulatedLine,
    Truth,
    mixed,
    simulate,
    truth_of,
    write_all,
    write_paced,
)
from epicenter.ingest.simulate.model import Framework
from epicenter.ingest.simulate.plan import plan_of
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S

EVERY_FAULT = sorted(KINDS)
FRAMEWORKS: tuple[Framework, ...] = ("megatron", "maxtext", "hf", "ray")
VERDICTS = {
    "", "hung", "straggler", "rank-dead", "node-dead", "finished", "cancelled", "never-started", "shipper-silent",
    "pipeline-behind", "buffered", "cut-off",
}  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def played(fault: str, **given: object) -> Scenario:
    return msgspec.convert({"nodes": 6, "jobs": 2, "gpus_per_node": 4, "faults": (fault,), **given}, Scenario)


def tidy(fault: str, framework: str, **given: object) -> Scenario:
    return played(fault, jobs=1, frameworks=(framework,), is_tidy=True, **given)


def text_of(line: SimulatedLine) -> str:
    """The written line, without the shipper's envelope."""
    if not line.text.startswith('{"'):
        return line.text
    record = json.loads(line.text)
    return str(next(record[name] for name in ("message", "log", "MESSAGE", "msg") if name in record)).rstrip("\n")


def ns_of(stamp: str) -> int:
    return (datetime.fromisoformat(stamp) - EPOCH) // timedelta(microseconds=1) * 1_000


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- every kind ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", EVERY_FAULT)
def test_same_scenario_gives_same_bytes(fault: str, tmp_path: Path) -> None:
    write_all(played(fault), tmp_path / "a")
    write_all(played(fault), tmp_path / "b")

    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("fault", EVERY_FAULT)
def test_lines_are_in_the_order_of_writing_and_last_as_long_as_the_truth(fault: str) -> None:
    scenario = played(fault)
    truth = truth_of(scenario)

    times = [line.written_ns for line in simulate(scenario)]

    assert times == sorted(times)
    assert times[0] >= scenario.start_ns
    assert ns_of(truth.end) - 60 * NS_PER_S < times[-1] < ns_of(truth.end)


@pytest.mark.parametrize("fault", EVERY_FAULT)
def test_the_truth_of_every_fault_is_complete(fault: str) -> None:
    truth = truth_of(played(fault))
    (fault_truth,) = truth.faults

    assert fault_truth.fault == fault
    assert fault_truth.verdict in VERDICTS
    assert fault_truth.incident == bool(fault_truth.failure_class)
    assert truth.start < fault_truth.onset < truth.end
    assert set(fault_truth.jobs) <= {job.job for job in truth.jobs}
    assert fault_truth.jobs
    assert not fault_truth.node or fault_truth.node in fault_truth.nodes
    assert {node for job in truth.jobs if job.job in fault_truth.jobs for node in job.nodes} <= set(fault_truth.nodes)
    if fault_truth.rank is not None:
        (job,) = (job for job in truth.jobs if job.job in fault_truth.jobs)
        ranks_per_node = job.world_size // len(job.nodes)
        assert job.nodes[fault_truth.rank // ranks_per_node] == fault_truth.node
    if fault_truth.gpu:
        assert re.fullmatch(r"0000:[0-9a-f]{2}:00", fault_truth.gpu)


@pytest.mark.parametrize("fault", [name for name, kind in sorted(KINDS.items()) if kind.begins == "while it trains"])
def test_before_the_onset_nothing_differs_from_a_healthy_run(fault: str) -> None:
    scenario = played(fault)
    onset_ns = ns_of(truth_of(scenario).faults[0].onset)
    plan = plan_of(scenario)
    lone = msgspec.structs.replace(scenario, faults=(), frameworks=(plan.jobs[0].framework,))
    words = ("NVRM: Xid", "oom-kill", "Watchdog caught", "Traceback", "CANCELLED", "fallen off", "UNAVAILABLE")

    before = [text_of(line) for line in simulate(scenario) if line.written_ns < onset_ns]

    assert len(before) > 50
    assert not [text for text in before if any(word in text for word in words)]
    assert plan_of(lone).jobs[0].framework == plan.jobs[0].framework


def test_another_seed_gives_other_lines() -> None:
    assert list(simulate(played("gpu-off-bus"))) != list(simulate(played("gpu-off-bus", seed=2)))


def test_the_mix_follows_the_weights() -> None:
    drawn = Counter(name for seed in range(400) for name in mixed(seed, 2))

    gpu = sum(count for name, count in drawn.items() if KINDS[name].failure_class.startswith("xid"))
    assert all(KINDS[name].weight for name in drawn)
    assert 0.4 < gpu / 800 < 0.7


# ---- envelopes and transport -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_tidy_run_states_every_time_once(framework: str) -> None:
    scenario = Scenario(nodes=4, frameworks=(framework,), minutes=6, is_tidy=True)  # type: ignore[arg-type]
    lines = list(simulate(scenario))

    assert len(set(lines)) == len(lines)
    for line in lines:
        if line.path.endswith("kern.log"):
            stamp, node, program, _ = line.text.split(" ", 3)
            assert (node, program) == (line.path[:8], "kernel:")
            assert ns_of(stamp) == line.written_ns
        elif line.path.endswith("worker.jsonl"):
            record = json.loads(line.text)
            kubernetes = record["kubernetes"]
            assert kubernetes.get("pod_node_name", kubernetes.get("host")) == line.path[:8]
            assert "\n" not in text_of(line)
        else:
            raise AssertionError(line.path)


def test_kernels_use_every_shipper_and_pods_both() -> None:
    scenario = Scenario(nodes=40, jobs=8, minutes=4, frameworks=("hf",))
    kernels: set[str] = set()
    pods: set[str] = set()
    for line in simulate(scenario):
        name = line.path.rpartition("/")[2]
        if name == "worker.jsonl":
            pods.add("vector" if "source_type" in json.loads(line.text) else "fluent-bit")
        else:
            kernels.add(name)

    assert kernels == {"kern.log", "journal.jsonl", "journald.jsonl", "kmsg.jsonl"}
    assert pods == {"vector", "fluent-bit"}


def test_jobs_share_nodes_and_run_in_slurm_too() -> None:
    plans = [plan_of(Scenario(nodes=12, jobs=3, seed=seed)) for seed in range(12)]

    assert all(plan.jobs[-1].nodes == plan.jobs[-2].nodes for plan in plans)
    assert all(plan.jobs[-1].first_gpu == plan.jobs[-2].gpus == 4 for plan in plans)
    assert {job.platform for plan in plans for job in plan.jobs} == {"slurm", "kubernetes"}
    assert {job.framework for plan in plans for job in plan.jobs} == set(FRAMEWORKS)


def test_some_lines_are_late_doubled_or_lost_within_the_allowed_lateness() -> None:
    rough = Scenario(nodes=8, jobs=1, minutes=60, frameworks=("maxtext",))
    records = [json.loads(line.text) | {"at": line.written_ns} for line in simulate(rough) if "worker" in line.path]
    stamps = [str(record.get("timestamp", record.get("@timestamp"))) for record in records]
    late_s = [
        (record["at"] - ns_of(stamp[:26] + "+00:00")) / NS_PER_S for record, stamp in zip(records, stamps, strict=True)
    ]

    assert stamps != sorted(stamps)
    assert len(set(map(str, stamps))) < len(stamps)
    assert max(late_s) < 5.1


def test_buffered_output_is_written_in_bursts() -> None:
    scenario = played("buffered", jobs=1, frameworks=("megatron",))
    onset_ns = ns_of(truth_of(scenario).faults[0].onset)
    steps = [line.written_ns for line in simulate(scenario) if "] iteration " in line.text]

    gaps_s = [(b - a) / NS_PER_S for a, b in pairwise(step for step in steps if step > onset_ns)]

    assert sum(gap > 30 for gap in gaps_s) >= 2
    assert sum(gap < 0.5 for gap in gaps_s) > len(gaps_s) // 2


# ---- healthy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_healthy_run_has_steps_and_pauses_and_no_failure(framework: str) -> None:
    scenario = Scenario(nodes=4, frameworks=(framework,), minutes=20, is_tidy=True)  # type: ignore[arg-type]
    truth = truth_of(scenario)
    lines = list(simulate(scenario))
    shape = re.compile(r"\] iteration +(\d+)/|completed step: (\d+),|\| (\d+)/12000 \[|iter (\d+): loss")
    step_lines = [(line.written_ns, found[-1]) for line in lines if (found := shape.findall(text_of(line)))]
    steps = [(at, max(map(int, filter(None, found)))) for at, found in step_lines]

    assert truth.faults == ()
    assert steps[-1][1] - steps[0][1] > 40
    assert all(a <= b for (_, a), (_, b) in pairwise(steps))
    for word in ("NVRM: Xid", "oom-kill", "Watchdog caught", "Traceback", "CANCELLED", "fallen off", "UNAVAILABLE"):
        assert not any(word in line.text for line in lines), word


# ---- single cascades -------------------------------------------------------------------------------------------------


def test_xid_79_is_logged_once_at_the_place_of_the_truth() -> None:
    scenario = tidy("gpu-off-bus", "megatron")
    (truth,) = truth_of(scenario).faults

    xids = [line for line in simulate(scenario) if "NVRM: Xid" in line.text and ": 79," in line.text]

    assert len(xids) == 1
    assert xids[0].path == f"{truth.node}/kern.log"
    assert f"NVRM: Xid (PCI:{truth.gpu}): 79, pid=" in xids[0].text
    assert 0 <= xids[0].written_ns - ns_of(truth.onset) < NS_PER_S


def test_nccls_banner_maps_the_truths_rank_to_its_bus() -> None:
    scenario = tidy("gpu-off-bus", "megatron")
    (truth,) = truth_of(scenario).faults

    starts = [text_of(line) for line in simulate(scenario) if f" rank {truth.rank} nranks 24 " in line.text]

    assert len(starts) == 1
    assert f"busId {truth.gpu[5:7]}000 " in starts[0]


@pytest.mark.parametrize("timeout_s", [600.0, 30.0])
def test_all_ranks_but_the_dead_nodes_report_the_time_out_and_point_at_the_onset(timeout_s: float) -> None:
    scenario = tidy("gpu-off-bus", "megatron", collective_timeout_s=timeout_s)
    (truth,) = truth_of(scenario).faults
    shape = re.compile(r"\[rank(\d+)\]:\[E302 .*\] \[Rank \1\] Watchdog caught .* ran for (\d+) milliseconds before")

    found = [(line, match) for line in simulate(scenario) if (match := shape.match(text_of(line)))]

    silent = truth.nodes.index(truth.node)
    assert sorted(int(match[1]) for _, match in found) == [rank for rank in range(24) if rank // 4 != silent]
    for line, match in found:
        assert timeout_s * 1000 - 100 < int(match[2]) < timeout_s * 1000 + 100
        assert abs(line.written_ns - int(match[2]) * 1_000_000 - ns_of(truth.onset)) < 3 * NS_PER_S


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("fault", ["gpu-off-bus", "gpu-memory-error", "kernel-panic", "python-exception"])
def test_steps_end_at_the_fault(fault: str, framework: str) -> None:
    scenario = tidy(fault, framework, step_time_s=2.0)
    (truth,) = truth_of(scenario).faults
    shape = re.compile(r"\] iteration +\d+/|completed step: \d+,|\| \d+/12000 \[|iter \d+: loss")

    steps = [line.written_ns for line in simulate(scenario) if shape.search(text_of(line))]

    assert len(steps) > 2
    assert max(steps) <= ns_of(truth.onset) + NS_PER_S


def test_a_dead_node_is_silent_and_the_others_continue() -> None:
    scenario = played("node-dies", jobs=1)
    (truth,) = truth_of(scenario).faults
    after = {line.path for line in simulate(scenario) if line.written_ns > ns_of(truth.onset) + 10 * NS_PER_S}

    assert not [path for path in after if path.startswith(truth.node)]
    assert {path[:8] for path in after} > set(truth.nodes) - {truth.node}


def test_a_silent_shipper_hides_one_nodes_logs_and_the_job_continues() -> None:
    scenario = played("shipper-silent", jobs=1, frameworks=("maxtext",))
    (truth,) = truth_of(scenario).faults
    after = [line for line in simulate(scenario) if line.written_ns > ns_of(truth.onset) + 10 * NS_PER_S]

    assert not [line for line in after if line.path.startswith(truth.node)]
    assert sum("completed step" in line.text for line in after) > 20


def _has_plain_log(scenario: Scenario) -> bool:
    job = plan_of(scenario).jobs[0]
    return job.platform == "slurm" and job.has_plain_log


def test_slurm_reports_how_the_step_ended() -> None:
    scenario = next(
        candidate
        for seed in range(40)
        if _has_plain_log(candidate := played("python-exception", seed=seed, frameworks=("megatron",)))
    )
    (truth,) = truth_of(scenario).faults
    out = [line.text for line in simulate(scenario) if line.path == f"scheduler/slurm-{truth.jobs[0]}.out"]

    assert f"srun: Terminating StepId={truth.jobs[0]}.0" in out
    assert any(re.match(rf"srun: error: {truth.node}: task \d+: Exited with exit code 1", text) for text in out)
    assert any(re.match(r"\d+: \[rank\d+\]: Traceback", text) for text in out)


def test_jax_names_the_lost_task() -> None:
    scenario = tidy("jax-heartbeat", "maxtext")
    (truth,) = truth_of(scenario).faults
    lines = [(line.path[:8], text_of(line)) for line in simulate(scenario)]
    polled = sorted(node for node, text in lines if "Polled an error from coordination service" in text)

    assert polled == [node for node in truth.nodes if node != truth.node]


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["gpu-off-bus", "node-dies", "buffered"])
def test_paced_writing_ends_with_the_same_files(fault: str, tmp_path: Path) -> None:
    waits: list[float] = []
    scenario, speed = played(fault), 60.0

    at_once = write_all(scenario, tmp_path / "at-once")
    paced = write_paced(scenario, tmp_path / "paced", speed, waits.append)

    last_ns = max(line.written_ns for line in simulate(scenario))
    assert contents(tmp_path / "at-once") == contents(tmp_path / "paced")
    assert at_once == paced
    assert min(waits) > 0
    assert sum(waits) * speed == pytest.approx((last_ns - scenario.start_ns) / NS_PER_S, abs=0.2)


def test_paced_writing_flushes_each_instant_before_it_waits(tmp_path: Path) -> None:
    sizes: list[int] = []

    def wait(length_s: float) -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("node*/*")))

    write_paced(Scenario(nodes=4, gpus_per_node=2, minutes=2, is_tidy=True), tmp_path, 1.0, wait)

    assert sizes[0] >= 0
    assert all(a < b for a, b in pairwise(sizes[1:]))


def test_the_truth_file_holds_the_truth(tmp_path: Path) -> None:
    truth = write_all(played("gpu-off-bus"), tmp_path)
    raw = json.loads((tmp_path / "truth.json").read_text())

    assert msgspec.json.decode((tmp_path / "truth.json").read_bytes(), type=Truth) == truth
    assert list(raw) == ["seed", "nodes", "start", "end", "jobs", "faults", "gpus_per_node", "disturbances"]
    assert list(raw["jobs"][0]) == ["job", "framework", "nodes", "world_size"]
    assert list(raw["faults"][0]) == [
        "fault", "class", "also_ok", "node", "gpu", "rank", "onset", "jobs", "nodes", "verdict", "incident",
        "names_node", "names_class",
    ]  # fmt: skip


# ---- what can't be simulated -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"nodes": 1}, "nodes"),
        ({"nodes": 4096}, "nodes"),
        ({"nodes": 2, "jobs": 2}, "jobs"),
        ({"jobs": 0}, "jobs"),
        ({"minutes": 0}, "minutes"),
        ({"gpus_per_node": 9}, "gpus_per_node"),
        ({"faults": ["nonsense"]}, "faults"),
        ({"faults": ["hang", "host-oom"], "jobs": 1}, "faults"),
        ({"fault_at_s": 5, "faults": ["hang"]}, "fault_at_s"),
        ({"faults": ["jax-heartbeat"], "frameworks": ["megatron"]}, "frameworks"),
    ],
)
def test_a_scenario_that_contradicts_itself_is_refused(wrong: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(msgspec.convert(wrong, Scenario))

    assert name in [problem.split(":")[0] for problem in error.value.problems]


def test_speed_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="speed"):
        write_paced(played("hang"), tmp_path, 0, lambda length_s: None)
