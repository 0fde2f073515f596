"""A journal as `journalctl -o export` writes it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from epicenter.ingest.collect.by_content import begins_like_a_log
from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.provenance import journal_export
from epicenter.ingest.provenance.last_lines import last_lines
from epicenter.ingest.provenance.log_file import open_log
from epicenter.rules.errors import InputError

LOCKUP = "watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:340897]"
HEAD = b"__REALTIME_TIMESTAMP=1772442000000000\n_HOSTNAME=n1\n_TRANSPORT=kernel\n"
TWO_LINES = b"first\nsecond"
EXPORT = (
    b"__CURSOR=s=1;i=1\n"
    + HEAD
    + f"MESSAGE={LOCKUP}\n\n".encode()
    + HEAD
    + b"MESSAGE\n"
    + len(TWO_LINES).to_bytes(8, "little")
    + TWO_LINES
    + b"\n\n"
)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "n1.export"
    file.write_bytes(EXPORT)
    return file


def test_each_entry_is_a_line_of_json_with_its_fields(export: Path) -> None:
    with open_log(export) as opened:
        lockup, two_lines = map(orjson.loads, opened.read().splitlines())
    assert (lockup["_HOSTNAME"], lockup["MESSAGE"]) == ("n1", LOCKUP)
    assert two_lines["MESSAGE"] == TWO_LINES.decode()


def test_an_export_is_a_log_of_any_name_whose_last_line_is_an_entry(export: Path) -> None:
    lines, is_cut = last_lines(export)
    assert (begins_like_a_log(export), len(lines), is_cut) == (True, 2, False)


def test_an_export_is_read_to_its_end(export: Path) -> None:
    source = FileSource(export, "", follow=False)
    batch = source.read(0)
    assert batch is not None
    assert [orjson.loads(value)["_TRANSPORT"] for value in batch.values] == ["kernel", "kernel"]
    assert (source.read(0), source.has_ended, source.fault) == (None, True, "")


def test_an_export_whose_field_states_an_absurd_size_is_read_up_to_there(export: Path) -> None:
    export.write_bytes(EXPORT + HEAD + b"MESSAGE\n" + b"\xff" * 8)
    source = FileSource(export, "", follow=False)
    batch, rest = source.read(0), source.read(0)
    assert batch is not None and len(batch.values) == 2
    assert (rest, source.fault) == (None, f"{export}: can't be read: Bad message: only the lines before that were read")


def test_an_entry_without_an_end_is_not_gathered(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_export, "MAX_ENTRY_BYTES", 4096)
    export.write_bytes(EXPORT + b"".join(b"F%d=%s\n" % (number, b"x" * 100) for number in range(99)))
    source = FileSource(export, "", follow=False)
    batch, rest = source.read(0), source.read(0)
    assert batch is not None and len(batch.values) == 2
    assert (rest, "Bad message" in source.fault) == (None, True)


def test_an_export_does_not_grow(export: Path) -> None:
    with pytest.raises(InputError, match="a journal's export, so it can't grow: read it with --once"):
        FileSource(export, "", follow=True)
