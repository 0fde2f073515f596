"""Missing lines: verdicts that mean them rather than a stopped job, and logs that could not be read."""

from __future__ import annotations

from typing import Final

from epicenter.rules.liveness.verdict import BUFFERED, CUT_OFF, SHIPPER_SILENT, Verdict
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.ledger import Gap

UNREAD: Final = "source-unread"
"""The kind of a gap in a log that could not be read."""

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


def unread_gap(cluster: str, node: str, job: str, source: str, begins_ns: int, ends_ns: int, text: str) -> Gap:
    """The gap of a log that could not be read; `ends_ns` is 0 while it still can't."""
    gap_id = stable_id("gap", UNREAD, cluster, source, begins_ns)
    return Gap(gap_id, UNREAD, cluster, node, job, source, begins_ns, ends_ns or begins_ns, None, text)


def is_open(gap: Gap) -> bool:
    """Whether the log can't be read yet."""
    return gap.ends_ns == gap.begins_ns
