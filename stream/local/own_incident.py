"""The incident that epicenter opens about itself: the disk of its data folder is full."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import BlastRadius, ChainLink, Change, Evidence, Incident, Resolution, RootCause
from epicenter.rules.model.times import duration_ns, iso_from_ns

FAILURE_CLASS: Final = "disk-full"
RULE: Final = "epicenter.data_disk_full"
REOPENED_WITHIN_NS: Final = duration_ns("1h")
"""A disk that is full again within this time reopens the incident; later, there is a new one."""

MAX_KEPT_CHANGES: Final = 50


class DiskFullIncident:
    """Revisions of the incident: opened, critical once rows are given up, resolved."""

    def __init__(self, cluster: str, folder: Path):
        self._cluster = cluster
        self._folder = folder
        self._host = socket.gethostname().partition(".")[0]
        self._newest: Incident | None = None
        self._resolved_ns = 0

    @property
    def open_ids(self) -> frozenset[str]:
        """Its id while it is open."""
        return frozenset((self._newest.incident_id,)) if self._newest and self._newest.status == "open" else frozenset()

    def update(self, problem: str, is_losing: bool, now_ns: int) -> list[Incident]:
        """The next revision, if there is one. `problem` is what is wrong, empty while the disk has room."""
        newest, is_open = self._newest, bool(self._newest and self._newest.status == "open")
        severity = "critical" if is_losing else "error"
        if problem and (not newest or not is_open):
            self._newest = self._opened(problem, severity, now_ns)
        elif problem and newest and severity != newest.severity:
            self._newest = _next(newest, now_ns, f"severity: {severity}: {problem}", severity=severity)
        elif newest and is_open and not problem:
            self._resolved_ns = now_ns
            self._newest = _next(
                newest, now_ns, "resolved: there is room again", status="resolved", resolved_by=Resolution.CLEARED
            )
        return [self._newest] if self._newest and self._newest is not newest else []

    def _opened(self, problem: str, severity: str, now_ns: int) -> Incident:
        if self._newest and now_ns - self._resolved_ns < REOPENED_WITHIN_NS:
            return _next(
                self._newest,
                now_ns,
                f"reopened: {problem}",
                status="open",
                severity=severity,
                resolved_by=Resolution.NONE,
                reopened=self._newest.reopened + 1,
            )
        return self._new(problem, severity, iso_from_ns(now_ns))

    def _new(self, problem: str, severity: str, now: str) -> Incident:
        host, folder = self._host, str(self._folder)
        return Incident(
            incident_id=stable_id("incident", RULE, host, folder, now),
            revision=1,
            status="open",
            failure_class=FAILURE_CLASS,
            severity=severity,
            title=f"epicenter's data disk is full on {host}",
            cluster=self._cluster,
            jobs=(),
            nodes=(host,),
            root_cause=RootCause(FAILURE_CLASS, RULE, host, None, "", now, 1.0, ("epicenter can't write there",)),
            chain=(ChainLink(now, now, host, None, FAILURE_CLASS, "root", problem),),
            blast_radius=BlastRadius(nodes=1, ranks=0, jobs=0),
            progress={},
            first_seen=now,
            last_seen=now,
            signal_count=1,
            evidence=(Evidence(folder, 1, host, FAILURE_CLASS, problem),),
            next_steps=(
                f"Free space on the disk of {folder} on {host}. epicenter notifies as before, keeps what it can't store"
                " in memory, and stores it once there is room.",
            ),
            action="free-disk",
            history=(Change(now, "opened"),),
        )


def _next(incident: Incident, now_ns: int, what: str, **changes: object) -> Incident:
    now = iso_from_ns(now_ns)
    return replace(
        incident,
        revision=incident.revision + 1,
        signal_count=incident.signal_count + 1,
        last_seen=now,
        history=(*incident.history, Change(now, what))[-MAX_KEPT_CHANGES:],
        **changes,
    )
