"""Folders with machines of the same names are clusters; folders with logs of the same machines are not."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.source import Sources
from epicenter.stream.cli.main import cli
from tests.support.logs import START_S, at, iso

DAY_S = 86_400
XID = "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus."


def _syslog(boot_s: float, seconds: range = range(0, 600, 60), node: str = "n1") -> str:
    return "".join(f"{iso(s)} {node} kernel: [{s - boot_s:12.6f}] {XID}\n" for s in seconds)


def _fluent_bit(boot_s: int, seconds: range = range(0, 600, 60)) -> str:
    return "".join(
        f'{{"date": {START_S + s}, "host": "n1", "priority": 6, "sec": {s - boot_s}, "usec": 0, "msg": "{XID}"}}\n'
        for s in seconds
    )


def _journal(boot_s: int, seconds: range = range(0, 600, 60)) -> str:
    return "".join(
        f'{{"__REALTIME_TIMESTAMP":"{at(s) // 1000}","__MONOTONIC_TIMESTAMP":"{(s - boot_s) * 1_000_000}",'
        f'"_HOSTNAME":"n1","_TRANSPORT":"kernel","MESSAGE":"{XID}"}}\n'
        for s in seconds
    )


def _written(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _clusters(paths: list[Path], follow: bool = False) -> dict[str, str]:
    sources = Sources(list(map(str, paths)), "", follow)
    files = [source for source in sources.all() if isinstance(source, FileSource)]
    sources.close()
    return {file.name: file.cluster_beside for file in files}


@pytest.mark.parametrize("log", [_syslog, _fluent_bit, _journal])
def test_two_machines_of_one_name_are_of_two_clusters(tmp_path: Path, log: Callable[[int], str]) -> None:
    logs = {"east/nodes/n1.log": log(-DAY_S), "west/nodes/n1.log": log(-3 * DAY_S)}
    _written(tmp_path, logs | {"east/slurm-7.out": "hello\n", "n2.log": "hello\n"})
    found = {str(Path(name).relative_to(tmp_path)): cluster for name, cluster in _clusters([tmp_path]).items()}
    expected = {"east/nodes/n1.log": "east", "west/nodes/n1.log": "west", "east/slurm-7.out": "east", "n2.log": ""}
    assert found == expected


def test_the_name_of_a_folder_above_them_is_no_cluster(tmp_path: Path) -> None:
    (above := tmp_path / "east").mkdir()
    _written(above, {"east/n1.log": _syslog(-DAY_S), "west/n1.log": _syslog(0), "other/7.out": "hello\n"})
    assert list(_clusters([above]).values()) == ["east", "", "west"]


def test_folders_below_those_of_kinds_and_files_that_are_named_count_too(tmp_path: Path) -> None:
    _written(
        tmp_path, {"kernel/east/n1.log": _syslog(-DAY_S), "kernel/west/n1.log": _syslog(0), "jobs/east/7.out": "x\n"}
    )
    files = sorted(path for path in tmp_path.rglob("*.*") if path.is_file())
    assert list(_clusters(files).values()) == ["east", "east", "west"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_syslog(-DAY_S), id="copy"),
        pytest.param(_journal(-DAY_S, range(300, 900, 60)), id="other-reader"),
        pytest.param(_syslog(0, range(601, 900, 60)), id="rebooted"),
        pytest.param(
            _syslog(-DAY_S, range(500, 601, 50)) + _syslog(595, range(601, 900, 60)), id="rebooted-while-read"
        ),
        pytest.param(_syslog(0, node="n2"), id="other-name"),
        pytest.param("hello\n" * 3, id="program"),
        pytest.param("", id="empty"),
        pytest.param(f"n1 kernel: [{9:12.6f}] {XID}\n", id="without-times"),
        pytest.param('{"date": 1, "host": "n1", "sec": 5, "msg": [1, "x"]}\n', id="broken-envelope"),
    ],
)
def test_the_same_machine_twice_is_of_one_cluster(tmp_path: Path, other: str) -> None:
    _written(tmp_path, {"a/n1.log": _syslog(-DAY_S), "b/n1.log": other})
    assert set(_clusters([tmp_path]).values()) == {""}


def test_a_folder_for_each_machine_makes_no_clusters(tmp_path: Path) -> None:
    _written(tmp_path, {f"n{i}/kern.log": _syslog(-i * DAY_S, node=f"n{i}") for i in range(1, 4)})
    assert set(_clusters([tmp_path]).values()) == {""}


def test_packed_logs_and_logs_that_grow_show_nothing(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    _written(tmp_path / "live", {"east/n1.log": _syslog(-DAY_S), "west/n1.log": _syslog(0)})
    assert set(_clusters([tmp_path / "live"], follow=True).values()) == {""}
    for name in ("east", "west"):
        (tmp_path / "packed" / name).mkdir(parents=True)
        (tmp_path / "packed" / name / "n1.log.1.gz").write_bytes(
            gzip.compress((tmp_path / f"live/{name}/n1.log").read_bytes())
        )
    assert set(_clusters([tmp_path / "packed"]).values()) == {""}


def test_replay_reports_both_clusters_and_merges_nothing(tmp_path: Path) -> None:
    _written(tmp_path, {"east/n1.log": _syslog(-DAY_S), "west/n1.log": _syslog(0)})
    done = CliRunner().invoke(cli, ["replay", str(tmp_path)])
    assert "\nfolders east, west: different machines of the same names, so each counts as a cluster\n" in done.output
    assert "\n2 incidents\n" in done.output


def test_a_cluster_that_is_set_counts_for_all_folders_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_CLUSTER", "north")
    _written(tmp_path, {"east/n1.log": _syslog(-DAY_S), "west/n1.log": _syslog(0)})
    done = CliRunner().invoke(cli, ["replay", str(tmp_path)])
    assert (
        "folders east, west: different machines of the same names, but all are of the cluster north, as set\n"
        in done.output
    )
    assert "\n1 incident\n" in done.output
