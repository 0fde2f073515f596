"""What the address of the list asks for, and the address of what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from epicenter.sinks.clickhouse.reading import IncidentFilter

LONGEST: Final = 200
MAX_TERMS: Final = 8
PER_PAGE: Final = 50
LAST_PAGE: Final = 1_000
_FIELDS: Final = {"node": "node", "job": "job", "class": "failure_class", "cluster": "cluster"}


class ListQuery(msgspec.Struct, frozen=True):
    """The parts of the address; `q` is free text in which `node:x`, `job:x`, `class:x` and `cluster:x` may stand."""

    q: str = ""
    status: str = ""
    failure_class: str = msgspec.field(default="", name="class")
    cluster: str = ""
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ListQuery:
        """From an address; what makes no sense is taken as not said."""
        page = given.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 5 else 1
        q, status, failure_class, cluster = (
            given.get(name, "").strip()[:LONGEST] for name in ("q", "status", "class", "cluster")
        )
        return cls(q, status, failure_class, cluster, min(max(number, 1), LAST_PAGE))

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.q or self.status or self.failure_class or self.cluster)

    @property
    def offset(self) -> int:
        """How many incidents come before this page."""
        return (self.page - 1) * PER_PAGE

    def wanted(self) -> IncidentFilter:
        """The same for the store."""
        fields: dict[str, Any] = {"status": self.status, "failure_class": self.failure_class, "cluster": self.cluster}
        terms: list[str] = []
        for word in self.q.split():
            name, colon, value = word.partition(":")
            if colon and value and name.lower() in _FIELDS:
                fields[_FIELDS[name.lower()]] = value
            else:
                terms.append(word.lower())
        return IncidentFilter(**fields, terms=terms[:MAX_TERMS])

    def address(self, **changed: object) -> str:
        """The address of the list with some parts changed; parts that say nothing are left out."""
        parts = {**msgspec.to_builtins(self), "page": 1, **{name.rstrip("_"): value for name, value in changed.items()}}
        said = {name: value for name, value in parts.items() if value and not (name == "page" and value == 1)}
        return "/?" + urlencode(said, errors="backslashreplace") if said else "/"
