"""What mpirun and torchrun print when a process dies: its rank, node, signal and exit code reach the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.model.incident import RootCause
from tests.support.job_logs import write_log
from tests.unit.stream.cli.test_triage import report_on

RULE = "-" * 74
STEPS = [f"step {step} | loss 2.{step:03d}" for step in range(1, 30)]
ABORTED = [
    RULE,
    "Primary job  terminated normally, but 1 process returned",
    "a non-zero exit code. Per user-direction, the job has been aborted.",
    RULE,
]
"""Open MPI 4: orte/mca/errmgr/base/help-errmgr-base.txt."""

ORTE_SIGNAL = [
    *ABORTED,
    RULE,
    "mpirun noticed that process rank 3 with PID 0 on node gpu-a-12 exited on signal 9 (Killed).",
    RULE,
]
PRTE_SIGNAL = [
    RULE,
    "prterun noticed that process rank 3 with PID 30211 on node gpu-a-12 exited on",
    "signal 11 (Segmentation fault).",
    RULE,
]
PRTE_RARE_SIGNAL = [
    "prterun noticed that process rank 3 with PID 30211 on node gpu-a-12 exited on",
    "signal 10 (User defined signal 1).",
]
ORTE_EXIT = [
    *ABORTED,
    RULE,
    "mpirun detected that one or more processes exited with non-zero status, thus causing",
    "the job to be terminated. The first process to do so was:",
    "",
    "  Process name: [[12345,1],5]",
    "  Exit code:    3",
    RULE,
]
PRTE_EXIT = [
    RULE,
    "prterun detected that one or more processes exited with non-zero status,",
    "thus causing the job to be terminated. The first process to do so was:",
    "",
    "   Process name: [prterun-gpu-a-12-4411@1,5]",
    "   Exit code:    3",
    RULE,
]
ORTE_UNFINISHED = [
    RULE,
    "mpirun has exited due to process rank 2 with PID 0 on",
    "node gpu-b-03 exiting improperly. There are three reasons this could occur:",
]
ORTE_NODE = [
    RULE,
    "ORTE has lost communication with a remote daemon.",
    "",
    "  HNP daemon   : [[12345,0],0] on node gpu-a-12",
    "  Remote daemon: [[12345,0],2] on node gpu-b-03",
    "",
    "This is usually due to either a failure of the TCP network",
]
"""Open MPI 4: orte/tools/orterun/help-orterun.txt; PRRTE 3 and 4: src/mca/schizo/prte/help-prun.txt."""


def entry(number: int, rank: int, exit_code: int, traceback: str, host: str = "gpu-a-12.example.net") -> list[str]:
    """PyTorch 2: torch/distributed/elastic/multiprocessing/errors/__init__.py."""
    return [
        f"[{number}]:",
        f"  time      : 2026-03-02_09:14:{5 + number:02d}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {rank % 8})",
        f"  exitcode  : {exit_code} (pid: {30211 + rank})",
        "  error_file: <N/A>",
        f"  traceback : {traceback}",
    ]


NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
OF_PYTHON = """Traceback (most recent call last):
    File "/home/ann/train.py", line 61, in main
      loss = model(batch["input_ids"])
  KeyError: 'input_ids'"""


def table(root: list[str], others: list[str] | None = None) -> list[str]:
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
        *(others or ["  <NO_OTHER_FAILURES>"]),
        "-" * 60,
        "Root Cause (first observed failure):",
        *root,
        "=" * 60,
    ]


LATER = entry(1, 13, -6, "Signal 6 (SIGABRT) received by PID 30224")


def root_cause(path: Path, lines: list[str]) -> RootCause:
    incident = report_on(write_log(path / "a.log", lines)).incident
    assert incident
    return incident.root_cause


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param(ORTE_SIGNAL, ("sigkill", "gpu-a-12", 3), id="orte-signal"),
        pytest.param(PRTE_SIGNAL, ("segfault", "gpu-a-12", 3), id="prte-signal-on-the-next-line"),
        pytest.param(PRTE_RARE_SIGNAL, ("signal-kill", "gpu-a-12", 3), id="prte-signal-of-no-class"),
        pytest.param(ORTE_EXIT, ("mpi-abort", "", 5), id="orte-exit-code"),
        pytest.param(PRTE_EXIT, ("mpi-abort", "", 5), id="prte-exit-code"),
        pytest.param(ORTE_UNFINISHED, ("mpi-abort", "gpu-b-03", 2), id="orte-without-finalize"),
        pytest.param(ORTE_NODE, ("mpi-abort", "gpu-b-03", None), id="orte-lost-a-node"),
        pytest.param(ABORTED, ("mpi-abort", "", None), id="orte-names-no-process"),
        pytest.param(
            table(entry(0, 3, 1, NO_TRACEBACK), LATER),
            ("elastic-worker-failed", "gpu-a-12.example.net", 3),
            id="torchrun-exit-code",
        ),
        pytest.param(
            table(entry(0, 3, -9, "Signal 9 (SIGKILL) received by PID 30214"), LATER),
            ("sigkill", "gpu-a-12.example.net", 3),
            id="torchrun-signal",
        ),
        pytest.param(
            table(entry(0, 3, 1, OF_PYTHON)), ("python-exception", "gpu-a-12.example.net", 3), id="torchrun-traceback"
        ),
        pytest.param(
            table(entry(0, 3, -9, "Signal 9 (SIGKILL) received by PID 30214", host="localhost")),
            ("sigkill", "", 3),
            id="torchrun-on-a-host-without-a-name",
        ),
        pytest.param(
            table(entry(0, 3, -9, "Signal 9 (SIGKILL) received by PID 30214", host="w-0.w.team.svc.cluster.local")),
            ("sigkill", "", 3),
            id="torchrun-in-a-pod",
        ),
    ],
)
def test_a_launchers_report_names_class_node_and_rank_of_the_primary(
    block: list[str], expected: tuple[str, str, int | None], tmp_path: Path
) -> None:
    lines = "\n".join([*STEPS, *block]).split("\n")
    root = root_cause(tmp_path, lines)
    assert (root.failure_class, root.node, root.rank) == expected


@pytest.mark.parametrize("block", [ORTE_EXIT, PRTE_EXIT], ids=["orte", "prte"])
def test_an_exit_code_is_in_the_fields_of_the_primary(block: list[str], tmp_path: Path) -> None:
    assert root_cause(tmp_path, [*STEPS, *block]).fields["exit_code"] == "3"


def test_the_table_of_an_agent_behind_a_label_is_about_the_rank_that_it_names(tmp_path: Path) -> None:
    lines = table(entry(0, 13, -9, "Signal 9 (SIGKILL) received by PID 30224"))
    root = root_cause(
        tmp_path, [*(f"{task}: {line}" for task in (0, 1) for line in STEPS), *(f"1: {x}" for x in lines)]
    )
    assert (root.failure_class, root.rank) == ("sigkill", 13)
