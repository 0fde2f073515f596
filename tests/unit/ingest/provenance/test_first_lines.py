from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.provenance.first_lines import HEAD_BYTES, text_of_ends, with_first_lines
from epicenter.rules.model.records import Origin
from tests.support.logs import START_NS, at

FILE_ORIGIN = Origin(job="log:train", log="train.log")
TORCHRUN = "0: W0302 09:00:01.399000 201 torch/distributed/run.py:774] \n1: x\n"


def origin_of_log(tmp_path: Path, text: str, origin: Origin = FILE_ORIGIN) -> Origin:
    file = tmp_path / "train.log"
    file.write_text(text)
    with file.open("rb") as opened:
        return with_first_lines(origin, text_of_ends(opened.fileno()), START_NS)


@pytest.mark.parametrize(
    "line",
    [
        "SLURM_JOB_ID=7877",
        "export SLURM_JOB_ID=7877",
        "JOB_ID: 7877",
        "2026-03-02T09:00:00 SLURM_JOB_ID=7877",
        "2026-03-02 09:00:00,123 SLURM_JOB_ID=7877",
        "[2026-03-02 09:00:00] launch | JOB_ID=7877 NNODES=12 NODE_RANK=6",
        "0: SLURM_JOBID=7877",
        "Job ID: 7877",
        "srun: Force Terminated StepId=7877.0",
        "srun: job 7877 queued and waiting for resources",
        "slurmstepd: error: *** JOB 7877 ON n1 CANCELLED AT 2026-03-02T09:00:00 DUE TO TIME LIMIT ***",
        "slurmstepd: error: *** STEP 7877.0 ON n1 CANCELLED AT 2026-03-02T09:00:00 ***",
    ],
)
def test_a_line_names_the_job_of_the_whole_file(tmp_path: Path, line: str) -> None:
    origin = origin_of_log(tmp_path, f"hello\n{line}\n")
    assert (origin.job, origin.is_of_a_job) == ("7877", True)


@pytest.mark.parametrize(
    "line", ["job id: 01000000", "MY_JOB_ID_FILE=7877", "StepId=7877.0", "job_ids=7877", "waits for JOB_ID=7877"]
)
def test_other_numbers_are_no_job(tmp_path: Path, line: str) -> None:
    assert origin_of_log(tmp_path, f"{line}\n") == FILE_ORIGIN


def test_the_path_overrides_the_lines(tmp_path: Path) -> None:
    by_path = Origin(job="7")
    assert origin_of_log(tmp_path, "SLURM_JOB_ID=7877\n", by_path).job == "7"


def test_the_last_lines_name_the_job_too(tmp_path: Path) -> None:
    assert (
        origin_of_log(tmp_path, "a quiet line\n" * HEAD_BYTES + "srun: Force Terminated StepId=7877.0\n").job == "7877"
    )


def test_envelopes_and_the_logs_of_machines_are_left_as_they_are(tmp_path: Path) -> None:
    system = Origin(is_system=True)
    assert origin_of_log(tmp_path, "JOB_ID=7877\n", system) == system
    assert origin_of_log(tmp_path, '{"message":"JOB_ID=7877","host":"n1"}\n') == FILE_ORIGIN


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"SLURM_JOB_ID=7877\\n","stream":"stdout","time":"2026-03-02T09:00:00.1Z"}\n',
        '{"log": "SLURM_JOB_ID=7877\\n", "stream": "stdout", "time": "2026-03-02T09:00:00.1Z"}\n',
        "2026-03-02T09:00:00.123456789Z stdout F SLURM_JOB_ID=7877\n",
    ],
)
def test_the_lines_inside_the_log_of_a_container_name_its_job(tmp_path: Path, line: str) -> None:
    assert origin_of_log(tmp_path, line).job == "7877"


def test_under_torchrun_a_task_is_a_node(tmp_path: Path) -> None:
    origin = origin_of_log(tmp_path, f"SLURM_JOB_NODELIST=n[1-2]\n{TORCHRUN}")
    assert (origin.hosts, origin.tasks_are_ranks, origin.is_of_a_job) == (("n1", "n2"), False, True)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("JOB_NODELIST=n[1-2]\n0: x\n1: x\n", ("n1", "n2")),
        ("JOB_NODELIST=n[1-2]\nSLURM_NTASKS=4\n0: x\n", ("n1", "n1", "n2", "n2")),
        ("JOB_NODELIST=n[1-2]\nSLURM_NTASKS_PER_NODE=2\n0: x\n", ("n1", "n1", "n2", "n2")),
        ("JOB_NODELIST=n[1-2]\n0: x\n3: x\n", ("n1", "n1", "n2", "n2")),
        ("JOB_NODELIST=n[1-2]\n0: x\n4: x\n", ()),
        ("0: n5:991:1203 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.7<0>\n", ("n5",)),
        ("0: x\nsrun: error: n6: task 1: Killed\n", ("", "n6")),
        ("2026-03-02T09:00:00.123456+00:00 2: n7:101:101 [2] NCCL INFO cudaDriverVersion 12040\n", ("", "", "n7")),
        ("2026-03-02 09:00:00,123  1: n7:101:101 [1] NCCL INFO cudaDriverVersion 12040\n", ("", "n7")),
        (
            "0: x\nsrun: error: n7: tasks 1-2,4: Exited with exit code 1\nsrun: error: n8: task 3: Killed\n",
            ("", "n7", "n7", "n8", "n7"),
        ),
        ("0: x\nsrun: error: n[7-9]: tasks 0-2: Exited with exit code 1\n", ("n7", "n8", "n9")),
        ("0: x\nsrun: error: n[7-8]: tasks 0-2: Exited with exit code 1\n", ()),
        ("0: x\nsrun: error: n[7-: tasks 0-1: Exited with exit code 1\n", ()),
        ("0: x\nsrun: error: n7: tasks 1,3-: Exited with exit code 1\n", ("", "n7")),
    ],
)
def test_tasks_are_on_the_nodes_of_the_list_or_of_their_lines(
    tmp_path: Path, text: str, hosts: tuple[str, ...]
) -> None:
    origin = origin_of_log(tmp_path, text)
    assert (origin.hosts, origin.tasks_are_ranks) == (hosts, True)


@pytest.mark.parametrize("tasks", ["1-999999", "1-3-5", "--", "5-1", "0-1023,1024", "9" * 200])
def test_tasks_that_no_node_has_are_on_no_node(tasks: str, tmp_path: Path) -> None:
    assert origin_of_log(tmp_path, f"0: x\nsrun: error: n7: tasks {tasks}: Killed\n").hosts == ()


@pytest.mark.parametrize("stamp", ["2026-03-02T09:00:01.399000+00:00", "[2026-03-02 09:00:01]", "Mar  2 09:00:01"])
def test_under_torchrun_behind_a_time_stamp_a_task_is_a_node(stamp: str, tmp_path: Path) -> None:
    stamped = "".join(f"{stamp} {line}\n" for line in TORCHRUN.splitlines())
    origin = origin_of_log(tmp_path, f"SLURM_JOB_NODELIST=n[1-2]\n{stamped}")
    assert (origin.hosts, origin.tasks_are_ranks) == (("n1", "n2"), False)


def test_the_only_host_that_lines_name_is_the_node(tmp_path: Path) -> None:
    banner = "{}:991:1203 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.7<0>\n"
    assert origin_of_log(tmp_path, banner.format("n5")).node == "n5"
    assert origin_of_log(tmp_path, banner.format("n5") + banner.format("n6")).node == ""
    assert origin_of_log(tmp_path, "SLURM_NODELIST=n7\n").node == "n7"
    assert origin_of_log(tmp_path, "SLURM_NODELIST=n[7-8]\n" + banner.format("n7")).node == ""


def test_the_node_of_an_unnamed_task_is_that_of_the_file() -> None:
    origin = Origin(node="n9", hosts=("n1", ""))
    assert [origin.node_of(task) for task in (None, 0, 1, 2)] == ["n9", "n1", "n9", "n9"]


CLOCK_SET = "[    2.500000] rtc_cmos 00:01: setting system clock to 2026-03-02T09:00:02 UTC (1772442002)\n"
XID = "[  605.250000] NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("text", "boot_s"),
    [
        pytest.param(f"[    0.000000] Linux version 6.8.0\n{CLOCK_SET}{XID}", -0.5, id="once"),
        pytest.param(f"<6>{CLOCK_SET}{XID}", -0.5, id="with-priorities"),
        pytest.param(CLOCK_SET + XID + CLOCK_SET, None, id="two-starts"),
        pytest.param(XID, None, id="never"),
        pytest.param(f"n1 kernel: {CLOCK_SET}", None, id="behind-a-prefix"),
        pytest.param("[    2.500000] systemd[1]: setting system clock soon\n", None, id="no-time"),
    ],
)
def test_a_kernel_that_sets_its_clock_once_names_the_time_of_its_start(
    tmp_path: Path, text: str, boot_s: float | None
) -> None:
    origin = origin_of_log(tmp_path, text, Origin(is_system=True))
    assert origin.boot_ns == (0 if boot_s is None else at(boot_s))
    assert boot_s is None or origin.head_time_ns == at(boot_s)
