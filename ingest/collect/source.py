"""What every reader offers: the next batch, without waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from time import sleep, time_ns
from typing import Final, Protocol

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.files import FileSource, files_in, is_packed, log_files, unrotated
from epicenter.ingest.collect.journal import JournalSource
from epicenter.ingest.collect.kmsg import DEVICE, KmsgSource
from epicenter.ingest.collect.pipe import PipeSource
from epicenter.ingest.provenance.clocks import Clock, zones
from epicenter.ingest.provenance.log_file import check_is_log, read_fault
from epicenter.ingest.provenance.namesakes import clusters_by_folder
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import UTC_ZONE

PAUSE_S: Final = 0.05


class Source(Protocol):
    """A place where lines come from. `fault` is why it could not be read to its end; empty if it could."""

    name: str
    fault: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come."""

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, or None when there are none now."""

    def close(self) -> None:
        """Close files and end processes."""


class OfSource(Protocol):
    """What was read of a source: a batch or a part."""

    @property
    def source(self) -> str:
        """Its name."""


Show = Callable[[OfSource], None]
"""Shows how far the reading is."""


class Sources:
    """All sources of a run. `open_new_files` finds those that appear in folders later.

    `host` is this machine if its files are local. Without it they are a recording from anywhere: when a line was
    written is not when it is read. `stated` is whose lines they are, as the user says. `clusters_in_folders` are
    folders with machines of the same names.

    Raises:
        InputError: nothing can be read; or, if sources are followed, one of the paths can't.
    """

    def __init__(self, paths: list[str], host: str, follow: bool, stated: Stated = NOTHING):
        self._stated = stated
        self._host = host
        self._follow = follow
        self._of_archives = list(dict.fromkeys(chain.from_iterable(map(stated.faults_at, paths))))
        self._folders = [Path(path) for path in paths if path != "-" and Path(path).is_dir()]
        self._by_name: dict[str, Source] = {}
        self._faults: dict[str, str] = {}
        self._inspected: set[str] = set()
        self._clusters: set[str] = set()
        self._days_first: set[bool | None] = set()
        self._clocks: dict[str, Clock] = {}
        self.clusters_in_folders: list[str] = []
        if "-" in paths:
            self._add(PipeSource(host, is_recording=not (host or follow), stated=stated))
        for path in paths:
            if path != "-" and not Path(path).is_dir():
                self._try_to_open(Path(path), None)
        if not paths:
            self._add(_machine_log(host, follow))
        refused = list(self._faults.values())
        self.open_new_files()
        if (follow and refused) or not (follow or self._by_name):
            self.close()
            raise InputError("\n".join(map(stated.shown, refused) if follow else self.faults()))

    def all(self) -> list[Source]:
        """Every source, in the order in which they were found."""
        return list(self._by_name.values())

    def faults(self) -> list[str]:
        """What could not be read so far, and why: a sentence each."""
        found = [*self._faults.values(), *(source.fault for source in self.all() if source.fault)]
        return [*self._of_archives, *map(self._stated.shown, found)]

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

    def left_out(self) -> list[Path]:
        """The files in the folders that are not read, because they are no logs by their names and first lines."""
        files = (file for folder in self._folders for file in files_in(folder))
        return [file for file in files if not (self._name(file) in self._by_name or str(file) in self._faults)]

    def shown_zones(self) -> dict[str, int]:
        """The zones of times that name none where the files show another one than is stated, each with its files."""
        zones_ = (source.zone for source in self.all() if isinstance(source, FileSource))
        return Counter(zone for zone in zones_ if zone != self._stated.zone)

    def open_new_files(self) -> None:
        """Open the log files that have appeared in the folders. A followed file was read before it was rotated away."""
        for folder in self._folders:
            files = [file for file in log_files(folder, self._note_error) if not self._is_history(file)]
            for file in files:
                if self._name(file) not in self._by_name:
                    self._try_to_open(file, folder)
            if not self._follow:
                self._check_folder(folder, files)
        self._tell_what_others_show()

    def close(self) -> None:
        """Close every source."""
        for source in self.all():
            source.close()

    def _tell_what_others_show(self) -> None:
        """If the files name one cluster, lines that name none are of it; the same for dates and zones."""
        files = [source for source in self.all() if isinstance(source, FileSource)]
        new = [file for file in files if file.name not in self._inspected]
        if not new:
            return
        self._inspected.update(file.name for file in new)
        for file in new:
            self._clusters |= file.clusters()
            self._days_first.add(file.day_first())
            if clock := file.clock(time_ns()):
                self._clocks[file.name] = clock
        known = self._days_first - {None}
        shown_zones = zones(self._clocks, may_compare=not self._follow and self._stated.zone == UTC_ZONE)
        for file in files:
            file.day_first_beside = next(iter(known)) if len(known) == 1 else None
            file.zone = shown_zones.get(file.name, self._stated.zone)
        self._tell_clusters(files)

    def _tell_clusters(self, files: list[FileSource]) -> None:
        """Lines that name no cluster are of the only one that others name, else of that of their folder."""
        by_folder = {} if self._clusters or self._follow else self._clusters_by_folder(files)
        only = min(self._clusters, default="") if len(self._clusters) == 1 else ""
        for file in files:
            file.cluster_beside = by_folder.get(Path(file.name), only)
        self.clusters_in_folders = sorted(set(by_folder.values()))

    def _clusters_by_folder(self, files: list[FileSource]) -> dict[Path, str]:
        by_path = {Path(file.name): file for file in files}
        nodes = {path: file.by_path.node for path, file in by_path.items()}
        return clusters_by_folder(nodes, lambda path: by_path[path].uptimes(time_ns()))

    def _is_history(self, file: Path) -> bool:
        """Whether a followed file was read before it got this name, or can't grow."""
        if not self._follow:
            return False
        original = unrotated(file)
        return is_packed(file) or (original != file and (self._name(original) in self._by_name or original.exists()))

    def _try_to_open(self, file: Path, folder: Path | None) -> None:
        """Open a file that the user named, or that is in a folder. If it can't be read, remember why."""
        try:
            if file != DEVICE and not check_is_log(file) and not self._follow and not folder:
                raise InputError(f"{file}: empty: no line to read")
            self._add(self._opened(file, folder))
            self._faults.pop(str(file), None)
        except InputError as error:
            if not folder or file.is_symlink() or file.exists():
                self._faults[str(file)] = str(error)

    def _opened(self, file: Path, folder: Path | None) -> Source:
        if file == DEVICE:
            return KmsgSource(self._host, self._follow)
        return FileSource(file, self._host, self._follow, folder, self._stated)

    def _check_folder(self, folder: Path, files: list[Path]) -> None:
        """Remember that a folder has no log with a line in it."""
        faulty = [file for file in self._faults if folder in (Path(file), *Path(file).parents)]
        if not files and not faulty:
            self._faults[str(folder)] = f"{folder}: no log in this folder"
        elif not faulty and not any(map(check_is_log, files)):
            self._faults[str(folder)] = f"{folder}: empty: none of its {len(files)} logs has a line"
            for file in files:
                self._by_name.pop(self._name(file)).close()

    def _name(self, file: Path) -> str:
        return self._stated.shown(str(file))

    def _note_error(self, error: OSError) -> None:
        self._faults[str(error.filename)] = f"{error.filename}: {read_fault(error)}"

    def _add(self, source: Source) -> None:
        self._by_name[source.name] = source


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


def _machine_log(host: str, follow: bool) -> Source:
    if JournalSource.is_readable():
        return JournalSource(follow)
    if KmsgSource.is_readable():
        return KmsgSource(host, follow)
    raise InputError(
        "neither the journal nor /dev/kmsg can be read here: give log files or folders, "
        "or run as a user who may read them (root, or group systemd-journal)"
    )
