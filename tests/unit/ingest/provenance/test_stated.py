"""`--node` and `--job`: whose lines copied logs hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from epicenter.stream.cli.main import cli

XID = "[ 9.123456] NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
OTHER_NODE = f"2026-03-02T09:10:00.000000+00:00 n7 kernel: {XID.partition('] ')[2]}"
OF_A_JOB = json.dumps({"message": OOM, "job": "B", "host": "n8"})


@pytest.mark.parametrize(
    ("name", "line", "node", "jobs"),
    [
        pytest.param("dmesg.log", XID, "n3", [], id="a-kernel-has-no-job"),
        pytest.param("train.log", OOM, "n3", ["A"], id="a-program"),
        pytest.param("kern.log", OTHER_NODE, "n7", [], id="a-line-that-names-its-node"),
        pytest.param("train.jsonl", OF_A_JOB, "n8", ["B"], id="an-envelope-that-names-both"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "triage"])
def test_node_and_job_of_the_options_count_where_no_line_names_them(
    name: str, line: str, node: str, jobs: list[str], command: str, tmp_path: Path
) -> None:
    log = tmp_path / name
    log.write_text(f"{line}\n")
    done = CliRunner().invoke(cli, [command, "--json", "--node", "n3", "--job", "A", str(log)])
    found = json.loads(done.stdout.splitlines()[0])
    incident = found["incident"] if command == "triage" else found
    assert (incident["root_cause"]["node"], incident["jobs"]) == (node, jobs)
    assert command == "replay" or found["job"] == "".join(jobs)
