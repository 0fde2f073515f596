"""The files for plain hosts: units of systemd, Slurm's scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epicenter.ingest.parse.envelope import stated_time
from epicenter.ingest.parse.times import NS_PER_S
from epicenter.stream.settings import Settings
from tests.support.logs import a_scanner, batch, record
from tests.support.programs import unpacked_program

ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
SLURM = ROOT / "deploy/slurm"
SCRIPTS = sorted(SLURM.glob("*.sh"))
MAX_EXPOSED = 3.0
"""systemd's own measure, from 0 to 10; a service without any of these settings has 9.6."""


# ---- systemd ---------------------------------------------------------------------------------------------------------


def analyzed(unit: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """systemd-analyze on the unit, with programs that exist."""
    there = re.sub(r"^(ExecStart(?:Pre)?)=\S+", r"\1=/bin/true", unit.read_text(), flags=re.MULTILINE)
    copy = tmp_path / unit.name.replace("@", "@1")
    copy.write_text(there)
    command = [unpacked_program("systemd-analyze", "systemd"), *arguments, copy]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_verifies_every_unit_and_finds_little_exposed(unit: Path, tmp_path: Path) -> None:
    verified = analyzed(unit, tmp_path, "--man=no", "verify")
    assert (verified.returncode, verified.stderr) == (0, "")
    exposed = analyzed(unit, tmp_path, "--offline=true", f"--threshold={MAX_EXPOSED * 10:.0f}", "security")
    assert exposed.returncode == 0, exposed.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_set_existing_settings_only(unit: Path) -> None:
    text = unit.read_text()
    for name in re.findall(r"EPICENTER_(\w+)=", text):
        assert name == "JOBS" or name.lower() in Settings.model_fields, name
    for name in re.findall(r"^#? ?LoadCredential=(\w+):", text, re.MULTILINE):
        assert name in Settings.model_fields or name.startswith("kafka_"), name


def test_each_service_with_a_dynamic_user_has_its_cache() -> None:
    ours = {unit: unit.read_text() for unit in UNITS if "DynamicUser=yes" in unit.read_text()}
    folders = [re.findall(r"^CacheDirectory=(.+)$", text, re.MULTILINE) for text in ours.values()]
    assert len({tuple(folder) for folder in folders}) == len(ours) == 3
    assert all(f"XDG_CACHE_HOME=%C/{folder}\n" in text for text, (folder,) in zip(ours.values(), folders, strict=True))


def test_the_shipper_s_unit_sets_every_variable_of_its_configuration() -> None:
    used = set[str]()
    for file in (ROOT / "deploy/rsyslog").rglob("*.conf"):
        used |= {
            name for shown in re.findall(r"`echo ([^`]*)`", file.read_text()) for name in re.findall(r"\$(\w+)", shown)
        }
    unit = (ROOT / "deploy/systemd/epicenter-shipper.service").read_text()
    set_by_unit = set(re.findall(r"\b([A-Z_]+)=", unit))
    set_by_host = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / "deploy/rsyslog/shipper.env").read_text(), re.MULTILINE))
    assert used <= set_by_unit | set_by_host
    assert set_by_host <= used


# ---- Slurm -----------------------------------------------------------------------------------------------------------


def run(script: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with only the variables that Slurm documents for it (slurm.schedmd.com/prolog_epilog.html)."""
    folders = {"EPICENTER_JOBS": str(tmp_path / "jobs"), "EPICENTER_SLURM_OUTPUT": str(tmp_path / "output")}
    command = [str(SLURM / script)]
    return subprocess.run(command, env=folders | variables, capture_output=True, text=True, timeout=30, check=False)


ON_NODE = {
    "SLURM_CLUSTER_NAME": "west",
    "SLURM_JOB_ID": "7877",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_UID": str(os.getuid()),
    "SLURM_JOB_GID": str(os.getgid()),
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_GPUS": "0,1,2,3",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_JOB_STDOUT": "/home/ada/slurm-7877.out",
    "SLURMD_NODENAME": "node0042",
}


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, *SCRIPTS], capture_output=True, text=True, check=False)
    assert (len(SCRIPTS), done.returncode, done.stdout) == (3, 0, "")


def test_prolog_and_epilog_log_the_job_and_make_its_folder(tmp_path: Path) -> None:
    for script, more in (("prolog.sh", {}), ("epilog.sh", {"SLURM_JOB_EXIT_CODE2": "1:0"})):
        done = run(script, tmp_path, **ON_NODE | more)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    begins, ends = (tmp_path / "jobs/7877.log").read_bytes().splitlines()
    shape = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z SLURM_JOB_ID=7877 "
    assert re.fullmatch(shape + rb"starts on node0042 user=ada partition=gpu gpus=0,1,2,3 restart=1", begins)
    assert re.fullmatch(shape + rb"ends on node0042 exit_code=1:0", ends)
    now_ns = (tmp_path / "jobs/7877.log").stat().st_mtime_ns
    times = [stated_time(record(line, received_ns=now_ns)) for line in (begins, ends)]
    assert all(time_ns is not None and abs(time_ns - now_ns) < 60 * NS_PER_S for time_ns in times)
    assert (tmp_path / "output/7877").stat().st_mode & 0o777 == 0o750
    assert a_scanner().scan(batch([begins, ends])).matches == []


def test_a_link_in_the_place_of_the_job_s_folder_is_not_followed(tmp_path: Path) -> None:
    """In a folder that every user may write to, such a link would make root give away another folder."""
    theirs, output = tmp_path / "not theirs", tmp_path / "output"
    theirs.mkdir(mode=0o700)
    output.mkdir()
    (output / "7877").symlink_to(theirs)
    (output / "7878").symlink_to(tmp_path / "nowhere")
    for job in ("7877", "7878"):
        assert run("prolog.sh", tmp_path, **ON_NODE | {"SLURM_JOB_ID": job, "SLURM_JOB_UID": "12345"}).returncode == 0
    assert (theirs.stat().st_uid, theirs.stat().st_mode & 0o777) == (os.getuid(), 0o700)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize("job", ["", "../../etc", "7877 rm -rf", "$(reboot)"])
def test_a_fault_of_the_prolog_fails_no_job(script: str, job: str, tmp_path: Path) -> None:
    assert run(script, tmp_path, **ON_NODE | {"SLURM_JOB_ID": job}).returncode == 0
    assert list(tmp_path.rglob("*")) == []
    (tmp_path / "jobs").write_text("a file where the folder should be")
    assert run(script, tmp_path, **ON_NODE).returncode == 0


def test_the_first_task_names_the_nodes_in_its_output(tmp_path: Path) -> None:
    task = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7877", "SLURM_JOB_NODELIST": "node[0042-0043]", "SLURM_NNODES": "2"}
    done = run("task_prolog.sh", tmp_path, **task, SLURM_NTASKS="16")
    assert done.stdout.splitlines() == [
        "export PYTHONUNBUFFERED=1",
        "print SLURM_JOB_ID=7877",
        "print SLURM_JOB_NODELIST=node[0042-0043]",
        "print SLURM_NNODES=2",
        "print SLURM_NTASKS=16",
    ]
    printed = [line.removeprefix("print ").encode() for line in done.stdout.splitlines()[1:]]
    rank_placements = a_scanner().scan(batch(printed)).rank_placements
    assert {rank_placement.node for rank_placement in rank_placements} >= {"node0042", "node0043"}
    assert run("task_prolog.sh", tmp_path, **task | {"SLURM_PROCID": "1"}).stdout == "export PYTHONUNBUFFERED=1\n"


# ---- the document ----------------------------------------------------------------------------------------------------


def test_every_file_that_the_document_names_exists() -> None:
    named = set(re.findall(r"(?<!unit/)\bdeploy/[\w./@-]*[\w]", (ROOT / "docs/shippers.md").read_text()))
    assert len(named) >= 10
    assert [name for name in named if not (ROOT / name).exists()] == []
    inputs = set(re.findall(r"^\| `([\w-]+\.conf)` \|", (ROOT / "docs/shippers.md").read_text(), re.MULTILINE))
    assert inputs == {file.name for file in (ROOT / "deploy/rsyslog/inputs").iterdir()}
