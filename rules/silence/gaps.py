"""Verdict -> Gap: the silences that say that lines are missing, not that somebody stopped."""

from __future__ import annotations

from typing import Final

from rules.model import Gap, stable_id
from rules.silence import verdict as told
from rules.silence.watch import Verdict

GAP_VERDICTS: Final = (told.SHIPPER_SILENT, told.CUT_OFF, told.BUFFERED)


def gap_of(verdict: Verdict) -> Gap | None:
    """The gap that a silence means; None when it is something else."""
    if verdict.verdict not in GAP_VERDICTS:
        return None
    return Gap(
        gap_id=stable_id("gap", verdict.verdict, verdict.cluster, verdict.job, verdict.node, verdict.time_ns),
        kind=verdict.verdict,
        cluster=verdict.cluster,
        node=verdict.node,
        job=verdict.job,
        source="",
        begins_ns=verdict.onset_ns,
        ends_ns=verdict.time_ns,
        records=None,
        text=verdict.text,
    )
