"""Logs of training jobs as launchers and frameworks print them, and their folders."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from epicenter.ingest.collect.jobs import JobLogs
from epicenter.rules.triage.document import Triage
from epicenter.rules.triage.report import Circumstances, triage
from epicenter.stream.triage.job_reader import JobReader
from epicenter.stream.triage.reading import Section
from tests.support.logs import LATER_NS, START_S, at, the_rules

STEP_S: Final = 5.0
LOG: Final = "7877-llama.log"

OOM = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."
)
TRACEBACK = "Traceback (most recent call last):"
VALUE_ERROR = (
    TRACEBACK,
    '  File "/opt/train.py", line 88, in step',
    "    raise ValueError(text)",
    "ValueError: bad shape",
)
TUNNEL = "ssh -L 8265:gpu-a-1:8265 -L 6006:gpu-a-1:6006 -L 9191:gpu-a-1:9191 ann@login.example"
CANCELLED = "CANCELLED (scancel / SIGTERM)"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def header(args: str = "steps=1000 enable_checkpointing=true", ray: int = 0) -> list[str]:
    """The head of a log of maxtext-slurm (`_job.sbatch`)."""
    return [
        "=" * 60,
        "SLURM_JOB_ID: 7877",
        "SLURM_JOB_NODELIST: gpu-a-[1-8]",
        f"RAY={ray}",
        f"PASSTHROUGH_ARGS: {args}",
        "STAGE_TIMEOUTS: preflight:900,pull:900,ecc:300",
    ]


def stage(text: str) -> str:
    """`stage("Training FAILED (exit=1, 40s)")`."""
    return f"== {text} =="


def param(name: str, value: object) -> str:
    """A parameter as MaxText's pyconfig prints it."""
    return f"Config param {name}: {value}"


def absl(second: float, text: str, level: str = "I") -> str:
    """A line with the header of absl logging, which has no year."""
    return f"{level}{_moment(second):%m%d %H:%M:%S.%f} 140110937163584 metric_logger.py:214] {text}"


def maxtext(step: int, second: float | None = None, seconds: float = STEP_S, task: int | None = None) -> str:
    """A step of MaxText: at its own second of the test, or, with `second` negative, without any time."""
    text = f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 380.102, Tokens/s/device: 1644.705"
    text += ", total_weights: 524288, loss: 2.871"
    when = step * seconds if second is None else second
    return labelled(task, text if when < 0 else absl(when, text))


def steps(first: int, last: int, **more: float) -> list[str]:
    """MaxText steps, each with its time: step n at n times its seconds."""
    return [maxtext(step, **more) for step in range(first, last + 1)]


def megatron(step: int, total: int = 1000, seconds: float = STEP_S) -> str:
    """A line of Megatron-LM, which numbers from 1 and prints once in log_interval iterations."""
    return (
        f" [{_moment(step * seconds):%Y-%m-%d %H:%M:%S}] iteration {step:8}/{total:8} | "
        f"consumed samples: {step * 256:12} | elapsed time per iteration (ms): {seconds * 1000:.1f} | "
        "learning rate: 1.000000E-05 | global batch size:   256 | "
        "lm loss: 8.001000E+00 | loss scale: 1.0 | grad norm: 1.200 |"
    )


def hf_bar(step: int, total: int = 1000) -> str:
    """The bar of the transformers Trainer."""
    return f"{100 * step // total:3}%|████      | {step}/{total} [00:40<06:40,  5.01s/it]"


def lightning(epoch: int, step: int, total: int = 100) -> str:
    """The rich progress bar of Lightning, which counts its steps anew in each epoch."""
    return f"Epoch {epoch}/9  ━━━━━━━━━━━━━━━━ {step}/{total} 0:00:41 • 0:01:40 2.40it/s v_num: 4 train_loss: 2.871"


def labelled(task: int | None, text: str) -> str:
    """A line as `srun --label` prints it."""
    return text if task is None else f"{task:2}: {text}"


def summary(code: int, reason: str = "") -> list[str]:
    """The end of a log of maxtext-slurm, with its colours."""
    colour, word = ("32", "SUCCESS") if code == 0 else ("31", "FAILED")
    why = f" — {reason}" if reason else ""
    return [
        "==================== JOB SUMMARY ====================",
        f"  Status: \x1b[{colour}m{word} (exit {code}){why}\x1b[0m",
    ]


def node_exit(task: int, code: int) -> str:
    """The last line of a node's task."""
    return f" {task}: NODE_EXIT host=gpu-a-{task + 1} exit={code}"


def scancel(second: float) -> str:
    """What slurmstepd prints when a job is cancelled; its time has no zone."""
    return f"slurmstepd: error: *** STEP 7877.0 ON gpu-a-1 CANCELLED AT {_moment(second):%Y-%m-%dT%H:%M:%S} ***"


def heartbeat(second: float, tasks: Sequence[int], task: int | None = 0) -> list[str]:
    """What a JAX task prints when the coordination service receives no heartbeat from some tasks."""
    fatal = (
        "Terminating process because the JAX distributed service detected fatal errors. "
        "This most likely indicates that another task died; see the other task logs for more details. "
        "absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    )
    names = [f"/job:jax_worker/replica:0/task:{number}" for number in tasks]
    end = "The tasks have crashed. Check the task logs for an earlier error, or scheduler events to debug further."
    lines = [f"F{_moment(second):%m%d %H:%M:%S.%f}    991 client.h:77] {fatal}", *names, end]
    return [labelled(task, line) for line in lines]


def polled(second: float, task: int) -> str:
    """What a living task prints when it learns of an error."""
    text = "Polled an error from coordination service (this can be an error from this or another task)."
    return labelled(task, f"E{_moment(second):%m%d %H:%M:%S.%f}    991 coordination_service_agent.cc:332] {text}")


def section_of(lines: Iterable[str], now: float | None = None, job_state: str = "", name: str = LOG) -> Section:
    """The job of a log with these lines, read as from a file that was written later."""
    with TemporaryDirectory() as folder:
        log = write_log(Path(folder) / name, lines)
        [section] = _reader().sections(JobLogs(str(log), (log,)), _as_of(now, job_state), [])
    return section


def report_on(
    lines: Iterable[str], now: float | None = None, job_state: str = "", name: str = LOG, **facts: Any
) -> Triage:
    """The report on a log's lines, as of a second of the test; `facts` replace those of its story."""
    story, incidents = section_of(lines, now, job_state, name)
    return triage(dataclasses.replace(story, **facts), incidents, the_rules(), _as_of(now, job_state))


def _as_of(now: float | None, job_state: str) -> Circumstances:
    return Circumstances(None if now is None else at(now), job_state)


def write_log(file: Path, lines: Iterable[str], end: str = "\n") -> Path:
    """A log file, last written a day after the test's second 0, so that times without a year get the right one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + end)
    os.utime(file, ns=(LATER_NS, LATER_NS))
    return file


def write_job(outputs: Path, name: str, lines: Iterable[str]) -> Path:
    """A job's folder with its link to the log next to it."""
    write_log(outputs / f"{name}.log", lines)
    folder = outputs / name
    folder.mkdir()
    (folder / "log").symlink_to(f"../{name}.log")
    return folder


@cache
def _reader() -> JobReader:
    return JobReader(the_rules(), "default")


def _moment(second: float) -> datetime:
    return datetime.fromtimestamp(START_S + second, UTC)


HEAD = [*header(), stage("Training")]
AT_300 = [*HEAD, *steps(0, 300)]
"""Steps of 5 s; the last one, 300 of 1000, is made in second 1500."""

LATE = 1500 + 5 * 3600.0
CONTRACT = [
    "path",
    "status",
    "primary",
    "classes",
    "stage",
    "summary",
    "evidence",
    "progress",
    "findings",
    "next_steps",
]
