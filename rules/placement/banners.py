"""Banners of launchers and libraries -> where ranks run. Rules with `role: placement` find them and their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from epicenter.rules.model.records import LogEvent, RankPlacement
from epicenter.rules.placement.hostlist import expand

MAX_RANKS_A_LINE: Final = 1024

_PASSED_ON_BY_RAY = re.compile(r"\([^\n()]{1,160}, ip=[\da-f.:]{3,45}\) ")
_NUMBER = re.compile(r"\d{1,7}")


def placements_of(event: LogEvent, fields: Mapping[str, str]) -> Iterator[RankPlacement]:
    """The placements in a banner; none if it names no rank, world size, list of nodes or address.

    `rank`, `local_rank`, `world_size`; `ranks`: those of the local ranks 0, 1, … on this node; `bus`: NCCL's busId;
    `node`: the host, where the line itself names it; `address`: one of this host, which NCCL calls `host`; `at`: the
    address of another host that the line is about; `starts`: only the first banner of an attempt has it; `moment`: what
    all nodes print at once; `nodes`: hosts of the job, `allocated`: by a scheduler; `pid`: the rank's process;
    `node_index`: the node's number.
    """
    node = fields.get("at") or fields.get("node") or event.node
    job, world_size = event.job or fields.get("job", ""), _number(fields.get("world_size", ""))
    placement = RankPlacement(
        event.event_time_ns,
        event.cluster,
        job,
        node,
        world_size=world_size,
        is_start="starts" in fields,
        pid=_number(fields.get("pid", "")) or 0,
    )
    rank, local_rank = _number(fields.get("rank", "")), _number(fields.get("local_rank", ""))
    gpu = pci_of_bus_id(fields.get("bus", ""))
    if "moment" in fields and event.job:
        yield _with(placement, node=event.node, world_size=None, moment=fields["moment"])
    is_of_its_rank = event.rank == rank or event.pod  # a pod's rank may be its index
    if rank is not None and event.rank is not None and "bus" in fields and not is_of_its_rank:
        rank = event.rank if event.rank >= 0 else None
        placement = _with(placement, world_size=None)  # a smaller communicator counts its ranks anew
    if rank is not None or world_size:
        yield _with(placement, rank=rank, local_rank=local_rank, gpu=gpu)
    for local, number in enumerate(_NUMBER.findall(fields.get("ranks", ""))[:MAX_RANKS_A_LINE]):
        yield _with(placement, rank=int(number), local_rank=local)
    if fields.get("address") and (host := _host(event, fields)):
        yield _with(placement, node=host, address=fields["address"])
    if (node_index := _number(fields.get("node_index", ""))) is not None and node:
        yield _with(placement, node_index=node_index)
    yield from _hosts(placement, fields.get("nodes", ""))
    yield from _hosts(_with(placement, is_allocated=True), fields.get("allocated", ""))


def pci_of_bus_id(text: str) -> str:
    """The PCI address of a GPU by NCCL's bus id, hexadecimal without leading zeros: `61000` is `0000:61:00`.

    Its digits are those of `domain:bus:device.function` without the marks (NCCL src/misc/utils.cc, busIdToInt64).
    """
    try:
        number = int(text, 16) if len(text) <= 12 else -1
    except ValueError:
        return ""
    return "" if number < 0 else f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"


def _host(event: LogEvent, fields: Mapping[str, str]) -> str:
    """Who has the address: the node that the line names, else the log's; the host that NCCL names in a line that Ray's
    driver only passes on.
    """
    return fields.get("host", "") if _PASSED_ON_BY_RAY.match(event.text) else fields.get("node") or event.node


def _hosts(placement: RankPlacement, text: str) -> Iterator[RankPlacement]:
    try:
        hosts = expand(text)
    except ValueError:
        return
    yield from (_with(placement, node=host, world_size=None, is_listed=True) for host in hosts)


def _with(rank_placement: RankPlacement, **changes: object) -> RankPlacement:
    return msgspec.structs.replace(rank_placement, **changes)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None
