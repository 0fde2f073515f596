"""The incident list's query string, parsed and built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from epicenter.sinks.clickhouse.reading import IncidentFilter

MAX_LENGTH: Final = 200
MAX_TERMS: Final = 8
PER_PAGE: Final = 50
LAST_PAGE: Final = 1_000
_FIELDS: Final = {"node": "node", "job": "job", "class": "failure_class", "cluster": "cluster"}


class ListQuery(msgspec.Struct, frozen=True):
    """A query of the incident list; `q` is free text that may contain `node:x`, `job:x`, `class:x` and `cluster:x`."""

    q: str = ""
    status: str = ""
    failure_class: str = msgspec.field(default="", name="class")
    cluster: str = ""
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> ListQuery:
        """The query of an address; invalid parts are ignored."""
        page = parameters.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 5 else 1
        q, status, failure_class, cluster = (
            parameters.get(name, "").strip()[:MAX_LENGTH] for name in ("q", "status", "class", "cluster")
        )
        return cls(q, status, failure_class, cluster, min(max(number, 1), LAST_PAGE))

    @property
    def is_narrowed(self) -> bool:
        """Whether any filter is set."""
        return bool(self.q or self.status or self.failure_class or self.cluster)

    @property
    def offset(self) -> int:
        """The number of incidents before this page."""
        return (self.page - 1) * PER_PAGE

    def store_filter(self) -> IncidentFilter:
        """The filter for the store."""
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
        """The list's address with `changed` applied; empty parts are left out."""
        parts = {**msgspec.to_builtins(self), "page": 1, **{name.rstrip("_"): value for name, value in changed.items()}}
        parameters = {name: value for name, value in parts.items() if value and not (name == "page" and value == 1)}
        return "/?" + urlencode(parameters, errors="backslashreplace") if parameters else "/"
