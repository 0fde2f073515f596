"""Folders of ordinary files: one incident a failure, with the job and the node, and never the reader's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.local.pipeline import Pipeline, replay
from tests.support.logs import LATER_NS, the_rules

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n"
)
XID = "[Mon Mar  2 09:09:50 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
TRACEBACK = (
    "Traceback (most recent call last):\n",
    '  File "/w/train.py", line 412, in <module>\n',
    "    main()\n",
    "ValueError: no batch\n",
)
STARTED = "2026-03-02 09:09:00,000 INFO started\n"


def timed_out(rank: int) -> str:
    return (
        f"[rank{rank}]:[E302 09:20:00.{rank:03d}000000 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=13, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
        "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )


def incidents_of(folder: Path, files: dict[str, str], host: str = "") -> list[Incident]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    pipeline = Pipeline(the_rules(), "default", 5 * NS_PER_S)
    return replay(pipeline, Sources([str(folder)], host, follow=False))


LAUNCHED = "".join(f"{task}: W0302 09:00:01.000000 201 torch/distributed/run.py:774] \n" for task in range(2))
LABELLED = "".join(f"{rank // 8}: {timed_out(rank)}" for rank in range(15))

GAVE_UP = """\
2026-03-02T09:00:00 JOB_ID=7881 NNODES=3 MASTER_ADDR=h1 MASTER_PORT=29500 JOB_NODELIST=h1,h2,h3
2026-03-02T09:00:08 0: W0302 09:00:08.735348 133751 torch/distributed/run.py:766] Setting OMP_NUM_THREADS environment
2026-03-02T09:10:01 0: torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
2026-03-02T09:10:09 srun: error: h1: task 0: Exited with exit code 1
2026-03-02T09:10:10 slurmstepd: error: *** STEP 7881.0 ON h1 CANCELLED AT 2026-03-02T09:10:10 ***
2026-03-02T09:10:30 srun: error: h2: task 1: Terminated
2026-03-02T09:10:30 srun: error: h3: task 2: Terminated
"""

FOLDERS = [
    pytest.param(
        {"slurm/slurm-7881.out": GAVE_UP},
        ("rendezvous-timeout", "", ("7881",), ("h1", "h2", "h3")),
        id="the-only-task-that-prints-waits-for-others",
    ),
    pytest.param(
        {
            "slurm-7877.out": f"JOB_NODELIST=gpu-a-[11-12]\n{LAUNCHED}{LABELLED}",
            "dmesg-gpu-a-12.txt": XID,
        },
        ("xid-79", "gpu-a-12", ("7877",), ("gpu-a-11", "gpu-a-12")),
        id="slurm-and-dmesg",
    ),
    pytest.param(
        {
            "node0007/worker.log": STARTED + "".join(map(timed_out, range(8))),
            "node0008/worker.log": STARTED + "".join(map(timed_out, range(8, 15))),
            "node0008/kern.log": XID,
        },
        ("xid-79", "node0008", ("log:night",), ("node0007", "node0008")),
        id="folders-of-nodes",
    ),
    pytest.param(
        {f"job-7878/rank{rank}.log": STARTED + (OUT_OF_MEMORY if rank == 2 else timed_out(rank)) for rank in range(4)},
        ("oom-gpu", "", ("7878",), ()),
        id="ranks-of-a-job",
    ),
    pytest.param(
        {
            "7878/h1.cluster/rank_0.log": STARTED + timed_out(0),
            "7878/h2.cluster/rank_1.log": "".join(f"[rank1]: {line}" for line in TRACEBACK),
        },
        ("python-exception", "h2.cluster", ("7878",), ("h1.cluster", "h2.cluster")),
        id="a-rank-that-states-no-time",
    ),
    pytest.param(
        {
            f"7879_a1b2c3d4/attempt_0/{rank}/stderr.log": STARTED + (timed_out(rank) if rank else OUT_OF_MEMORY)
            for rank in range(4)
        },
        ("oom-gpu", "", ("7879",), ()),
        id="torchrun-folders",
    ),
    pytest.param(
        {"llama-7880.out": STARTED + OUT_OF_MEMORY, "llama-7880.err": timed_out(1)},
        ("oom-gpu", "", ("7880",), ()),
        id="out-and-err",
    ),
    pytest.param(
        {"train.log": STARTED + OUT_OF_MEMORY + timed_out(1)},
        ("oom-gpu", "", ("log:train",), ()),
        id="nothing-reported",
    ),
    pytest.param(
        {"all.txt": STARTED + timed_out(0) + XID},
        ("xid-79", "", ("log:all",), ()),
        id="kernel-among-workers",
    ),
]


@pytest.mark.parametrize(("files", "expected"), FOLDERS)
def test_one_failure_is_one_incident(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str, tuple[str, ...], tuple[str, ...]]
) -> None:
    (incident,) = incidents_of(tmp_path / "night", files)
    cause = incident.root_cause
    assert (cause.failure_class, cause.node, incident.jobs, incident.nodes) == expected


def test_the_rank_that_reports_no_timeout_runs_on_the_node_of_its_folder(tmp_path: Path) -> None:
    texts = {rank: STARTED + (timed_out(rank) if rank != 5 else "") for rank in range(8)}
    (incident,) = incidents_of(tmp_path, {f"7878/h{rank % 4}/rank_{rank}.log": text for rank, text in texts.items()})
    assert (incident.root_cause.node, incident.root_cause.rank) == ("h1", 5)


def test_time_waits_for_a_line_without_one_until_its_job_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read in small pieces, with event time in step, it gives what it gives when everything is read first."""
    files = {
        "7878/h1/rank_0.log": STARTED + OUT_OF_MEMORY + "bye\n",
        "7878/h2/rank_1.log": "".join(f"2026-03-02 09:{minute:02}:00,000 INFO x\n" for minute in range(9, 20))
        + timed_out(1),
        "7879/h3/rank_0.log": "".join(f"2026-03-02 09:{minute:02}:30,000 INFO x\n" for minute in range(9, 59)),
    }
    read_first = incidents_of(tmp_path, files)
    monkeypatch.setattr("epicenter.ingest.collect.files.READ_BYTES", 128)
    pipeline, sources = Pipeline(the_rules(), "default", 5 * NS_PER_S), Sources([str(tmp_path)], "", follow=False)
    changed: list[Incident] = []
    while lagging := [source for source in sources.all() if not source.has_ended]:
        for source in lagging:
            if found := source.read(LATER_NS):
                pipeline.process(found)
        changed += pipeline.advance([source.name for source in lagging if not source.has_ended])
    pipeline.rest()
    newest = {incident.incident_id: incident for incident in [*changed, *pipeline.flush()]}
    assert [found.root_cause.failure_class for found in read_first] == ["oom-gpu"]
    assert list(newest.values()) == read_first


def test_two_jobs_are_two_incidents(tmp_path: Path) -> None:
    files = {f"slurm-7877_{task}.out": STARTED + OUT_OF_MEMORY for task in (3, 4)}
    assert sorted(incident.jobs for incident in incidents_of(tmp_path, files)) == [("7877_3",), ("7877_4",)]


def test_lines_of_a_kernel_without_a_name_are_one_incident(tmp_path: Path) -> None:
    failed = "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0"
    (incident,) = incidents_of(tmp_path, {"dmesg.txt": f"{XID}[Mon Mar  2 09:09:55 2026] {failed}\n"})
    assert (incident.root_cause.failure_class, incident.nodes, incident.jobs) == ("xid-79", (), ())


def test_two_kernels_without_a_name_are_two_incidents(tmp_path: Path) -> None:
    assert len(incidents_of(tmp_path, {"a/dmesg.txt": XID, "b/dmesg.txt": XID.replace("3b", "9d")})) == 2


def test_a_file_read_where_it_was_written_is_of_that_node_unless_all_tasks_write_into_it(tmp_path: Path) -> None:
    files = {"train.log": STARTED + OUT_OF_MEMORY, "slurm-7877.out": STARTED + OUT_OF_MEMORY}
    found = {incident.jobs: incident.nodes for incident in incidents_of(tmp_path, files, host="n1")}
    assert found == {("log:train",): ("n1",), ("7877",): ()}


def test_a_task_of_torchrun_is_no_rank(tmp_path: Path) -> None:
    text = f"JOB_NODELIST=n[1-2]\n{LAUNCHED}1: 2026-03-02 09:10:00,000 ERROR x\n1: {OUT_OF_MEMORY}"
    (incident,) = incidents_of(tmp_path, {"slurm-7877.out": text})
    assert (incident.root_cause.node, incident.root_cause.rank) == ("n2", None)


def test_a_task_of_a_plain_program_is_its_rank(tmp_path: Path) -> None:
    text = f"JOB_NODELIST=n[1-2]\n0: 2026-03-02 09:10:00,000 x\n1: {OUT_OF_MEMORY}"
    (incident,) = incidents_of(tmp_path, {"slurm-7877.out": text})
    assert (incident.root_cause.node, incident.root_cause.rank) == ("n2", 1)


def test_lines_that_ray_forwards_are_of_the_node_they_name(tmp_path: Path) -> None:
    text = f"{STARTED}(RayTrainWorker pid=4124, ip=10.1.0.8) {OUT_OF_MEMORY}"
    (incident,) = incidents_of(tmp_path, {"head/driver.log": text}, host="head")
    assert incident.nodes == ("10.1.0.8",)


def test_the_head_of_a_file_has_the_time_of_the_first_line_with_one(tmp_path: Path) -> None:
    banner = "n1:991:1203 [0] NCCL INFO comm 0x55d00003a9c0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 3b000\n"
    files = {"slurm-7877.out": f"{OUT_OF_MEMORY}{banner}{STARTED}", "kern-n1.log": XID}
    (incident,) = [incident for incident in incidents_of(tmp_path, files) if incident.jobs]
    assert incident.first_seen.startswith("2026-03-02T09:09:00")


def test_lines_without_a_time_are_in_the_order_of_their_file(tmp_path: Path) -> None:
    fallen, failed = "[   12.000000] " + XID.partition("] ")[2], "[   13.000000] EXT4-fs error (device sda1): x: y\n"
    (incident,) = incidents_of(tmp_path, {"dmesg.txt": fallen + failed})
    assert incident.root_cause.failure_class == "xid-79"


def _trainer(timed_s: list[int], until_s: int) -> str:
    """A Trainer's log, which shows no time at its steps, with a line of its data loader at these seconds."""
    bars = [
        f" 10%|█         | {step}/9000 [{step * 3 // 60:02}:{step * 3 % 60:02}<9:09:25,  3.00s/it]\n"
        for step in range(until_s // 3)
    ]
    for second in reversed(timed_s):
        clock = f"2026-03-02 09:{second // 60:02}:{second % 60:02},346"
        bars.insert(second // 3, f"{clock} INFO data.decode: sample {second}: cannot decode, skipped\n")
    return "".join(bars)


NODE = "".join(f"2026-03-02T09:{minute:02}:07Z n1 CRON[7]: (root) CMD (true)\n" for minute in range(60))


def test_steps_without_times_may_be_as_late_as_the_next_time_of_their_log(tmp_path: Path) -> None:
    often = list(range(0, 600, 60))
    texts = {"n1/syslog": NODE, "n1/slurm-7881.out": _trainer([*often, 3000, 3060, 3120, 3180, 3240], 3300)}
    assert incidents_of(tmp_path, texts) == []


def test_steps_without_times_after_the_last_one_of_their_log_are_not_later(tmp_path: Path) -> None:
    texts = {"n1/syslog": NODE, "n1/slurm-7881.out": _trainer(list(range(0, 600, 60)), 900)}
    (found,) = incidents_of(tmp_path, texts)
    assert found.root_cause.failure_class == "hang"
