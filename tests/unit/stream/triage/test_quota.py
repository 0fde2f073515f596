"""A used-up quota is not a full disk: the title says so and names the path, and the steps are about quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job_logs import write_log
from tests.unit.stream.cli.test_triage import report_on

STEPS = [f"step {step} | loss 2.{step:03d}" for step in range(1, 30)]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        pytest.param(
            "OSError: [Errno 122] Disk quota exceeded: '/home/ann/ckpt/step_40.pt'",
            "Disk quota exceeded for /home/ann/ckpt/step_40.pt",
            id="python",
        ),
        pytest.param("OSError: [Errno 122] Disk quota exceeded", "Disk quota exceeded", id="python-without-a-path"),
        pytest.param("Error: Disk quota exceeded (os error 122)", "Disk quota exceeded", id="rust"),
        pytest.param(
            "cp: error writing '/home/ann/model.bin': Disk quota exceeded",
            "Disk quota exceeded for /home/ann/model.bin",
            id="coreutils",
        ),
        pytest.param(
            "mkdir: cannot create directory ‘ckpt/step 40’: Disk quota exceeded",
            "Disk quota exceeded for ckpt/step 40",
            id="coreutils-in-utf-8",
        ),
        pytest.param(
            "/var/spool/slurmd/job7877/slurm_script: line 3: /home/ann/out.log: Disk quota exceeded",
            "Disk quota exceeded for /home/ann/out.log",
            id="bash",
        ),
        pytest.param(
            "write /home/ann/layer.tar: disk quota exceeded", "Disk quota exceeded for /home/ann/layer.tar", id="go"
        ),
        pytest.param(
            "cp: error writing '/scratch/model.bin': No space left on device",
            "No space left for /scratch/model.bin",
            id="a-full-disk",
        ),
    ],
)
def test_title_names_what_is_used_up_and_where(line: str, title: str, tmp_path: Path) -> None:
    report = report_on(write_log(tmp_path / "a.log", [*STEPS, line]))
    assert (report.primary, report.incident and report.incident.title) == ("disk-full", title)
    assert any("quota -s" in step for step in report.next_steps) is title.startswith("Disk quota")
