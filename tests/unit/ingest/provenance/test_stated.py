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


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param(f"2026-03-02 09:10:00,000 {OOM}", "2026-03-02T08:10:00", id="winter"),
        pytest.param(f"2026-07-02 09:10:00,000 {OOM}", "2026-07-02T07:10:00", id="summer"),
        pytest.param(f"2026-03-02T09:10:00Z {OOM}", "2026-03-02T09:10:00", id="a-time-with-its-zone"),
        pytest.param(f"2026-03-02T09:10:00+05:30 {OOM}", "2026-03-02T03:40:00", id="a-time-with-its-offset"),
    ],
)
@pytest.mark.parametrize("command", [["replay"], ["triage"], ["run", "--once"]])
def test_the_time_zone_counts_where_no_time_names_one(
    line: str, shown: str, command: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{line}\n")
    more = ["--data-dir", str(tmp_path / "data")] if command[0] == "run" else []
    done = CliRunner().invoke(cli, [*command, "--json", "--time-zone", "Europe/Berlin", *more, str(log)])
    assert shown in done.stdout


def test_an_unknown_time_zone_is_refused_with_a_proposal(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{OOM}\n")
    done = CliRunner().invoke(cli, ["replay", "--time-zone", "Europe/Berlino", str(log)], catch_exceptions=True)
    assert "write Europe/Berlin" in f"{done.exception}{done.output}"


def test_run_takes_node_and_job_too(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"2026-03-02 09:10:00,000 {OOM}\n")
    options = ["--once", "--json", "--node", "n3", "--job", "A", "--data-dir", str(tmp_path / "data")]
    done = CliRunner().invoke(cli, ["run", *options, str(log)])
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["root_cause"]["node"], found["jobs"]) == ("n3", ["A"])


def test_an_empty_text_in_the_environment_is_no_zone_and_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_LOG_NAMES", "")
    monkeypatch.setenv("EPICENTER_TIME_ZONE", "")
    (tmp_path / "kern.log").write_text(f"{XID}\n")
    assert CliRunner().invoke(cli, ["triage", str(tmp_path / "kern.log")]).exit_code == 0


def test_the_site_s_names_of_log_files_are_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_LOG_NAMES", "kern-{node}.log, {job}.{node}.txt")
    (tmp_path / "kern-c123.log").write_text(f"{XID}\n")
    (tmp_path / "nightly.c7.txt").write_text(f"{OOM}\n")
    done = CliRunner().invoke(cli, ["triage", "--json", "--outputs", str(tmp_path), "nightly"])
    incident = json.loads(done.stdout)["incident"]
    assert (incident["root_cause"]["node"], incident["jobs"]) == ("c7", ["nightly"])
    done = CliRunner().invoke(cli, ["triage", "--json", str(tmp_path / "kern-c123.log")])
    assert json.loads(done.stdout)["incident"]["root_cause"]["node"] == "c123"
