"""Archives: each reads like its folder, and nothing in one leaves it, fills the disk or is dropped in silence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from backports import zstd

from epicenter.ingest.collect import archives
from epicenter.ingest.collect.archives import is_archive, unpacked_archives
from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.ingest.provenance import packed
from epicenter.ingest.provenance.stated import Stated
from epicenter.rules.errors import InputError
from tests.support.command import epicenter

XID = "Mar  2 09:00:01 node0003 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
LOGS = {
    "job-7877/node0003/rank5.log": b"2026-03-02T09:00:00Z a\n2026-03-02T09:00:01Z b\n",
    "job-7877/node0004/rank6.log.2.gz": gzip.compress(b"2026-03-02T09:00:00Z c\n"),
    "job-7877/node0004/rank6.log": b"2026-03-02T09:00:02Z d\n",
    "kern-node0003.log": XID.encode(),
    "checkpoint.pt": b"\x80\x02" + Random(1).randbytes(50_000),
}


def tar(files: Mapping[str, bytes], *headers: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
        for header in headers:
            archive.addfile(header)
    return made.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def header(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


FORMATS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "tar": tar,
    "tar.gz": lambda files: gzip.compress(tar(files)),
    "tar.zst": lambda files: zstd.compress(tar(files)),
    "tar.xz": lambda files: lzma.compress(tar(files)),
    "tar.bz2": lambda files: bz2.compress(tar(files)),
    "zip": zipped,
}


def read(archive: Path) -> tuple[dict[str, tuple[str, int | None, list[bytes]]], list[str]]:
    """Node, rank and lines of each source in an archive, and the faults without the archive's path."""
    found: dict[str, tuple[str, int | None, list[bytes]]] = {}
    with unpacked_archives([str(archive)]) as (paths, unpacked):
        try:
            sources = Sources(paths, "", follow=False, stated=Stated(archives=unpacked))
        except InputError as error:
            return {}, str(error).replace(f"{archive}/", "").split("\n")
        for batch in read_to_the_end(sources):
            assert batch.origin is not None and batch.origin.log == batch.source
            name = batch.source.removeprefix(f"{archive}/")
            lines = found.setdefault(name, (batch.origin.node, batch.origin.rank, []))[2]
            lines += batch.values
        faults = [fault.replace(f"{archive}/", "").replace(str(archive), "IT") for fault in sources.faults()]
        sources.close()
    assert not Path(paths[0]).exists()
    return found, faults


@pytest.mark.parametrize("ending", FORMATS)
def test_an_archive_is_known_by_its_content_and_its_members_by_their_paths(ending: str, tmp_path: Path) -> None:
    archive = tmp_path / "logs.bin"
    archive.write_bytes(FORMATS[ending](LOGS))
    assert read(archive) == (
        {
            "job-7877/node0003/rank5.log": ("node0003", 5, [b"2026-03-02T09:00:00Z a", b"2026-03-02T09:00:01Z b"]),
            "job-7877/node0004/rank6.log.2.gz": ("node0004", 6, [b"2026-03-02T09:00:00Z c"]),
            "job-7877/node0004/rank6.log": ("node0004", 6, [b"2026-03-02T09:00:02Z d"]),
            "kern-node0003.log": ("node0003", None, [XID.encode().rstrip()]),
        },
        [],
    )


OF_OTHER_KINDS = {
    "../../etc/passwd": (tarfile.REGTYPE, "", "a path out of the archive"),
    "/etc/passwd": (tarfile.REGTYPE, "", "a path out of the archive"),
    "a.log": (tarfile.SYMTYPE, "../../../etc/passwd", "a link out of the archive"),
    "b.log": (tarfile.SYMTYPE, "/etc/passwd", "a link out of the archive"),
    "c.log": (tarfile.SYMTYPE, "none.log", "a link to no file of the archive"),
    "d.log": (tarfile.LNKTYPE, "kern-node0003.log", "a hard link to kern-node0003.log"),
    "e.log": (tarfile.CHRTYPE, "", "a device or pipe"),
    "f.log": (tarfile.FIFOTYPE, "", "a device or pipe"),
}


@pytest.mark.parametrize("name", OF_OTHER_KINDS)
def test_a_member_that_is_no_file_of_the_archive_is_named_and_the_others_are_read(name: str, tmp_path: Path) -> None:
    kind, target, fault = OF_OTHER_KINDS[name]
    (tmp_path / "a.tar").write_bytes(tar(LOGS, header(name, kind, target)))
    found, faults = read(tmp_path / "a.tar")
    assert (len(found), faults) == (4, [f"{name}: {fault}: not read"])


def test_links_can_not_lead_out_of_the_archive_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_bytes(b"secret\n")
    links = [header("here", tarfile.SYMTYPE, "."), header("up", tarfile.SYMTYPE, "here/..")]
    (tmp_path / "a.tar").write_bytes(
        tar({"a.log": b"a\n"}, *links, header("b.log", tarfile.SYMTYPE, "up/../secret.log"))
    )
    found, faults = read(tmp_path / "a.tar")
    assert list(found) == ["a.log"]
    assert faults == ["up: a link out of the archive: not read", "b.log: a link to no file of the archive: not read"]


def test_a_link_within_the_archive_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(
        tar({"x/7877.log": b"a\n"}, header("7877-llama/log", tarfile.SYMTYPE, "../x/7877.log"))
    )
    found, faults = read(tmp_path / "a.tar")
    assert (sorted(found), faults) == (["7877-llama/log", "x/7877.log"], [])


@pytest.mark.parametrize("ending", ["tar.gz", "tar.zst", "tar.xz", "tar"])
def test_of_an_archive_that_is_cut_off_what_comes_before_is_read(ending: str, tmp_path: Path) -> None:
    noise = b"".join(b"%s\n" % Random(n).randbytes(40).hex().encode() for n in range(9000))
    whole = FORMATS[ending]({**LOGS, "last.log": noise})
    (tmp_path / "a.tar").write_bytes(whole[: -len(whole) // 3])
    found, faults = read(tmp_path / "a.tar")
    assert len(found) == 5 and noise.startswith(b"\n".join(found["last.log"][2]))
    assert len(found["last.log"][2]) > 3000
    assert faults[0].startswith("last.log: ") and "cut off or damaged" in faults[0]
    assert faults[-1].startswith("IT: ") and "only what comes before that was read" in faults[-1]


def test_a_damaged_header_is_no_end_of_an_archive(tmp_path: Path) -> None:
    whole = tar({"a.log": b"a\n", "b.log": b"b\n"})
    (tmp_path / "a.tar").write_bytes(whole[:1024] + b"x" * 512 + whole[1536:])
    found, faults = read(tmp_path / "a.tar")
    assert (list(found), faults) == (["a.log"], ["IT: cut off or damaged: only what comes before that was read"])


def test_of_two_members_of_one_name_the_last_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"a.log": b"a\n", "./a.log": b"b\n"}))
    found, faults = read(tmp_path / "a.tar")
    assert found["a.log"][2] == [b"b"]
    assert faults == ["a.log: in the archive more than once: only the last one was read"]


def test_a_name_that_would_fill_the_memory_is_damage(tmp_path: Path) -> None:
    long = header("@LongLink", tarfile.GNUTYPE_LONGNAME)
    long.size = 2 << 20
    (tmp_path / "a.tar").write_bytes(tar({"a.log": b"a\n"})[:1024] + long.tobuf(tarfile.GNU_FORMAT) + b"x" * (2 << 20))
    found, faults = read(tmp_path / "a.tar")
    assert (list(found), faults) == (["a.log"], ["IT: cut off or damaged: only what comes before that was read"])


def test_members_of_a_zip_with_a_password_are_named(tmp_path: Path) -> None:
    content = bytearray(zipped({"a.log": b"a\n", "b.log": b"b\n"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    found, faults = read(tmp_path / "a.zip")
    assert (list(found), faults) == (["b.log"], ["a.log: protected by a password: not read"])


@pytest.mark.parametrize("ending", ["tar.gz", "tar.zst", "zip"])
def test_an_archive_that_is_a_bomb_ends_at_a_bound(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (packed, archives):
        monkeypatch.setattr(module, "ANY_RATIO_BYTES", 1 << 20)
        monkeypatch.setattr(module, "MAX_RATIO", 20)
    content = FORMATS[ending]({"a.log": b"a\n", "b.log": bytes(20 << 20)})
    (tmp_path / "a").write_bytes(content)
    _, faults = read(tmp_path / "a")
    assert any("unpacks to more than 0 GiB" in fault for fault in faults)


def test_a_disk_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_FREE_BYTES", 1 << 60)
    (tmp_path / "a.tar").write_bytes(tar({"a.log": b"a\n" * (20 << 20)}))
    _, faults = read(tmp_path / "a.tar")
    assert "no room to unpack it: set TMPDIR to a folder on a larger disk" in faults[0]


def test_an_archive_within_an_archive_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"a.log": XID.encode(), "inner.tar.gz": gzip.compress(tar(LOGS))}))
    done = epicenter("match", tmp_path / "a.tar")
    assert done.returncode == 0
    assert b"1 file left out, no log by name or first lines: inner.tar.gz" in done.stderr


@pytest.mark.parametrize(
    "content",
    [tar({}), zipped({}), gzip.compress(tar({})), tar({}, header("a", tarfile.DIRTYPE))],
    ids=["tar", "zip", "tar.gz", "only a folder"],
)
def test_an_empty_archive_can_not_be_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    done = epicenter("match", tmp_path / "a")
    assert done.returncode == 66
    assert done.stderr.decode().splitlines()[-1].startswith(f"epicenter: {tmp_path}/a: ")


@pytest.mark.parametrize(
    "text",
    [b"", b"a line\n" * 200, b"\0" * 1024, gzip.compress(b"a line\n" * 200)],
    ids=["empty", "text", "zeros", "packed"],
)
def test_a_log_is_no_archive(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(text)
    assert not is_archive(tmp_path / "a")


@pytest.mark.parametrize("command", ["match", "triage", "replay"])
def test_an_archive_gives_what_its_folder_gives(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for name, content in LOGS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    archive = tmp_path / "logs.tar.gz"
    archive.write_bytes(gzip.compress(tar(LOGS)))
    of_folder, of_archive = (epicenter(command, "--json", path) for path in (folder, archive))
    assert of_archive.returncode == of_folder.returncode
    plain = of_archive.stdout.replace(str(archive).encode(), str(folder).encode())
    assert [line[:200] for line in plain.splitlines()] == [line[:200] for line in of_folder.stdout.splitlines()]
    assert b"/epicenter-" not in of_archive.stdout + of_archive.stderr
