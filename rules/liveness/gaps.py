"""Verdict -> Gap: verdicts that mean missing lines rather than a stopped job."""

from __future__ import annotations

from typing import Final

from epicenter.rules.liveness.verdict import BUFFERED, CUT_OFF, SHIPPER_SILENT, Verdict
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.ledger import Gap

GAP_VERDICTS: Final = (SHIPPER_SILENT, CUT_OFF, BUFFERED)


def gap_of(verdict: Verdict) -> Gap | None:
    """The evidence gap that a verdict means; None for other verdicts."""
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
