"""The words that rules may use: failure classes with what is known of them, and actions (vocabulary.yaml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

GPU_FAMILIES: Final = ("nvidia", "amd", "cuda")

_XID = re.compile(r"xid-\d{1,3}", re.ASCII)
_FILE = Path(__file__).with_name("vocabulary.yaml")


@dataclass(frozen=True)
class Vocabulary:
    """Classes, aliases and actions. A name in `family_by_class` may end in `*`, which matches any ending.

    `latent` classes stay although the job trains on. `of_process` are what the kernel reports about one process,
    `ends_its_process` what no rank survives.
    `intended` are ends of a job that its user wanted, or the scheduler as configured.
    """

    family_by_class: dict[str, str]
    parents: dict[str, str]
    aliases: dict[str, str]
    actions: dict[str, str]
    latent: frozenset[str]
    ends_its_process: frozenset[str]
    of_process: frozenset[str]
    intended: frozenset[str]

    def knows(self, failure_class: str) -> bool:
        """Whether the class, an alias, or a template such as `xid-{code}` belongs to the vocabulary."""
        return self.family(failure_class) != ""

    def family(self, failure_class: str) -> str:
        """The family of a class; empty when it is unknown."""
        name = self.aliases.get(failure_class, failure_class)
        any_code = name.rpartition("-")[0] + "-*"
        return self.family_by_class.get(name) or self.family_by_class.get(any_code, "")

    def is_of_gpu(self, failure_class: str) -> bool:
        """Whether the PCI address in a line of this class is that of a GPU, not of a network card, switch or drive."""
        return self.family(failure_class) in GPU_FAMILIES and not failure_class.startswith("sxid-")

    def is_latent(self, failure_class: str) -> bool:
        """Whether a failure of this class stays although the job trains on."""
        return self.aliases.get(failure_class, failure_class) in self.latent

    def bounded(self, failure_class: str) -> str:
        """The class by one of a bounded number of names: `sxid-*` for any SXid, `other` for an unknown class."""
        name = self.aliases.get(failure_class, failure_class)
        if name in self.family_by_class or _XID.fullmatch(name):
            return name
        any_code = f"{name.rpartition('-')[0]}-*"
        return any_code if any_code in self.family_by_class else "other"

    def parent(self, failure_class: str) -> str:
        """The broader class of this one; empty if it has none."""
        return self.parents.get(self.aliases.get(failure_class, failure_class), "")

    def counts_as(self, failure_class: str) -> set[str]:
        """The class under its canonical name, and its parent: the labels that are correct for it."""
        name = self.aliases.get(failure_class, failure_class)
        return {name, self.parents.get(name, name)}


@cache
def vocabulary() -> Vocabulary:
    """The shipped vocabulary."""
    content = yaml.safe_load(_FILE.read_text("utf-8"))
    family_by_class = {name: family for family, names in content["families"].items() for name in names}
    return Vocabulary(
        family_by_class,
        content["parents"],
        content["aliases"],
        content["actions"],
        frozenset(content["latent"]),
        frozenset(content["ends-its-process"]),
        frozenset(content["of-process"]),
        frozenset(content["intended"]),
    )
