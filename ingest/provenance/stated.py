"""Whose lines they are, as the user says: for logs that were copied from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.records import Origin


class Stated(NamedTuple):
    """The node of lines that name none, and the job of lines of programs that name none; empty if it is not stated."""

    node: str = ""
    job: str = ""

    def of(self, batch: Batch) -> Batch:
        """The batch with this node and job, in place of those that follow from its file's name."""
        origin = batch.origin or Origin()
        if self.node:
            origin = msgspec.structs.replace(origin, node=self.node)
        if self.job and not origin.is_system:
            origin = msgspec.structs.replace(origin, job=self.job, is_job_stated=True)
        return replace(batch, origin=origin) if self != NOTHING else batch


NOTHING: Final = Stated()
