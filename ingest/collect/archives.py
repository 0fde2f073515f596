"""Archives of logs (tar, packed or not, and zip) -> folders with their logs, for as long as a command reads them.

So that the path of a member says whose lines it holds, and members are read in order. On disk, since a tar archive
can only be read from its beginning to its end. What would leave the folder or fill the disk is not unpacked.
"""

from __future__ import annotations

import errno
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from stat import S_ISLNK
from tarfile import HeaderError, ReadError, TarFile, TarInfo
from tempfile import TemporaryDirectory
from typing import IO, Final, NamedTuple
from zipfile import BadZipFile, ZipFile, ZipInfo

from epicenter.ingest.collect.by_content import is_head_of_log
from epicenter.ingest.collect.listing import is_log
from epicenter.ingest.provenance.log_file import HEAD_BYTES, open_log, read_bytes, read_fault
from epicenter.ingest.provenance.packed import ANY_RATIO_BYTES, MAX_RATIO
from epicenter.ingest.provenance.stated import Archive
from epicenter.rules.errors import InputError

COPY_BYTES: Final = 16 << 10
"""At most so much of a member is lost where an archive is cut off."""

MIN_FREE_BYTES: Final = 1 << 30
MAX_MEMBERS: Final = 100_000
MAX_HEADER_BYTES: Final = 1 << 20
"""A header of tar with a long name may be this large."""

LARGE_DISK: Final = Path("/var/tmp")
"""Logs are unpacked here unless `TMPDIR` is set: `/tmp` is in memory on many machines."""

_END: Final = "end of file header"
"""What tarfile says of the block of zeros at the end."""

_ENDINGS = re.compile(r"(?:\.(?:tar|tgz|tbz2?|txz|tzst|zip|gz|zst|xz|bz2))+$")
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_FAULTS: Final = (
    *(OSError, EOFError, tarfile.TarError, BadZipFile, zlib.error, lzma.LZMAError),
    *(ValueError, RuntimeError),
)
"""What reading an archive may raise; the last two come from a zip with a method or name that Python doesn't know."""

_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

Show = Callable[[int], None]
"""Shows that so many bytes of a file were read."""

Watch = Callable[[int], AbstractContextManager[Show]]
"""Begins to show how much of a file of this size was read."""


@contextmanager
def unwatched(size_bytes: int) -> Iterator[Show]:
    """Show nothing."""
    yield lambda read_bytes: None


class _Member(NamedTuple):
    """A file in an archive: its content, the file that it links to, or the fault for which it is not read."""

    name: str
    fault: str
    link: str
    content: Callable[[], IO[bytes] | None]


@contextmanager
def unpacked_archives(
    paths: Sequence[str], watch: Watch = unwatched
) -> Iterator[tuple[list[str], tuple[Archive, ...]]]:
    """The paths, with a folder in place of each archive. The folders are removed at the end."""
    archives: list[Archive] = []
    numbers = [number for number, path in enumerate(paths) if is_archive(Path(path))]
    large = None if "TMPDIR" in os.environ or not os.access(LARGE_DISK, os.W_OK) else LARGE_DISK
    with TemporaryDirectory(prefix="epicenter-", dir=large) if numbers else nullcontext("") as place:
        read = list(paths)
        for number in numbers:
            archive = Path(paths[number])
            folder = Path(place, str(number), _ENDINGS.sub("", archive.name) or "archive")
            archives.append(Archive(folder, paths[number], tuple(_unpack(archive, folder, watch))))
            read[number] = str(folder)
        yield read, tuple(archives)


def is_archive(file: Path) -> bool:
    """Whether the file is an archive, by its content."""
    try:
        with open_log(file) as opened:
            head = opened.peek(HEAD_BYTES)
    except (InputError, OSError):
        return False
    return head.startswith(_ZIP) or _begins_with_a_header(head)


def _begins_with_a_header(head: bytes) -> bool:
    try:
        TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "replace")
    except HeaderError:
        return False
    return True


def _unpack(archive: Path, folder: Path, watch: Watch) -> Iterator[str]:
    """Write the logs of an archive below a folder; a sentence for each thing that is not read."""
    folder.mkdir(parents=True)
    names, links = set[str](), dict[str, str]()
    try:
        with open_log(archive) as opened, watch(archive.stat().st_size) as show:
            for member in _members(opened):
                show(read_bytes(opened))
                if len(names) >= MAX_MEMBERS:
                    raise OSError(f"more than {MAX_MEMBERS:,} files in it")
                fault = member.fault or _fault_of_name(member.name)
                if fault:
                    yield f"{archive}/{member.name}: {fault}: not read"
                    continue
                if member.link:
                    links[member.name] = member.link
                    continue
                name = str(PurePosixPath(member.name))
                if name in names:
                    yield f"{archive}/{name}: in the archive more than once: only the last one was read"
                names.add(name)
                if fault := _write(member, folder / member.name, lambda: show(read_bytes(opened))):
                    yield f"{archive}/{member.name}: {fault}"
    except _FAULTS as error:
        yield f"{archive}: {_why(error)}: only what comes before that was read"
    for name, target in links.items():
        if fault := _link(folder, name, target):
            yield f"{archive}/{name}: {fault}: not read"


def _write(member: _Member, file: Path, show: Callable[[], None]) -> str:
    """Write a member if it is a log, of other files the head; why its end can't be read, if so."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as written:
            content = member.content()
            part = content.read(HEAD_BYTES) if content else b""
            is_wanted = is_log(file.name) or is_head_of_log(part)
            written.write(part)
            while content and is_wanted and (part := content.read(COPY_BYTES)):
                written.write(part)
                if written.tell() % (COPY_BYTES << 10) < COPY_BYTES:
                    show()
                    _check_space(file.parent)
    except _FAULTS as error:
        if _is_disk_full(error):
            raise
        return f"{_why(error)}: only the lines before that were read"
    return ""


def _check_space(folder: Path) -> None:
    if disk_usage(folder).free < MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _link(folder: Path, name: str, target: str) -> str:
    """Make a link to another file of the archive; why not, if so."""
    link = folder / name
    aim = Path(os.path.realpath(link.parent / target))
    if not aim.is_relative_to(folder.resolve()):
        return "a link out of the archive"
    if not aim.exists():
        return "a link to no file of the archive"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(aim)
    return ""


def _fault_of_name(name: str) -> str:
    path = PurePosixPath(name)
    return "a path out of the archive" if path.is_absolute() or ".." in path.parts or "\0" in name else ""


def _members(opened: BufferedReader) -> Iterator[_Member]:
    return _of_zip(opened) if opened.peek(HEAD_BYTES).startswith(_ZIP) else _of_tar(opened)


def _of_zip(file: BufferedReader) -> Iterator[_Member]:
    with ZipFile(file) as opened:
        unpacked_bytes = sum(entry.file_size for entry in opened.infolist())
        if unpacked_bytes > max(ANY_RATIO_BYTES, MAX_RATIO * os.fstat(file.fileno()).st_size):
            raise OSError(f"it unpacks to more than {ANY_RATIO_BYTES >> 30} GiB and {MAX_RATIO} times its size")
        for entry in opened.infolist():
            if not entry.is_dir():
                yield _Member(entry.filename, _fault_of_entry(entry), "", partial(opened.open, entry))


def _fault_of_entry(entry: ZipInfo) -> str:
    if entry.flag_bits & 1:
        return "protected by a password"
    return "a link" if S_ISLNK(entry.external_attr >> 16) else ""


class _Header(TarInfo):
    """A header of a tar archive. Damage is an error: tarfile takes it for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """The header in a block; a name that would fill the memory is refused."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _HEADERS and header.size > MAX_HEADER_BYTES:
            raise ReadError("header too large")
        return header

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> _Header:
        """The next header. Only a block of zeros ends an archive."""
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) == _END:
                raise
            raise ReadError(str(error)) from error


def _of_tar(opened: BufferedReader) -> Iterator[_Member]:
    with tarfile.open(fileobj=opened, mode="r|", tarinfo=_Header) as archive:
        while entry := archive.next():
            archive.members = []  # type: ignore[attr-defined]
            if not entry.isdir():
                link = entry.linkname if entry.issym() else ""
                yield _Member(entry.name, _fault_of_header(entry), link, partial(archive.extractfile, entry))


def _fault_of_header(header: TarInfo) -> str:
    if header.islnk():
        return f"a hard link to {header.linkname}"
    if header.issparse():
        return "a sparse file"
    return "" if header.isreg() or header.issym() else "a device or pipe"


def _is_disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _why(error: BaseException) -> str:
    if _is_disk_full(error):
        return "no room to unpack it: set TMPDIR to a folder on a larger disk"
    return read_fault(error) if isinstance(error, OSError) and str(error) else "cut off or damaged"
