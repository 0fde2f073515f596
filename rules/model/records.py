"""Raw records, log lines and what a rule finds in one."""

from __future__ import annotations

from typing import Final, final

import msgspec

from epicenter.rules.model.times import UTC_ZONE


class Position(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The position of a record: a file and its line (from 1), or a Kafka `topic/partition` and its offset."""

    source: str
    offset: int


DEFAULT_CLUSTER: Final = "default"
"""The cluster of lines that name none, unless the settings name one."""


class Origin(msgspec.Struct, frozen=True):
    """Whose lines a plain file holds, as far as the lines don't say it themselves.

    `job` comes from the path or the first lines; where neither names one, it is that of a log, see
    `rules.model.job_names`. It is empty for the log of a machine or a daemon (`is_system`). `is_of_a_job`: the file
    holds the lines of all tasks. `hosts` are the nodes of the tasks that srun labels, by task number, empty where
    unknown. `tasks_are_ranks` is false where a task starts several ranks. `log` is the file. `head_time_ns` is the time
    of the first of its first lines that has one, None when none has. `cluster` is the only one that lines of the
    other files name. `boot_ns` is when the kernel started whose messages it holds, if one of them says it; else 0.
    `is_day_first`: its dates are written as day/month/year, None if that is unknown.
    """

    job: str = ""
    node: str = ""
    rank: int | None = None
    is_system: bool = False
    is_of_a_job: bool = False
    hosts: tuple[str, ...] = ()
    tasks_are_ranks: bool = True
    log: str = ""
    head_time_ns: int | None = None
    cluster: str = ""
    boot_ns: int = 0
    is_day_first: bool | None = None

    def node_of(self, task: int | None) -> str:
        """The node of a task, else that of the file; empty when it is unknown."""
        return (self.hosts[task] if task is not None and task < len(self.hosts) else "") or self.node


class RawRecord(msgspec.Struct, frozen=True, array_like=True):
    """Bytes as they were read; for a plain file, with its origin. `zone` is the time zone of times that name none."""

    value: bytes
    position: Position
    received_ns: int
    key: bytes | None = None
    origin: Origin | None = None
    zone: str = UTC_ZONE


class LogEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One log line with its identity. `source` is empty when the record does not say what it is.

    `log` is the plain file of a line that does not name its node or job itself. `address` is that of its pod.
    `wild_ns` is the time that it states where that can't be right, else 0: the line then has the time of a nearby one.
    `received_ns` is the receipt of a streamed line without a time whose event time is an earlier one, else 0.
    """

    event_time_ns: int
    text: str
    position: Position
    has_own_time: bool = True
    cluster: str = DEFAULT_CLUSTER
    node: str = ""
    source: str = ""
    job: str = ""
    rank: int | None = None
    pod: str = ""
    container: str = ""
    log: str = ""
    address: str = ""
    wild_ns: int = 0
    received_ns: int = 0


@final
class Match(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule matches one line, or a line of a block, whose lines are then in `block`.

    `match_id` depends on the content of the line, so a second copy is the same match.
    """

    match_id: str
    rule: str
    event: LogEvent
    fields: dict[str, str]
    block: tuple[str, ...] = ()


@final
class RankPlacement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From a banner: where a rank of a job runs, how many ranks there are, or that the job is on the node at all.

    `gpu` is its PCI address. `is_start`: the banner begins an attempt, so its world size counts even if it is smaller
    than before. `address` is another name of `node`; `pod` is one of the job's; `pid` is the rank's process id, 0 if
    unknown; `node_index` counts the job's nodes from 0, -1 if unknown. `is_listed`: a list of the job's hosts names the
    node, which may have no lines; `is_allocated`: by a scheduler, so the job may have none. `moment`: what all nodes
    print at once. Other numbers that the banner lacks are None.
    """

    time_ns: int
    cluster: str
    job: str
    node: str
    rank: int | None = None
    local_rank: int | None = None
    gpu: str = ""
    world_size: int | None = None
    is_start: bool = False
    address: str = ""
    pod: str = ""
    pid: int = 0
    node_index: int = -1
    is_allocated: bool = False
    is_listed: bool = False
    moment: str = ""

    def written(self) -> RankPlacement:
        """As messages and snapshots have it: unknown ranks are -1, an unknown world size is 0."""
        return msgspec.structs.replace(
            self,
            rank=-1 if self.rank is None else self.rank,
            local_rank=-1 if self.local_rank is None else self.local_rank,
            world_size=self.world_size or 0,
        )

    def read(self) -> RankPlacement:
        """The rank placement that was `written`."""
        return msgspec.structs.replace(
            self,
            rank=None if self.rank == -1 else self.rank,
            local_rank=None if self.local_rank == -1 else self.local_rank,
            world_size=self.world_size or None,
        )

    def order(self) -> tuple[object, ...]:
        """By time, cluster, job, node and the rest; unknown values come first."""
        return msgspec.structs.astuple(self.written())
