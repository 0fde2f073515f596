"""What files show about each other: the cluster, the form of dates and the zone of lines that don't say it."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from time import time_ns

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.provenance.clocks import Clock, zones
from epicenter.ingest.provenance.namesakes import clusters_by_folder
from epicenter.ingest.provenance.stated import Stated
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import UTC_ZONE


class ComparedFiles:
    """The files of a run. A followed one that can't be read yet is compared once it can.

    `clusters_in_folders` are folders with machines of the same names.
    """

    def __init__(self, stated: Stated, follow: bool):
        self._stated = stated
        self._follow = follow
        self._files: dict[str, FileSource] = {}
        self._new: dict[str, FileSource] = {}
        self._clusters: set[str] = set()
        self._days_first: set[bool | None] = set()
        self._clocks: dict[str, Clock] = {}
        self.clusters_in_folders: list[str] = []

    def add(self, file: FileSource) -> None:
        """Compare this file too, from now on."""
        self._files[file.name] = self._new[file.name] = file

    def remove(self, name: str) -> None:
        """Compare this file no more."""
        self._files.pop(name, None)
        self._new.pop(name, None)

    def compare_new(self, names: Container[str]) -> None:
        """If the files name one cluster, lines that name none are of it; the same for dates and zones.

        Of the new files those of these names are looked at.
        """
        found = [file for file in self._new.values() if file.name in names and self._inspect(file)]
        if not found:
            return
        for file in found:
            del self._new[file.name]
        known = self._days_first - {None}
        shown_zones = zones(self._clocks, may_compare=not self._follow and self._stated.zone == UTC_ZONE)
        for file in self._files.values():
            file.day_first_beside = next(iter(known)) if len(known) == 1 else None
            file.zone = shown_zones.get(file.name, self._stated.zone)
        self._tell_clusters()

    def _inspect(self, file: FileSource) -> bool:
        """Whether its first and last lines could be looked at."""
        try:
            self._clusters |= file.clusters()
            self._days_first.add(file.day_first())
            if clock := file.clock(time_ns()):
                self._clocks[file.name] = clock
        except (OSError, InputError):
            if not self._follow:
                raise
            return False
        return True

    def _tell_clusters(self) -> None:
        """Lines that name no cluster are of the only one that others name, else of that of their folder."""
        by_folder = {} if self._clusters or self._follow else self._clusters_by_folder()
        only = min(self._clusters, default="") if len(self._clusters) == 1 else ""
        for file in self._files.values():
            file.cluster_beside = by_folder.get(Path(file.name), only)
        self.clusters_in_folders = sorted(set(by_folder.values()))

    def _clusters_by_folder(self) -> dict[Path, str]:
        by_path = {Path(file.name): file for file in self._files.values()}
        nodes = {path: file.by_path.node for path, file in by_path.items()}
        return clusters_by_folder(nodes, lambda path: by_path[path].uptimes(time_ns()))
