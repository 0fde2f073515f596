"""The cluster of lines that name none: that of the settings, else the only one that the other files name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.parse.envelope import parse, stated_cluster
from epicenter.rules.model.records import Origin
from tests.support.logs import LATER_NS, record, vector

PLAIN = b"hello\n"
WEST, EAST = (vector("n1", 5, "x", cluster=name) + b"\n" for name in ("west", "east"))


def clusters_of(sources: Sources) -> dict[str, str]:
    """The cluster that each file's lines are of if they name none, by the file's name."""
    found = {}
    for source in sources.all():
        assert isinstance(source, FileSource)
        if batch := source.read(LATER_NS):
            assert batch.origin
            found[Path(source.name).name] = batch.origin.cluster
    return found


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([WEST], "west", id="one-file"),
        pytest.param([WEST + WEST, PLAIN, WEST], "west", id="the-same-twice"),
        pytest.param([PLAIN + PLAIN + WEST], "west", id="third-line"),
        pytest.param([PLAIN + PLAIN + PLAIN + WEST], "", id="fourth-line"),
        pytest.param([WEST, EAST], "", id="two-clusters"),
        pytest.param([WEST + EAST], "", id="two-clusters-in-one-file"),
        pytest.param([PLAIN], "", id="none"),
    ],
)
def test_the_only_cluster_that_files_name_is_that_of_the_others(
    tmp_path: Path, files: list[bytes], expected: str
) -> None:
    for number, content in enumerate([PLAIN, *files]):
        (tmp_path / f"{number}.log").write_bytes(content)
    sources = Sources([str(tmp_path)], "n1", follow=False)
    assert set(clusters_of(sources).values()) == {expected}
    sources.close()


def test_a_new_file_of_another_cluster_leaves_the_others_without_one(tmp_path: Path) -> None:
    for name, content in (("a.log", PLAIN), ("b.log", WEST)):
        (tmp_path / name).write_bytes(content)
    sources = Sources([str(tmp_path)], "n1", follow=True)
    assert clusters_of(sources) == {"a.log": "west", "b.log": "west"}
    (tmp_path / "c.log").write_bytes(EAST)
    with (tmp_path / "a.log").open("ab") as file:
        file.write(PLAIN)
    sources.open_new_files()
    assert clusters_of(sources) == {"a.log": "", "c.log": ""}
    sources.close()


@pytest.mark.parametrize(
    ("value", "settings", "named", "expected"),
    [
        pytest.param(PLAIN, "default", "west", "west", id="by-the-files"),
        pytest.param(PLAIN, "north", "west", "north", id="by-the-settings"),
        pytest.param(PLAIN, "default", "", "default", id="by-none"),
        pytest.param(EAST, "north", "west", "east", id="by-the-line"),
        pytest.param(vector("n1", 5, "x"), "default", "west", "west", id="envelope-without-a-cluster"),
    ],
)
def test_a_line_s_cluster_goes_before_that_of_the_settings_and_that_of_the_files(
    value: bytes, settings: str, named: str, expected: str
) -> None:
    line = msgspec.structs.replace(record(value.strip()), origin=Origin(cluster=named))
    assert parse(line, settings).event.cluster == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(WEST, "west"), (vector("n1", 5, "x"), ""), (PLAIN, ""), (b'{"cluster": "we', "")]
)
def test_only_an_envelope_names_a_cluster(value: bytes, expected: str) -> None:
    assert stated_cluster(value.strip()) == expected
