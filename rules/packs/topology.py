"""Where nodes are in the cluster: racks, switches, rails, NVLink domains, storage. Read from an optional file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from epicenter.rules.documents.document import Path_, line_of, read_document
from epicenter.rules.placement.hostlist import expand

KINDS: Final = ("rack", "switch", "rail", "nvlink", "storage")
_KIND_BY_KEY: Final = {"rack": "rack", "switches": "switch", "rails": "rail", "nvlink": "nvlink", "storage": "storage"}


class _Open(BaseModel):
    """Unknown keys are allowed here and reported together with contradictions."""

    model_config = ConfigDict(extra="allow", frozen=True)


class NodesSpec(_Open):
    """Where some nodes are. `switches` are those that they are plugged into, without the switches above."""

    rack: str = ""
    switches: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()
    nvlink: str = ""
    storage: tuple[str, ...] = ()


class SwitchSpec(_Open):
    """A switch, and the one above it."""

    parent: str = ""


class TopologySpec(_Open):
    """The file: nodes by list (`node[0001-0064]`), switches by name."""

    nodes: dict[str, NodesSpec]
    switches: dict[str, SwitchSpec] = Field(default_factory=dict)


Names = frozenset[str]


@dataclass(frozen=True)
class Topology:
    """What each node belongs to: names by kind (one of `KINDS`) by node. An unlisted node belongs to nothing."""

    by_node: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)

    def of(self, node: str, kind: str) -> Names:
        """The racks, switches (including those above), rails, NVLink domains or storage targets of a node."""
        return self.by_node.get(node, {}).get(kind, frozenset())

    def shares(self, node: str, other: str, kind: str) -> bool:
        """Whether both nodes belong to the same rack, switch, …"""
        return bool(self.of(node, kind) & self.of(other, kind))

    def common(self, nodes: Iterable[str], kind: str) -> tuple[str, ...]:
        """What all of these nodes share: the suspects if they fail at once. Sorted."""
        sets = [self.of(node, kind) for node in nodes]
        return tuple(sorted(sets[0].intersection(*sets[1:]))) if sets else ()


NO_TOPOLOGY: Final = Topology()


def read_topology(file: Path, problems: list[str]) -> Topology:
    """The topology in a YAML or JSON file. Problems are appended to `problems`, each with its line."""
    spec, lines = read_document(file, TopologySpec, "topology", problems)
    return _Reader(file, spec, lines, problems).topology() if spec else NO_TOPOLOGY


class _Reader:
    def __init__(self, file: Path, spec: TopologySpec, lines: dict[Path_, int], problems: list[str]):
        self._file, self._spec, self._lines, self._problems = file, spec, lines, problems
        self._names_by_place: dict[tuple[str, str], tuple[str, Names]] = {}

    def topology(self) -> Topology:
        self._check_keys((), self._spec)
        for switch, its_spec in self._spec.switches.items():
            self._check_keys(("switches", switch), its_spec)
            self._check_switch(switch)
        for hosts, spec in self._spec.nodes.items():
            self._check_keys(("nodes", hosts), spec)
            for node in self._expanded(hosts):
                for key, names in self._facts(hosts, spec):
                    self._record(node, key, hosts, names)
        by_node: dict[str, dict[str, Names]] = {}
        for (node, key), (_, names) in self._names_by_place.items():
            by_node.setdefault(node, {})[_KIND_BY_KEY[key]] = names
        return Topology(by_node)

    def _expanded(self, hosts: str) -> tuple[str, ...]:
        try:
            return expand(hosts)
        except ValueError as error:
            self._refuse(("nodes", hosts), f"nodes: {error}")
            return ()

    def _facts(self, hosts: str, spec: NodesSpec) -> Iterator[tuple[str, Names]]:
        for key in _KIND_BY_KEY:
            value = getattr(spec, key)
            names = (value,) if isinstance(value, str) else value
            if any(names):
                yield key, frozenset(names)
        for number, switch in enumerate(spec.switches):
            if self._spec.switches and switch not in self._spec.switches:
                where = ("nodes", hosts, "switches", number)
                self._refuse(where, f"switch {switch} is not among `switches`: add it there, or correct its name")

    def _record(self, node: str, key: str, hosts: str, names: Names) -> None:
        before = self._names_by_place.get((node, key))
        if before and before[0] != hosts:
            line = line_of(self._lines, ("nodes", before[0], key))
            self._refuse(
                ("nodes", hosts, key),
                f"{node}: {key} {_list(names)}, but line {line} has {_list(before[1])}: write each node's {key} once",
            )
            return
        above = (
            frozenset(switch for own_switch in names for switch in self._above(own_switch))
            if key == "switches"
            else frozenset()
        )
        self._names_by_place[node, key] = hosts, names | above

    def _check_keys(self, where: Path_, spec: BaseModel) -> None:
        known = ", ".join(type(spec).model_fields)
        for key in spec.model_extra or ():
            self._refuse((*where, key), f"{'.'.join(map(str, (*where, key)))}: no such key: write one of {known}")

    def _check_switch(self, switch: str) -> None:
        parent = self._spec.switches[switch].parent
        where = ("switches", switch, "parent")
        if parent and parent not in self._spec.switches:
            self._refuse(where, f"{switch}: parent {parent} is not among `switches`: add it there, or correct its name")
        if switch in self._above(switch):
            self._refuse(
                where, f"{switch} is its own ancestor: its chain of parents must end at a switch without a parent"
            )

    def _above(self, switch: str) -> list[str]:
        """The switches above; a cycle is followed once."""
        above: list[str] = []
        spec = self._spec.switches.get(switch)
        while spec and spec.parent and spec.parent not in above:
            above.append(spec.parent)
            spec = self._spec.switches.get(spec.parent)
        return above

    def _refuse(self, where: Path_, what: str) -> None:
        problem = f"{self._file}:{line_of(self._lines, where)}: {what}"
        if problem not in self._problems:
            self._problems.append(problem)


def _list(names: Names) -> str:
    return ", ".join(sorted(names))
