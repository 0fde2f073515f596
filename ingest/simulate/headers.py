"""How programs begin their lines: the clocks, headers and prefixes of torch, NCCL, absl, Ray, Slurm.

Sources: torch 2.8 (c10 and Python loggers), NCCL 2.27, absl of jaxlib 0.8, Ray 2.48. What needs the writer's clock is
returned as a function of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from epicenter.ingest.simulate.model import MS, US, Job, Node, Text, Timed
from epicenter.rules.model.times import NS_PER_S

SITE: Final = "/usr/local/lib/python3.12/dist-packages"
"""Where the job's image has its Python packages."""
NCCL_VERSION: Final = "2.27.3"
"""Its NCCL."""


def utc_time(time_ns: int, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    """The time in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // NS_PER_S, UTC).strftime(form)


def rfc3339_us(time_ns: int) -> str:
    """The time as rsyslog writes it: `2026-03-02T09:00:01.123456+00:00`."""
    return f"{utc_time(time_ns)}.{time_ns % NS_PER_S // US:06d}+00:00"


def rfc3339_ns(time_ns: int) -> str:
    """The time as container runtimes and their shippers write it, to the nanosecond."""
    return f"{utc_time(time_ns)}.{time_ns % NS_PER_S:09d}Z"


def spread(start_ns: int, texts: Iterable[Text], step_ns: int = 40 * US) -> list[Timed]:
    """The texts as a block, one every `step_ns`."""
    return [(start_ns + i * step_ns, text) for i, text in enumerate(texts)]


def c10d(rank: int, line: int, text: str, level: str = "E") -> Callable[[int], str]:
    """A line of torch's C++ logger: month without padding, nanoseconds, place in ProcessGroupNCCL.cpp."""

    def render(clock_ns: int) -> str:
        day = f"{int(utc_time(clock_ns, '%m'))}{utc_time(clock_ns, '%d')}"
        stamp = f"{utc_time(clock_ns, '%H:%M:%S')}.{clock_ns % NS_PER_S:09d}"
        return f"[rank{rank}]:[{level}{day} {stamp} ProcessGroupNCCL.cpp:{line}] {text}"

    return render


def torch_python(level: str, pid: int, where: str, text: str) -> Callable[[int], str]:
    """A line of torch's Python logger; its clock shows milliseconds, padded to six digits."""

    def render(clock_ns: int) -> str:
        stamp = f"{utc_time(clock_ns, '%m%d %H:%M:%S')}.{clock_ns % NS_PER_S // MS * 1000:06d}"
        return f"{level}{stamp} {pid} torch/distributed/{where}] {text}"

    return render


def absl(level: str, thread: int, where: str, text: str) -> Callable[[int], str]:
    """A line of absl, C++ (JAX) or Python (MaxText)."""

    def render(clock_ns: int) -> str:
        stamp = f"{utc_time(clock_ns, '%m%d %H:%M:%S')}.{clock_ns % NS_PER_S // US:06d}"
        return f"{level}{stamp} {thread:>7} {where}] {text}"

    return render


def ray_python(level: str, where: str, text: str) -> Callable[[int], str]:
    """A line of Ray's Python logger."""

    def render(clock_ns: int) -> str:
        stamp = f"{utc_time(clock_ns, '%Y-%m-%d %H:%M:%S')},{clock_ns % NS_PER_S // MS:03d}"
        return f"{stamp}\t{level} {where} -- {text}"

    return render


def nccl(job: Job, node: Node, rank: int) -> str:
    """How NCCL names a rank: host, process, thread and CUDA device."""
    pid = job.pid(rank)
    return f"{node.name}:{pid}:{pid + 590} [{rank % job.ranks_per_node}]"


def nccl_warn(job: Job, node: Node, rank: int, where: str, text: str) -> list[Text]:
    """A warning of NCCL, with the empty line before it that belongs to its format."""

    def render(clock_ns: int) -> str:
        return f"[{utc_time(clock_ns, '%Y-%m-%d %H:%M:%S')}] {nccl(job, node, rank)} {where} NCCL WARN {text}"

    return ["", render]


def by_rank(rank: int, texts: Iterable[str]) -> list[Text]:
    """A traceback as `init_process_group` lets Python print it: every line that is not blank names the rank."""
    return [f"[rank{rank}]: {text}" if text else text for text in texts]


def traceback(frames: Iterable[tuple[str, int, str, str]], error: str) -> list[str]:
    """A Python traceback from (file, line, function, source line) frames, outermost first."""
    lines = ["Traceback (most recent call last):"]
    for file, number, function, source in frames:
        lines += [f'  File "{file}", line {number}, in {function}', f"    {source}"]
    return [*lines, *error.split("\n")]


def hostlist(nodes: Iterable[Node]) -> str:
    """Slurm's hostlist: `node0003`, `node[0001-0004,0007]`."""
    numbers = sorted(node.index + 1 for node in nodes)
    spans = ranges(numbers, 4)
    return f"node{spans}" if len(numbers) == 1 else f"node[{spans}]"


def ranges(numbers: Iterable[int], width: int = 0) -> str:
    """`[1, 2, 3, 7]` as `1-3,7`, each padded to `width`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans)
