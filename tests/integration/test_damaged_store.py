"""Commands over an embedded store whose files are damaged: one sentence with what to do, or a warning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from tests.support.logs import iso

pytestmark = pytest.mark.integration

COMMAND = Path(sys.executable).with_name("epicenter")
UNREACHABLE = 69
XID = "kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python, GPU has fallen off the bus."


def epicenter(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "kern.log"
    path.write_text(f"{iso(0)} n1 {XID}\n")
    return path


@pytest.fixture(scope="module")
def whole(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    epicenter("run", "--once", log, "--data-dir", folder)
    assert "xid-79" in epicenter("incidents", "list", "--data-dir", folder).stdout
    return folder


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    return copytree(whole, tmp_path / "data", symlinks=True)


def definition(data_dir: Path, name: str) -> Path:
    return next(path for path in data_dir.rglob(f"{name}.sql") if path.is_file())


def empty_the_definition_of_a_table(data_dir: Path) -> None:
    definition(data_dir, "incidents").write_text("")


def cut_the_definition_of_a_table(data_dir: Path) -> None:
    path = definition(data_dir, "incidents")
    path.write_text(path.read_text()[:60])


def empty_the_definition_of_the_database(data_dir: Path) -> None:
    definition(data_dir, "epicenter").write_text("")


def write_rubbish_as_the_versions_of_tables(data_dir: Path) -> None:
    for path in data_dir.rglob("format_version.txt"):
        path.write_text("xyz")


DAMAGES = [
    empty_the_definition_of_a_table,
    cut_the_definition_of_a_table,
    empty_the_definition_of_the_database,
    write_rubbish_as_the_versions_of_tables,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_store_that_cannot_be_read_gets_one_sentence(damage: Callable[[Path], None], data_dir: Path) -> None:
    damage(data_dir)
    ended = epicenter("incidents", "list", "--data-dir", data_dir)
    assert (ended.returncode, ended.stdout) == (UNREACHABLE, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"epicenter: {data_dir}/store: this embedded store is damaged (")
    assert "move the folder away" in line and "`epicenter migrate`" in line


@pytest.mark.parametrize("command", [["run", "--once"], ["page", "--port", 0], ["migrate", "--plan"], ["migrate"]])
def test_every_command_ends_with_the_sentence(command: list[object], data_dir: Path, log: Path) -> None:
    empty_the_definition_of_a_table(data_dir)
    ended = epicenter(*command, *[log] * ("run" in command), "--data-dir", data_dir)
    assert (ended.returncode, ended.stdout) == (UNREACHABLE, "")
    assert "Code: " not in ended.stderr and "is damaged (incidents)" in ended.stderr


def test_after_the_folder_is_moved_away_logs_are_read_again(data_dir: Path, log: Path) -> None:
    empty_the_definition_of_a_table(data_dir)
    (data_dir / "store").rename(data_dir / "store.damaged")
    epicenter("migrate", "--data-dir", data_dir)
    epicenter("run", "--once", log, "--data-dir", data_dir)
    assert "xid-79" in epicenter("incidents", "list", "--data-dir", data_dir).stdout


def test_rows_that_the_engine_sets_aside_are_no_all_clear(data_dir: Path) -> None:
    for path in data_dir.rglob("data.bin"):
        path.write_bytes(b"rubbish")
    ended = epicenter("incidents", "list", "--data-dir", data_dir)
    assert ended.returncode == 0
    assert f"{data_dir}/store: rows are missing: " in ended.stderr and "incidents" in ended.stderr


def test_a_whole_store_gets_no_warning(data_dir: Path) -> None:
    assert epicenter("incidents", "list", "--data-dir", data_dir).stderr == ""
