"""Which job runs on which node, and where its ranks run: from every line's envelope and from banners."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Final

import msgspec

from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.placement.facts import NodeFacts
from epicenter.rules.placement.pods import Pods, ends_of_job_names

PLACED_FOR_NS: Final = 3600 * NS_PER_S
"""A job without lines from a node for this long has left it, once another job has lines from there."""

LEFT_NS: Final = 900 * NS_PER_S
"""For this long after a job has ended, what happens on a node without another job may still be its matter."""

LAST_LINES_NS: Final = 60 * NS_PER_S
"""The lines of a job that has ended come within this time."""

QUIET_NS: Final = 600 * NS_PER_S
"""A job without a line anywhere for this long has left the nodes where another job has begun since: most pauses are
shorter, and only jobs that share a node look alike.
"""

RETENTION_NS: Final = 24 * 3600 * NS_PER_S
ENDED_RETENTION_NS: Final = 2 * 3600 * NS_PER_S
SWEEP_EVERY_NS: Final = 3600 * NS_PER_S
MAX_KEPT_VERSIONS: Final = 4
MAX_KEPT_PIDS: Final = 64
"""Of a job on a node."""

MAX_ALIASES: Final = 65_536
MAX_RANKS: Final = 1 << 17
"""Higher ranks are mistakes in log lines: no job is that large."""


class Version(msgspec.Struct, array_like=True, gc=False):
    """Where a rank ran from `since_ns` on, as snapshots have it.

    `local_rank` is -1 if no banner has it; `world_size` is that of the rank's banner, 0 if that has none.
    """

    since_ns: int
    node: str
    local_rank: int
    gpu: str
    world_size: int


class JobPlaces(msgspec.Struct):
    """The nodes of one job with the times of its first and newest line there, its world sizes, and where its ranks run.

    `ended_ns` is when a line reported its end, 0 if none did. `listed_ns_by_node` are the nodes that a list of the
    job's hosts names. For each rank, and for the world size, it has the newest `MAX_KEPT_VERSIONS` versions, oldest
    first. It has the newest `MAX_KEPT_PIDS` process ids of each node. `node_by_reporter` is where each rank reports
    steps, empty if from several nodes: then it is a local rank. `has_logged`: its workers have.
    """

    last_ns: int = 0
    ended_ns: int = 0
    last_ns_by_node: dict[str, int] = msgspec.field(default_factory=dict, name="heard_ns_by_node")
    first_ns_by_node: dict[str, int] = {}
    listed_ns_by_node: dict[str, int] = {}
    worlds: list[tuple[int, int]] = []
    versions_by_rank: dict[int, list[Version]] = {}
    ranks_by_node: dict[str, set[int]] = {}
    pids_by_node: dict[str, dict[int, None]] = {}
    node_by_index: dict[int, str] = {}
    node_by_reporter: dict[int, str] = {}
    has_logged: bool = False

    def record(self, rank_placement: RankPlacement, node: str) -> None:
        """Record where a rank runs, or a world size. Communicators of only some ranks are ignored."""
        if rank_placement.world_size and (
            rank_placement.is_start or rank_placement.world_size > (self.world_at(rank_placement.time_ns) or 0)
        ):
            self._record_world_size(rank_placement, rank_placement.world_size)
        is_of_a_part = rank_placement.world_size and rank_placement.world_size < (
            self.world_at(rank_placement.time_ns) or 0
        )
        if rank_placement.rank is not None and 0 <= rank_placement.rank < MAX_RANKS and not is_of_a_part:
            self._place_rank(rank_placement, rank_placement.rank, node)
        if 0 <= rank_placement.node_index < MAX_RANKS:
            self.node_by_index[rank_placement.node_index] = node
        if rank_placement.pid:
            self._record_pid(rank_placement.pid, node)

    def world_at(self, time_ns: int) -> int | None:
        """The world size at that time; None if unknown."""
        number = bisect_right(self.worlds, time_ns, key=lambda world: world[0])
        return self.worlds[max(number - 1, 0)][1] if self.worlds else None

    def at(self, rank: int, time_ns: int) -> Version | None:
        """Where a rank ran at that time; before its first banner, where that banner places it."""
        versions = self.versions_by_rank.get(rank)
        if not versions:
            return None
        return versions[max(bisect_right(versions, time_ns, key=lambda version: version.since_ns) - 1, 0)]

    def forget_before(self, oldest_ns: int) -> None:
        """Forget the nodes where the job has had no lines since then, and rank placements that no version has."""
        self.listed_ns_by_node = {
            node: listed_ns
            for node, listed_ns in self.listed_ns_by_node.items()
            if listed_ns >= oldest_ns or node in self.last_ns_by_node
        }
        self.last_ns_by_node = {node: last_ns for node, last_ns in self.last_ns_by_node.items() if last_ns >= oldest_ns}
        self.first_ns_by_node = {node: self.first_ns_by_node.get(node, 0) for node in self.last_ns_by_node}
        self.pids_by_node = {node: pids for node, pids in self.pids_by_node.items() if node in self.last_ns_by_node}
        if sum(map(len, self.ranks_by_node.values())) == sum(map(len, self.versions_by_rank.values())):
            return
        self.ranks_by_node = {}
        for rank, versions in self.versions_by_rank.items():
            for version in versions:
                self.ranks_by_node.setdefault(version.node, set()).add(rank)

    def _record_pid(self, pid: int, node: str) -> None:
        pids = self.pids_by_node.setdefault(node, {})
        pids[pid] = None
        if len(pids) > MAX_KEPT_PIDS:
            del pids[next(iter(pids))]

    def _record_world_size(self, rank_placement: RankPlacement, world_size: int) -> None:
        """A new world. If it grew without a restart, the smaller one was only a part, and its ranks are dropped."""
        if self.worlds and not rank_placement.is_start:
            since_ns, before = self.worlds[-1]
            for rank, versions in list(self.versions_by_rank.items()):
                remaining = [
                    version for version in versions if version.world_size != before or version.since_ns < since_ns
                ]
                self.versions_by_rank[rank] = remaining
                if not remaining:
                    del self.versions_by_rank[rank]
        if self.world_at(rank_placement.time_ns) != world_size:
            self.worlds = sorted([*self.worlds, (rank_placement.time_ns, world_size)])[-MAX_KEPT_VERSIONS:]

    def _place_rank(self, rank_placement: RankPlacement, rank: int, node: str) -> None:
        versions = self.versions_by_rank.setdefault(rank, [])
        current, local_rank = (
            self.at(rank, rank_placement.time_ns),
            -1 if rank_placement.local_rank is None else rank_placement.local_rank,
        )
        node = node or (current.node if current else "")
        if current and current.node == node and rank_placement.world_size == self.world_at(rank_placement.time_ns):
            current.world_size = rank_placement.world_size or current.world_size
        if (
            current
            and current.node == node
            and rank_placement.gpu in ("", current.gpu)
            and local_rank in (-1, current.local_rank)
        ):
            return
        is_more = current is not None and current.node == node and current.gpu in ("", rank_placement.gpu)
        if current and is_more:
            current.gpu, current.local_rank = rank_placement.gpu or current.gpu, max(local_rank, current.local_rank)
        else:
            versions.append(
                Version(rank_placement.time_ns, node, local_rank, rank_placement.gpu, rank_placement.world_size or 0)
            )
            versions.sort(key=lambda version: version.since_ns)
            del versions[:-MAX_KEPT_VERSIONS]
        self.ranks_by_node.setdefault(node, set()).add(rank)


class Placement(msgspec.Struct):
    """Jobs on nodes and ranks on GPUs, with times: an old line is completed from the placement of its time.

    Jobs and nodes are forgotten after 24 hours (`RETENTION_NS`) of event time without lines, and where a job ran two
    hours after its end (`ENDED_RETENTION_NS`); checked once an hour. An address of a node (`10.1.0.7`), or a pod that
    runs there, is replaced by its name once a line has both; the newest 65,536 of these are known.
    """

    seen_by_node: dict[str, dict[str, tuple[int, int]]] = msgspec.field(default_factory=dict, name="heard_by_node")
    by_job: dict[str, JobPlaces] = {}
    node_by_address: dict[str, str] = {}
    addresses_by_node: dict[str, list[str]] = {}
    pods: Pods = msgspec.field(default_factory=Pods)
    facts: NodeFacts = msgspec.field(default_factory=NodeFacts)
    swept_ns: int = 0

    def observe(self, cluster: str, node: str, job: str, time_ns: int) -> bool:
        """Record a line of the job from the node; true if the job was not known to be there."""
        seen = self.seen_by_node.setdefault(f"{cluster}/{node}", {})
        known_ns = seen.get(job)
        first_ns, last_ns = known_ns or (time_ns, time_ns)
        seen[job] = min(first_ns, time_ns), max(last_ns, time_ns)
        if len(seen) > 1:
            for left_job in [job for job, (_, last_ns) in seen.items() if last_ns < time_ns - PLACED_FOR_NS]:
                del seen[left_job]
        places = self._of(cluster, job, time_ns)
        if 0 < places.ended_ns < time_ns - LAST_LINES_NS:
            places.ended_ns = 0
        for listed in places.listed_ns_by_node if not places.last_ns_by_node else ():
            self.seen_by_node.setdefault(f"{cluster}/{listed}", {}).setdefault(job, (time_ns, time_ns))
        places.first_ns_by_node[node] = min(time_ns, places.first_ns_by_node.get(node, time_ns))
        places.last_ns_by_node[node] = max(time_ns, places.last_ns_by_node.get(node, 0))
        self._sweep(time_ns)
        return known_ns is None

    def list_node(self, rank_placement: RankPlacement) -> bool:
        """Record that a list of the job's hosts names the node; true if it is there from now on.

        A job that a scheduler lists, and that has no lines, may be over or never start: it is nowhere.
        """
        cluster, job, time_ns = rank_placement.cluster, rank_placement.job, rank_placement.time_ns
        places = self._of(cluster, job, time_ns)
        places.listed_ns_by_node.setdefault(rank_placement.node, time_ns)
        if rank_placement.is_allocated and not places.last_ns_by_node:
            return False
        seen = self.seen_by_node.setdefault(f"{cluster}/{rank_placement.node}", {})
        return seen.setdefault(job, (time_ns, time_ns)) == (time_ns, time_ns)

    def record(self, rank_placement: RankPlacement) -> None:
        """Record a banner."""
        if rank_placement.address:
            self._name(rank_placement.cluster, rank_placement.address, rank_placement.node)
        if rank_placement.pod:
            self.pods.observe(rank_placement.cluster, rank_placement.pod, rank_placement.job, rank_placement.node)
            if rank_placement.node not in ("", rank_placement.pod):
                self._name(rank_placement.cluster, rank_placement.pod, rank_placement.node)
        if rank_placement.job:
            self._of(rank_placement.cluster, rank_placement.job, rank_placement.time_ns).record(
                rank_placement, rank_placement.node
            )
            self._sweep(rank_placement.time_ns)

    def end(self, cluster: str, job: str, time_ns: int) -> None:
        """A line reports the end of a job: it leaves its nodes, unless more than its last lines follow."""
        if places := self.by_job.get(f"{cluster}/{job}"):
            places.ended_ns = time_ns

    def forget_ended(self, now_ns: int, known: Collection[str]) -> list[str]:
        """Forget where jobs ran that ended long ago, except the `known` ones; return them (`cluster/job`)."""
        old_ns = now_ns - ENDED_RETENTION_NS
        ended = [job for job, places in self.by_job.items() if 0 < places.ended_ns < old_ns and job not in known]
        for job in ended:
            places = self.by_job[job]
            self.by_job[job] = JobPlaces(places.last_ns, places.ended_ns, has_logged=places.has_logged)
            self.facts.forget(job)
        return ended

    def jobs_on(self, cluster: str, node: str, time_ns: int) -> set[str]:
        """The jobs on a node at that time, without those that ended before, or long before if there are no others.

        If none was known by then, those that came later.
        """
        seen = self.seen_by_node.get(f"{cluster}/{node}", {})
        by_then = {job for job, (first_ns, _) in seen.items() if first_ns <= time_ns} or set(seen)
        of_then = {job for job in by_then if not self.has_left(cluster, job, time_ns, node)}
        return of_then or {job for job in by_then if not self.has_left(cluster, job, time_ns - LEFT_NS)}

    def has_left(self, cluster: str, job: str, time_ns: int, node: str = "") -> bool:
        """Whether a line had reported the end of the job well before then, or another job had taken its node over."""
        places = self.by_job.get(f"{cluster}/{job}")
        if places is None:
            return False
        has_ended = 0 < places.ended_ns < time_ns - LAST_LINES_NS
        return has_ended or self._is_taken_over(cluster, places.last_ns, time_ns, node)

    def _is_taken_over(self, cluster: str, last_ns: int, time_ns: int, node: str) -> bool:
        """Whether the node has a job that began there after the last line of one that was quiet from then on."""
        seen = self.seen_by_node.get(f"{cluster}/{node}", {})
        is_quiet = last_ns < time_ns - QUIET_NS
        return is_quiet and any(last_ns < first_ns <= time_ns for first_ns, _ in seen.values())

    def record_reporter(self, cluster: str, job: str, rank: int, node: str) -> None:
        """Record where a rank reports a step of a known job."""
        places = self.by_job.get(f"{cluster}/{job}") if 0 <= rank < MAX_RANKS else None
        if places and places.node_by_reporter.setdefault(rank, node) != node:
            places.node_by_reporter[rank] = ""

    def nodes_by_reporter(self, cluster: str, job: str) -> dict[int, str]:
        """The node of each rank of the job that reports steps from one node."""
        places = self.by_job.get(f"{cluster}/{job}")
        reporters = places.node_by_reporter if places else {}
        return {rank: node for rank, node in reporters.items() if node}

    def node_of(self, cluster: str, job: str, rank: int, time_ns: int) -> str:
        """The node of a rank at that time, by its banner or else its steps; empty if unknown."""
        places = self.by_job.get(f"{cluster}/{job}")
        if places is None:
            return ""
        version = places.at(rank, time_ns)
        return self.node_called(cluster, version.node if version else places.node_by_reporter.get(rank, ""))

    def node_of_process(self, cluster: str, job: str, process: int, time_ns: int) -> str:
        """The node of a JAX process: that of its rank, else, with one process a node, the one with its number."""
        places = self.by_job.get(f"{cluster}/{job}")
        of_rank = self.node_of(cluster, job, process, time_ns)
        return of_rank or (self.node_called(cluster, places.node_by_index.get(process, "")) if places else "")

    def node_called(self, cluster: str, name: str) -> str:
        """The node that a name means: that of an address or a pod; any other name is the node's own."""
        return self.node_by_address.get(f"{cluster}/{name}", name)

    def job_named_in(self, cluster: str, pod: str) -> str:
        """The known job whose replica the pod is by its name; the longest name of several, empty if there is none."""
        names = (pod[:end] for end in reversed(ends_of_job_names(pod)))
        return next((name for name in names if f"{cluster}/{name}" in self.by_job), "")

    def record_log(self, cluster: str, job: str) -> None:
        """Record that workers of a known job log under this name."""
        if places := self.by_job.get(f"{cluster}/{job}"):
            places.has_logged = True

    def job_called(self, cluster: str, name: str) -> str:
        """The job by a name of it: the name of its pods if its workers log under that alone, else the other one."""
        of_pods, job = self.pods.names_of(cluster, name)
        if of_pods == job:
            return job
        return of_pods if self._has_logged(cluster, of_pods) and not self._has_logged(cluster, job) else job

    def _has_logged(self, cluster: str, job: str) -> bool:
        places = self.by_job.get(f"{cluster}/{job}")
        return places is not None and places.has_logged

    def pids_of(self, cluster: str, job: str, node: str) -> Collection[int]:
        """The process ids that the job's ranks on the node printed."""
        places = self.by_job.get(f"{cluster}/{job}")
        return places.pids_by_node.get(node, ()) if places else ()

    def ranks_on(self, cluster: str, job: str, node: str) -> int:
        """How many ranks of the job run on the node, by its newest world size or else by banners; 0 if unknown."""
        places = self.by_job.get(f"{cluster}/{job}")
        if places is None:
            return 0
        nodes = len(places.last_ns_by_node.keys() | places.listed_ns_by_node.keys())
        world_size = places.worlds[-1][1] if places.worlds else 0
        return max(world_size // max(nodes, 1), len(places.ranks_by_node.get(node, ())))

    def is_of_launcher(self, cluster: str, job: str, rank: int) -> bool:
        """Whether a launcher's banner gives the rank a local rank: it starts several ranks."""
        places = self.by_job.get(f"{cluster}/{job}")
        versions = places.versions_by_rank.get(rank, ()) if places else ()
        return any(version.local_rank >= 0 for version in versions)

    def rank_of(
        self, cluster: str, job: str, node: str, time_ns: int, gpu: str = "", local_rank: int | None = None
    ) -> int | None:
        """The rank that had this GPU (a PCI address) or local rank of the node then; None if unknown."""
        places = self.by_job.get(f"{cluster}/{job}")
        if places is None or not (gpu or local_rank is not None):
            return None
        names = {node, *self.addresses_by_node.get(f"{cluster}/{node}", ())}
        for rank in sorted(rank for name in names for rank in places.ranks_by_node.get(name, ())):
            version = places.at(rank, time_ns)
            if version and version.node in names and (version.gpu == gpu if gpu else version.local_rank == local_rank):
                return rank
        return None

    def nodes_by_rank(self, cluster: str, job: str, time_ns: int) -> dict[int, str]:
        """The node then of each rank of the job that had a banner by then."""
        places = self.by_job.get(f"{cluster}/{job}")
        placed = sorted(places.versions_by_rank.items()) if places else ()
        ranks = [rank for rank, versions in placed if versions and versions[0].since_ns <= time_ns]
        return {rank: self.node_of(cluster, job, rank, time_ns) for rank in ranks}

    def world_size(self, cluster: str, job: str, time_ns: int) -> int | None:
        """How many ranks the job had then; None if no banner had the number by then."""
        places = self.by_job.get(f"{cluster}/{job}")
        is_known = places and places.worlds and places.worlds[0][0] <= time_ns
        return places.world_at(time_ns) if places and is_known else None

    def nodes_of(self, cluster: str, job: str, time_ns: int) -> tuple[str, ...]:
        """The nodes that had lines of the job by then, and in the hour before its newest line; sorted."""
        places = self.by_job.get(f"{cluster}/{job}")
        if places is None:
            return ()
        since_ns = max(places.last_ns_by_node.values(), default=0) - PLACED_FOR_NS
        recent = (node for node, last_ns in places.last_ns_by_node.items() if last_ns >= since_ns)
        return tuple(sorted(node for node in recent if places.first_ns_by_node.get(node, 0) <= time_ns))

    def listed_nodes(self, cluster: str, job: str, time_ns: int) -> frozenset[str]:
        """The nodes that a list of the job's hosts had named by then."""
        places = self.by_job.get(f"{cluster}/{job}")
        listed = places.listed_ns_by_node if places else {}
        return frozenset(node for node, listed_ns in listed.items() if listed_ns <= time_ns)

    def only_listed_node(self, cluster: str, job: str, time_ns: int) -> str:
        """The node of a job whose list of hosts has only this one, and whose lines name no other; empty otherwise."""
        listed = self.listed_nodes(cluster, job, time_ns)
        is_only = len(listed) == 1 and listed.issuperset(self.nodes_of(cluster, job, time_ns))
        return next(iter(listed)) if is_only else ""

    def speaking_ranks(self, cluster: str, job: str, time_ns: int) -> frozenset[int]:
        """The ranks that had printed a banner of the whole job by then."""
        places = self.by_job.get(f"{cluster}/{job}")
        versions = places.versions_by_rank if places else {}
        return frozenset(
            rank for rank, of_rank in versions.items() if of_rank and of_rank[0].since_ns <= time_ns and _spoke(of_rank)
        )

    def _of(self, cluster: str, job: str, time_ns: int) -> JobPlaces:
        key = f"{cluster}/{job}"
        places = self.by_job.get(key)
        if places is None:
            places = self.by_job[key] = JobPlaces()
        places.last_ns = max(places.last_ns, time_ns)
        return places

    def _name(self, cluster: str, address: str, node: str) -> None:
        self._unname(cluster, address)
        self.node_by_address[f"{cluster}/{address}"] = node
        self.addresses_by_node.setdefault(f"{cluster}/{node}", []).append(address)
        if len(self.node_by_address) > MAX_ALIASES:
            self._unname(*next(iter(self.node_by_address)).rsplit("/", 1))

    def _unname(self, cluster: str, address: str) -> None:
        node = self.node_by_address.pop(f"{cluster}/{address}", "")
        addresses = self.addresses_by_node.get(f"{cluster}/{node}", [])
        if address in addresses:
            addresses.remove(address)
            if not addresses:
                del self.addresses_by_node[f"{cluster}/{node}"]

    def _sweep(self, time_ns: int) -> None:
        if time_ns < self.swept_ns + SWEEP_EVERY_NS:
            return
        self.swept_ns, oldest_ns = time_ns, time_ns - RETENTION_NS
        self.by_job = {job: places for job, places in self.by_job.items() if places.last_ns >= oldest_ns}
        for places in self.by_job.values():
            places.forget_before(oldest_ns)
        for node, seen in list(self.seen_by_node.items()):
            remaining = {job: times for job, times in seen.items() if times[1] >= oldest_ns}
            if remaining:
                self.seen_by_node[node] = remaining
            else:
                del self.seen_by_node[node]


def _spoke(versions: list[Version]) -> bool:
    """Whether a rank's own banner places it: launchers that place all ranks of a node name no world size."""
    return any(version.world_size for version in versions)
