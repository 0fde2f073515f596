"""A node that boots while it has a job: it went down at some time since its last line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epicenter.rules.liveness.state import JobWatch
from epicenter.rules.liveness.streams import BUCKET_NS, NodeStreams
from epicenter.rules.liveness.verdict import NODE_DEAD, Verdict
from epicenter.rules.model.signals import BOOT_RULE, Signal
from epicenter.rules.model.times import NS_PER_S

REBOOTED: Final = "rebooted"
"""Names the rule; the verdict on the node is `node-dead`."""

_MIN_GAP_NS: Final = 12 * BUCKET_NS
"""A server needs minutes to boot; clocks of other nodes, which time the lines of a common file, may be off by less."""


def is_boot(signal: Signal) -> bool:
    """Whether it is the first line of a kernel."""
    return signal.rule == BOOT_RULE and "kernel" in signal.fields


def rebooted(boot: Signal, streams: NodeStreams | None, watches: Iterable[JobWatch]) -> Verdict | None:
    """The verdict on a node whose kernel starts after a gap, if one of its jobs was alive when it fell silent."""
    last_ns = streams.last_ns(boot.event_time_ns) if streams else 0
    running = [watch for watch in watches if not 0 < watch.ended_ns < last_ns - BUCKET_NS]
    if not last_ns or not running or boot.event_time_ns - last_ns < _MIN_GAP_NS:
        return None
    onset_ns = max(last_ns, *(_last_step_ns(watch, last_ns, boot.event_time_ns) for watch in running))
    gap_s = (boot.event_time_ns - last_ns) // NS_PER_S
    return Verdict(
        verdict=REBOOTED,
        cluster=boot.cluster,
        job="",
        node=boot.node,
        rank=None,
        time_ns=boot.event_time_ns,
        onset_ns=onset_ns,
        text=f"{boot.node} logged nothing for {gap_s} s, then started its kernel {boot.fields['kernel']}",
        fields={"verdict": NODE_DEAD},
    )


def _last_step_ns(watch: JobWatch, since_ns: int, until_ns: int) -> int:
    """The last step that the node may have taken part in; 0 if the job has begun twice since, or steps on."""
    if watch.attempt_ns > since_ns:
        return watch.earlier_step_ns
    return watch.progress.last_step_ns if watch.progress.last_step_ns < until_ns else 0
