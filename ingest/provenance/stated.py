"""What the user says about lines that don't say it themselves: for logs that were copied from elsewhere."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.provenance.log_names import LogName
from epicenter.rules.model.records import Origin
from epicenter.rules.model.times import UTC_ZONE


class Stated(NamedTuple):
    """The node of lines that name none; the job of lines of programs that name none; empty if it is not stated.

    `zone` is the time zone of times that name none. `log_names` are the forms of the site's file names.
    """

    node: str = ""
    job: str = ""
    zone: str = UTC_ZONE
    log_names: tuple[LogName, ...] = ()

    def over(self, origin: Origin) -> Origin:
        """The origin with this node and job, in place of those that follow from its file's name and first lines."""
        if self.node:
            origin = msgspec.structs.replace(origin, node=self.node)
        if self.job and not origin.is_system:
            origin = msgspec.structs.replace(origin, job=self.job)
        return origin


NOTHING: Final = Stated()
