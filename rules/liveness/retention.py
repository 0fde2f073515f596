"""How long jobs and nodes without heartbeats are remembered."""

from __future__ import annotations

from typing import Final

from epicenter.rules.liveness.state import JobWatch
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.model.times import NS_PER_S

HOUR_NS: Final = 3600 * NS_PER_S

FORGET_HOURS: Final = 24
"""A job or node without heartbeats for this long in event time is forgotten; checked once an hour."""

FORGET_ENDED_HOURS: Final = 2
"""The same for a job that has ended: missing logs mean nothing any more."""


def forget_jobs(jobs: dict[str, JobWatch], hour: int) -> list[tuple[str, JobWatch]]:
    """Remove the jobs that are forgotten in this hour of event time; return them."""
    keys = [key for key, watch in jobs.items() if watch.last_seen_ns // HOUR_NS < hour - _retention_hours(watch)]
    return [(key, jobs.pop(key)) for key in keys]


def forget_streams(streams: dict[str, NodeStreams], hour: int) -> None:
    """Remove the nodes that are forgotten in this hour of event time."""
    for key in [key for key, watched in streams.items() if watched.last_seen_ns // HOUR_NS < hour - FORGET_HOURS]:
        del streams[key]


def _retention_hours(watch: JobWatch) -> int:
    return FORGET_ENDED_HOURS if watch.progress.has_ended else FORGET_HOURS
