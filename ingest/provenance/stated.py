"""What the user says about lines that don't say it themselves: for logs that were copied from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.provenance.log_names import LogName
from epicenter.rules.model.records import Origin
from epicenter.rules.model.times import UTC_ZONE


class Archive(NamedTuple):
    """The folder in which an archive was unpacked, the archive's name, and what in it is not read: a sentence each."""

    folder: Path
    name: str
    faults: tuple[str, ...]


class Stated(NamedTuple):
    """The node of lines that name none; the job of lines of programs that name none; empty if it is not stated.

    `zone` is the time zone of times that name none. `log_names` are the forms of the site's file names.
    `archives` are those that were unpacked for the user.
    """

    node: str = ""
    job: str = ""
    zone: str = UTC_ZONE
    log_names: tuple[LogName, ...] = ()
    archives: tuple[Archive, ...] = ()

    def over(self, origin: Origin) -> Origin:
        """The origin with this node and job, in place of those that follow from its file's name and first lines."""
        if self.node:
            origin = msgspec.structs.replace(origin, node=self.node)
        if self.job and not origin.is_system:
            origin = msgspec.structs.replace(origin, job=self.job)
        return origin

    def shown(self, text: str) -> str:
        """A path, or a sentence about one, with the name of an archive in place of its folder."""
        for archive in self.archives:
            text = text.replace(str(archive.folder), archive.name)
        return text

    def faults_at(self, path: str) -> list[str]:
        """What is not read of the archive that the path is in."""
        return [
            fault for archive in self.archives if Path(path).is_relative_to(archive.folder) for fault in archive.faults
        ]


NOTHING: Final = Stated()
