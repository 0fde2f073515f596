"""What every reader offers: the next batch, without waiting."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from stat import S_ISDIR
from time import sleep, time_ns
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.compared_files import ComparedFiles
from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.folder_watch import Changes, FolderWatch
from epicenter.ingest.collect.journal import JOURNAL, JournalSource
from epicenter.ingest.collect.kmsg import DEVICE, KmsgSource
from epicenter.ingest.collect.listing import files_in, log_files
from epicenter.ingest.collect.open_files import OpenFiles
from epicenter.ingest.collect.pipe import PipeSource
from epicenter.ingest.collect.positions import FilePosition, JournalPosition, KmsgPosition, SourcePosition
from epicenter.ingest.collect.rotation import inode_of, is_packed, unrotated
from epicenter.ingest.collect.source_faults import FaultChange, SourceFault, SourceFaults, fault_text
from epicenter.ingest.collect.turns import Due, Turns
from epicenter.ingest.provenance.log_file import check_is_log, read_fault, utf8_text
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import NS_PER_S

PAUSE_S: Final = 0.05
LISTED_OFTEN_NS: Final = NS_PER_S
LISTED_NS: Final = 5 * NS_PER_S
LISTED_RARELY_NS: Final = 60 * NS_PER_S
"""Folders are listed again after this time, though the kernel reports each change of them."""


class Source(Protocol):
    """A place where lines come from. `fault` is why it could not be read to its end; empty if it could."""

    name: str
    fault: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come."""

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, or None when there are none now."""

    def position(self, first_buffered: int | None) -> SourcePosition | None:
        """Up to where it was read, or to before its first buffered line; None if it can't begin there later."""

    def close(self) -> None:
        """Close files and end processes."""


class OfSource(Protocol):
    """What was read of a source: a batch or a part."""

    @property
    def source(self) -> str:
        """Its name."""


Start = TypeVar("Start", FilePosition, JournalPosition, KmsgPosition)
Show = Callable[[OfSource], None]
"""Shows how far the reading is."""


class Sources:
    """All sources of a run. `open_new_files` finds those that appear in folders later.

    `host` is this machine if its files are local. Without it they are a recording from anywhere: when a line was
    written is not when it is read. `stated` is whose lines they are, as the user says, `starts` up to where followed
    sources were read before. A followed source that can't be read ends nothing: it is one of `failing`, and tried
    again.

    Raises:
        InputError: nothing can be read; or, if sources are followed, one of the paths does not exist or is no log.
    """

    def __init__(
        self,
        paths: list[str],
        host: str,
        follow: bool,
        stated: Stated = NOTHING,
        starts: Mapping[str, SourcePosition] = MappingProxyType({}),
    ):
        self._starts = dict(starts)
        self._stated = stated
        self._host = host
        self._follow = follow
        self._of_archives = list(dict.fromkeys(chain.from_iterable(map(stated.faults_at, paths))))
        self._folders: list[Path] = []
        self._unseen: list[Path] = []
        self._by_name: dict[str, Source] = {}
        self._refused: dict[str, str] = {}
        self._compared = ComparedFiles(stated, follow)
        self._open_files = OpenFiles()
        self._turns = Turns()
        self._watch = FolderWatch() if follow else None
        self._names_by_path: dict[str, str] = {}
        self._fault_log = SourceFaults()
        self._round_ns = 0
        self._must_list, self._listed_ns = True, 0
        if "-" in paths:
            self._add(PipeSource(host, is_recording=not (host or follow), stated=stated))
        for path in paths:
            if path != "-":
                self._add_path(Path(path))
        if not paths:
            self._add(self._machine_log())
        refused = list(self._refused.values())
        self.open_new_files()
        if (follow and refused) or not (follow or self._by_name):
            self.close()
            raise InputError("\n".join(map(stated.shown, refused) if follow else self.faults()))

    def all(self) -> list[Source]:
        """Every source, in the order in which they were found."""
        return list(self._by_name.values())

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._by_name)

    def due(self, round_ns: int) -> list[Source]:
        """The followed sources to read in this round, by a clock that never goes back: those with news, others in turn.

        Call `look_for_new_files` and `read` for the same round.
        """
        self._round_ns = round_ns
        changes = self._watch.changes() if self._watch else Changes()
        changed = self._names_of(changes)
        names = self._turns.next(changed if changes.are_all else self._by_name, round_ns)
        due = [name for name in names if name in changed or not self._fault_log.is_paused(name, round_ns)]
        self._compared.compare_new(set(due))
        return [source for name in due if not (source := self._by_name[name]).has_ended]

    def read(self, source: Source, now_ns: int) -> Batch | None:
        """The next lines of a source. A followed one that can't be read gives none, and is tried again later."""
        if not self._follow:
            return source.read(now_ns)
        try:
            batch = source.read(now_ns)
        except (OSError, InputError) as error:
            self._fail(source.name, error, now_ns)
            return None
        if source.has_ended and source.fault:
            self._fail(source.name, InputError(source.fault), now_ns)
        elif not isinstance(source, FileSource):
            self._fault_log.recover(source.name, now_ns)
        elif not source.is_behind:
            self._fault_log.recover(source.name, now_ns, source.lost_bytes)
        if batch:
            self._turns.record_lines(source.name)
        return batch

    @property
    def failing(self) -> Mapping[str, SourceFault]:
        """The followed sources and folders that can't be read now, by name."""
        return self._fault_log.failing

    @property
    def failures(self) -> int:
        """How often a followed source began to fail."""
        return self._fault_log.begun

    def take_fault_changes(self) -> list[FaultChange]:
        """What failed, and what could be read again, since the last call."""
        return self._fault_log.take_changes()

    @property
    def watch_fault(self) -> str:
        """Why the kernel does not report all changes of files, in a sentence; empty if it does."""
        return self._watch.fault if self._watch else ""

    def faults(self) -> list[str]:
        """What could not be read so far, and why: a sentence each."""
        if self._follow:
            return [fault.text for fault in self.failing.values()]
        found = [*self._refused.values(), *(source.fault for source in self.all() if source.fault)]
        return [*self._of_archives, *map(self._stated.shown, found)]

    @property
    def clusters_in_folders(self) -> list[str]:
        """The folders with machines of the same names."""
        return self._compared.clusters_in_folders

    @property
    def host(self) -> str:
        """This machine, if its files are local."""
        return self._host

    def find(self, name: str) -> Source | None:
        """The source of this name, if it is one."""
        return self._by_name.get(name)

    def named(self, name: str) -> Source:
        """The source of this name."""
        return self._by_name[name]

    def size_bytes(self) -> int | None:
        """The size of all files on disk; None if not all sources are files."""
        sizes = [source.size_bytes() for source in self.all() if isinstance(source, FileSource)]
        return sum(sizes) if len(sizes) == len(self._by_name) else None

    def read_bytes(self, name: str) -> int:
        """How much of the file was read, of a packed one in its packed size; 0 if the source is none."""
        source = self.named(name)
        return source.read_bytes() if isinstance(source, FileSource) else 0

    def positions(self, first_buffered: Callable[[str], int | None]) -> dict[str, SourcePosition] | None:
        """Up to where each followed source was read, without the lines from its first buffered one on.

        None if one of them was given up. A file that was not found yet has the position that it had.
        """
        found = {name: position for name, position in self._starts.items() if not _is_removed(Path(name))}
        for source in self.all():
            buffered = first_buffered(source.name)
            if position := source.position(buffered):
                found[source.name] = position
            elif buffered is not None:
                return None
        return found

    def left_out(self) -> list[Path]:
        """The files in the folders that are not read, because they are no logs by their names and first lines."""
        files = (file for folder in self._folders for file in files_in(folder))
        return [file for file in files if not (self._name(file) in self._by_name or str(file) in self._refused)]

    def shown_zones(self) -> dict[str, int]:
        """The zones of times that name none where the files show another one than is stated, each with its files."""
        zones_ = (source.zone for source in self.all() if isinstance(source, FileSource))
        return Counter(zone for zone in zones_ if zone != self._stated.zone)

    def look_for_new_files(self) -> None:
        """As `open_new_files`, if the kernel reported any, or it was long ago."""
        self._look_at_unseen()
        if self._round_ns - self._listed_ns >= self._listed_within_ns():
            self.open_new_files()

    def _listed_within_ns(self) -> int:
        """How long after a listing the next one is due."""
        if self._must_list or not self._watch or self._watch.is_limited:
            return LISTED_OFTEN_NS
        return LISTED_RARELY_NS if self._watch.is_complete and not self.failing else LISTED_NS

    def open_new_files(self) -> None:
        """Open the log files that have appeared in the folders. A followed file was read before it was rotated away."""
        self._look_at_unseen()
        self._must_list, self._listed_ns = False, self._round_ns
        for folder in self._folders:
            found = log_files(folder, self._note_error, self._note_folder, self._names_by_path if self._follow else ())
            files = [file for file in found if not self._is_history(file)]
            for file in files:
                if self._name(file) not in self._by_name:
                    self._try_to_open(file, folder)
            if not self._follow:
                self._check_folder(folder, files)
        self._forget_removed()
        self._compared.compare_new(self._by_name)

    def close(self) -> None:
        """Close every source."""
        for source in self.all():
            source.close()
        if self._watch:
            self._watch.close()

    def _names_of(self, changes: Changes) -> set[str]:
        """The sources whose files changed; another file that did may have become a log."""
        names = {self._names_by_path.get(file, "") for file in changes.files}
        self._must_list |= changes.is_listing_changed or "" in names
        return names - {""}

    def _add_path(self, path: Path) -> None:
        """Add a path that the user named."""
        try:
            is_folder = S_ISDIR(path.stat().st_mode)
        except FileNotFoundError:
            is_folder = False
        except OSError as error:
            if self._follow:
                self._unseen.append(path)
                self._fail(str(path), error, time_ns())
            else:
                self._refused[str(path)] = f"{path}: {read_fault(error)}"
            return
        if is_folder:
            self._folders.append(path)
        else:
            self._try_to_open(path, None)

    def _look_at_unseen(self) -> None:
        """Add the named paths that could not be looked at before."""
        for path in [path for path in self._unseen if not self._fault_log.is_paused(str(path), self._round_ns)]:
            self._unseen.remove(path)
            self._add_path(path)
            if path not in self._unseen:
                self._must_list = True
                self._fault_log.recover(str(path), time_ns())

    def _forget_removed(self) -> None:
        """What could not be read, is no source, and was removed, is no fault any more."""
        unseen = set(map(str, self._unseen))
        for name in [name for name in self.failing if name not in self._by_name and name not in unseen]:
            if _is_gone(Path(name)):
                self._fault_log.recover(name, time_ns())

    def _is_history(self, file: Path) -> bool:
        """Whether a followed file was read before it got this name, or can't grow."""
        if not self._follow:
            return False
        original = unrotated(file)
        return is_packed(file) or (original != file and (self._name(original) in self._by_name or _may_exist(original)))

    def _try_to_open(self, file: Path, folder: Path | None) -> None:
        """Open a file that the user named, or that is in a folder. If it can't be read, remember why."""
        if self._fault_log.is_paused(str(file), self._round_ns) and folder:
            return
        try:
            if file != DEVICE and not self._follow and not check_is_log(file) and not folder:
                raise InputError(f"{file}: empty: no line to read")
            if self._follow and not os.path.lexists(file):
                raise InputError(f"{file}: no such file or folder; to wait for it, give its folder")
            self._add(self._opened(file, folder))
        except InputError as error:
            if folder and self._follow:
                self._fail(str(file), error, time_ns())
            elif not folder or file.is_symlink() or file.exists():
                self._refused[str(file)] = str(error)
        else:
            self._refused.pop(str(file), None)
            self._fault_log.recover(str(file), time_ns())

    def _opened(self, file: Path, folder: Path | None) -> Source:
        if file == DEVICE:
            if not (self._follow or KmsgSource.is_readable()):
                raise InputError(f"{file}: can't be read: run as a user who may read it")
            return self._kmsg()
        start = self._start_of(self._name(file), FilePosition) or self._start_before_rotation(file)
        return FileSource(file, self._host, self._follow, folder, self._stated, self._open_files, start)

    def _machine_log(self) -> Source:
        if JournalSource.is_readable():
            return JournalSource(self._follow, self._start_of(JOURNAL, JournalPosition))
        if KmsgSource.is_readable():
            return self._kmsg()
        raise InputError(
            "neither the journal nor /dev/kmsg can be read here: give log files or folders, "
            "or run as a user who may read them (root, or group systemd-journal)"
        )

    def _kmsg(self) -> KmsgSource:
        return KmsgSource(self._host, self._follow, start=self._start_of(str(DEVICE), KmsgPosition))

    def _start_before_rotation(self, file: Path) -> FilePosition | None:
        """Up to where the file was read under the name that it had before it was rotated."""
        name = self._name(unrotated(file))
        start = self._starts.get(name)
        if isinstance(start, FilePosition) and start.inode == inode_of(file):
            return self._start_of(name, FilePosition)
        return None

    def _start_of(self, name: str, kind: type[Start]) -> Start | None:
        """Up to where the source of this name was read before; None if that is not known."""
        start = self._starts.pop(name, None)
        return start if isinstance(start, kind) else None

    def _check_folder(self, folder: Path, files: list[Path]) -> None:
        """Remember that a folder has no log with a line in it."""
        faulty = [file for file in self._refused if folder in (Path(file), *Path(file).parents)]
        if not files and not faulty:
            self._refused[str(folder)] = f"{folder}: no log in this folder"
        elif not faulty and not any(map(check_is_log, files)):
            self._refused[str(folder)] = f"{folder}: empty: none of its {len(files)} logs has a line"
            for file in files:
                source = self._by_name.pop(self._name(file))
                self._compared.remove(source.name)
                source.close()

    def _name(self, file: Path) -> str:
        return self._stated.shown(utf8_text(str(file)))

    def _note_error(self, error: OSError) -> None:
        if self._follow:
            self._fail(str(error.filename), error, time_ns())
        else:
            self._refused[str(error.filename)] = f"{error.filename}: {read_fault(error)}"

    def _note_folder(self, folder: str) -> None:
        if self._watch and folder not in self._watch and self._watch.watch(folder):
            self._must_list = True  # what came between the listing and the watch
        if folder not in self._by_name:
            self._fault_log.recover(folder, time_ns())

    def _fail(self, name: str, error: Exception, now_ns: int) -> None:
        self._fault_log.fail(name, fault_text(name, error), now_ns, self._round_ns)

    def _add(self, source: Source) -> None:
        self._by_name[source.name] = source
        due = Due.ALWAYS
        if isinstance(source, FileSource):
            self._compared.add(source)
            due = Due.RARELY if self._watch and self._is_watched(source, self._watch) else Due.OFTEN
        self._turns.add(source.name, due)

    def _is_watched(self, source: FileSource, watch: FolderWatch) -> bool:
        """Watch the file; whether all its changes will be reported."""
        paths = source.paths()
        self._names_by_path |= {str(path): source.name for path in paths}
        return False not in {watch.watch(str(path.parent)) for path in paths}


def _is_removed(file: Path) -> bool:
    """Whether the file is gone, while its folder is there."""
    return _is_gone(file) and file.parent.exists()


def _is_gone(file: Path) -> bool:
    """Whether nothing is at the path, rather than that it can't be seen."""
    try:
        file.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _may_exist(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:
        return True


def read_to_the_end(sources: Sources, now_ns: Callable[[], int] = time_ns) -> Iterator[Batch]:
    """Every batch of finished sources, one source after the other."""
    for source in sources.all():
        yield from read_source(source, now_ns)


def read_source(source: Source, now_ns: Callable[[], int] = time_ns) -> Iterator[Batch]:
    """Every batch of a finished source."""
    while not source.has_ended:
        if batch := source.read(now_ns()):
            yield batch
        elif not source.has_ended:
            sleep(PAUSE_S)
