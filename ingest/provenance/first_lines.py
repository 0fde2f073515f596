"""Facts on a job from the first and last lines of its plain file: the Slurm id, its nodes, where its tasks run.

Formats: `scontrol`-like headers that batch scripts print, Slurm's `srun` and `slurmstepd`, NCCL's INFO lines, torchrun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import msgspec

from epicenter.ingest.parse.envelope import is_envelope, is_of_its_file, stated_time
from epicenter.ingest.parse.envelope import text_of as text_of_record
from epicenter.ingest.provenance.day_first import day_first
from epicenter.rules.errors import RecordError
from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.records import Origin, Position, RawRecord
from epicenter.rules.model.times import NS_PER_S, UTC_ZONE
from epicenter.rules.placement.hostlist import expand

HEAD_BYTES: Final = 256 << 10
HEAD_LINES: Final = 200
TAIL_BYTES: Final = 64 << 10
MAX_TASKS: Final = 1 << 16
MAX_TASKS_OF_A_NODE: Final = 1024

_CRI_HEAD: Final = re.compile(r"(?m)^\d{4}-\d\d-\d\dT\S{8,24} (?:stdout|stderr) [PF](?::\S{1,20})? ")
_STAMP = r"(?:\[?\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )\d\d:\d\d:\d\d\S{0,16} "
_LABEL = rf"^(?: {{0,6}}\d{{1,7}}: |{_STAMP})?"
_SETTING = rf"(?m){_LABEL} {{0,4}}(?:export |declare -x )?"
_JOB_IDS = (
    re.compile(rf"{_SETTING}(?:SLURM_)?JOB_?ID *(?:=|:) *\"?(?P<id>[1-9]\d{{0,9}}(?:_\d{{1,6}})?)\b"),
    re.compile(rf"(?mi){_LABEL}(?:slurm )?job id *[=:] *(?P<id>[1-9]\d{{2,9}}(?:_\d{{1,6}})?)\s*$"),
    re.compile(
        r"(?m)(?<![\w.-])(?:SLURM_)?JOB_?ID=(?P<id>[1-9]\d{2,9}(?:_\d{1,6})?)\b"
        r"(?=[^\n]{0,300}\b(?:NNODES|NODE_RANK|NODE_?LIST|WORLD_SIZE|MASTER_ADDR)=)"
    ),
    re.compile(r"(?m)\bsrun: [^\n]{0,200}?\bStepId=(?P<id>\d{1,10})\."),
    re.compile(r"(?m)\bsrun: job (?P<id>\d{1,10}) (?:queued|has been allocated)"),
    re.compile(r"(?m)\bslurmstepd: error: \*\*\* (?:JOB|STEP) (?P<id>\d{1,10})\b"),
)
_NODES = re.compile(rf"{_SETTING}(?:SLURM_)?(?:JOB_)?NODELIST *(?:=|:) *\"?(?P<nodes>[\w.\[\],-]{{1,4000}})\"?\s*?$")
_TASKS_PER_NODE = re.compile(rf"{_SETTING}(?:SLURM_)?NTASKS_PER_NODE *(?:=|:) *\"?(?P<count>\d{{1,4}})\b")
_TASKS = re.compile(rf"{_SETTING}(?:SLURM_)?(?:NTASKS|NPROCS) *(?:=|:) *\"?(?P<count>\d{{1,6}})\b")
_CLOCK_SET: Final = re.compile(
    r"(?m)^(?:<\d{1,3}>)?\[ {0,6}(?P<uptime>\d{1,6}\.\d{6})\] [^\n]{1,60}\bsetting system clock to "
    r"[\dT: -]{19} UTC \((?P<epoch>\d{9,10})\)"
)
_LABELLED = rf"(?m)^(?:{_STAMP})? {{0,6}}(?P<task>\d{{1,7}}): "
_TASK = re.compile(_LABELLED)
_RANGE = re.compile(r"(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?")
_TASK_ON_HOST = re.compile(
    _LABELLED + r"(?:\[rank\d{1,7}\]: ?)?(?P<host>[A-Za-z][\w.-]{0,120}):\d{1,8}:\d{1,8} "
    r"\[\d{1,3}\] NCCL|\bsrun: error: (?P<at>[A-Za-z][\w.,\[\]-]{0,400}): tasks? (?P<tasks>\d[\d,-]{0,200}):"
)
_NCCL_HOST = re.compile(
    r"(?m)^(?:\[[^\]\n]{1,40}\]:? ?)?(?P<host>[A-Za-z][\w.-]{0,120}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL"
)
_LAUNCHER = re.compile(_LABELLED + r"[^\n]{0,200}?(?:torch/distributed/(?:run|elastic|launcher)\b|torchrun)")


def with_first_lines(origin: Origin, text: str, received_ns: int, zone: str = UTC_ZONE) -> Origin:
    """The origin with the facts in a file's first and last lines. If both name a job, that of the path counts."""
    head = map(str.encode, text.split("\n", HEAD_LINES))
    boot_ns = _boot_ns(text)
    own_order = day_first(text)
    is_day_first = origin.is_day_first if own_order is None else own_order
    origin = msgspec.structs.replace(origin, boot_ns=boot_ns, is_day_first=is_day_first)
    time_ns = boot_ns or head_time_ns(head, received_ns, zone, Origin(is_day_first=is_day_first))
    origin = msgspec.structs.replace(origin, head_time_ns=time_ns)
    text = "" if origin.is_system else _without_envelopes(text)
    if not text:
        return origin
    job = "" if is_named_job(origin.job) else _job(text)
    if job:
        origin = msgspec.structs.replace(origin, job=job, is_of_a_job=not _is_part(origin))
    nodes = _nodes(text)
    if _TASK.search(text):
        return _labelled(origin, text, nodes)
    return msgspec.structs.replace(origin, node=_only_host(origin, text, nodes) or origin.node)


def _without_envelopes(text: str) -> str:
    """The text inside the lines of a container's log; empty if the envelopes name the writers themselves."""
    first, *rest = text.split("\n")
    if not is_envelope(first.encode()):
        return _CRI_HEAD.sub("", text)
    if not is_of_its_file(first.encode()):
        return ""
    return "\n".join(_inner_text(line) for line in (first, *rest))


def _inner_text(line: str) -> str:
    try:
        return text_of_record(line.encode()).rstrip("\n")
    except RecordError:
        return line


def head_time_ns(
    lines: Iterable[bytes], received_ns: int, zone: str = UTC_ZONE, origin: Origin | None = None
) -> int | None:
    """The time of the first of the first lines that states one."""
    records = (
        RawRecord(line, Position("", 0), received_ns, origin=origin, zone=zone) for line in islice(lines, HEAD_LINES)
    )
    times = map(stated_time, records)
    return next((time_ns for time_ns in times if time_ns is not None), None)


def _boot_ns(text: str) -> int:
    """When the kernel started, which sets its clock once, so many seconds later (drivers/rtc/class.c); else 0."""
    settings = list(islice(_CLOCK_SET.finditer(text), 2))
    if len(settings) != 1:
        return 0
    return int(settings[0]["epoch"]) * NS_PER_S - int(float(settings[0]["uptime"]) * NS_PER_S)


def _is_part(origin: Origin) -> bool:
    return bool(origin.node) or origin.rank is not None


def _job(text: str) -> str:
    found = (shape.search(text) for shape in _JOB_IDS)
    return next((match["id"] for match in found if match), "")


def _nodes(text: str) -> tuple[str, ...]:
    found = _NODES.search(text)
    try:
        return expand(found["nodes"]) if found else ()
    except ValueError:
        return ()


def _only_host(origin: Origin, text: str, nodes: tuple[str, ...]) -> str:
    """The only host that the lines of the file come from; empty if it names none or several."""
    if len(nodes) == 1:
        return nodes[0]
    if origin.is_of_a_job or len(nodes) > 1:
        return ""
    hosts = {found["host"] for found in _NCCL_HOST.finditer(text)}
    return hosts.pop() if len(hosts) == 1 else ""


def _labelled(origin: Origin, text: str, nodes: tuple[str, ...]) -> Origin:
    """A file of `srun --label`: the node of each task. Under torchrun a task is no rank."""
    is_launched = bool(_LAUNCHER.search(text))
    per_node = 1 if is_launched else _tasks_per_node(text, len(nodes))
    hosts = [node for node in nodes for _ in range(per_node)]
    named = dict(chain.from_iterable(map(_hosts_of_tasks, _TASK_ON_HOST.finditer(text))))
    named = {task: host for task, host in named.items() if task < MAX_TASKS}
    hosts += [""] * (max(named, default=-1) + 1 - len(hosts))
    for task, host in named.items():
        hosts[task] = hosts[task] or host
    return msgspec.structs.replace(
        origin, hosts=tuple(hosts[:MAX_TASKS]), tasks_are_ranks=not is_launched, is_of_a_job=True
    )


def _hosts_of_tasks(found: re.Match[str]) -> Iterator[tuple[int, str]]:
    """The host of each task that a line names: one for all, or as many as tasks (`n[1-4]: tasks 0-3`)."""
    tasks = list(_numbers(found["task"] or found["tasks"]))
    try:
        hosts = expand(found["host"] or found["at"])
    except ValueError:
        return
    if len(hosts) == 1:
        hosts *= len(tasks)
    yield from zip(tasks, hosts, strict=False) if len(hosts) == len(tasks) else ()


def _numbers(ranges: str) -> Iterator[int]:
    """The numbers of `3`, or of Slurm's `8-15,17`; none if they are more than a node has."""
    found = filter(None, map(_RANGE.fullmatch, ranges.split(",")))
    spans = [range(int(span["first"]), int(span["last"] or span["first"]) + 1) for span in found]
    return chain.from_iterable(spans) if sum(map(len, spans)) <= MAX_TASKS_OF_A_NODE else iter(())


def _tasks_per_node(text: str, nodes: int) -> int:
    """The number of tasks on each node, 0 if unknown."""
    if not nodes:
        return 0
    if found := _TASKS_PER_NODE.search(text):
        return int(found["count"])
    found = _TASKS.search(text)
    tasks = int(found["count"]) if found else 1 + max(int(match["task"]) for match in _TASK.finditer(text))
    if tasks <= nodes:
        return 1
    return tasks // nodes if tasks % nodes == 0 else 0


def text_of_ends(descriptor: int) -> str:
    """The first and the last lines of an open file.

    Raises:
        OSError: it can't be read.
    """
    size_bytes = os.fstat(descriptor).st_size
    ends = os.pread(descriptor, HEAD_BYTES, 0)
    if size_bytes > HEAD_BYTES:
        ends += b"\n" + os.pread(descriptor, TAIL_BYTES, max(HEAD_BYTES, size_bytes - TAIL_BYTES))
    return text_of(ends)


def text_of(ends: bytes) -> str:
    """These bytes as text, with line ends of one kind."""
    return ends.decode("utf-8-sig", "replace").replace("\r\n", "\n")
