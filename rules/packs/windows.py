"""The `when` block of a rule in YAML: a window over what other rules find."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from epicenter.rules.documents.strict import DurationNs, Strict
from epicenter.rules.model.times import NS_PER_S

Kind = Literal[
    "count",
    "distinct",
    "sequence",
    "absence",
    "rate",
    "flat-line",
    "first-seen",
    "threshold",
    "slope",
    "spike",
    "tally",
]

MAX_ENTRIES: Final = 1000
"""At most this many inputs of one group in a window."""

MAX_NS: Final = 31 * 86_400 * NS_PER_S

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "count": ("at_least",),
    "distinct": ("field", "at_least"),
    "sequence": (),
    "absence": ("without",),
    "rate": ("times", "at_least"),
    "flat-line": (),
    "first-seen": ("field",),
    "threshold": ("field",),
    "slope": ("field", "by", "samples"),
    "spike": ("field", "by", "samples"),
    "tally": (),
}
_MAY_HAVE: Final[dict[str, tuple[str, ...]]] = {
    "count": ("window", "gap"),
    "distinct": ("window", "gap"),
    "sequence": ("window", "gap", "ordered"),
    "absence": ("side", "at_least"),
    "rate": ("baseline",),
    "flat-line": ("at_least",),
    "first-seen": ("learn",),
    "threshold": ("minus", "above", "below", "at_least"),
    "slope": ("minus",),
    "spike": ("minus", "newest"),
    "tally": ("at_least",),
}
_OF_ALL: Final = ("kind", "of", "within", "group_by", "where", "again_after", "text")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")


def _not_removed(given: Any) -> Any:
    if given == "n-of-m":
        raise ValueError(
            "n-of-m was removed: write `sequence` with `ordered: false` for each set of names that is enough"
        )
    return given


def _names(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


def _conditions(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {
        str(field): tuple(map(str, wanted)) if isinstance(wanted, list) else (str(wanted),)
        for field, wanted in given.items()
    }


def _share(given: Any) -> float:
    found = _PERCENT.fullmatch(str(given))
    if not found or float(found[1]) <= 0:
        raise ValueError(f"{given!r} is not a share: write a number and %, such as 20%")
    return float(found[1]) / 100


Names = Annotated[tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str | list[str])]
Count = Annotated[int, Field(ge=1, le=MAX_ENTRIES)]


class WhenSpec(Strict):
    """The condition under which a rule makes a signal from what other rules find. `docs/rules.md` explains each key.

    `of` and `without` name rules (`nic.link_down`), classes (`nic-link-down`, `xid-*`), or `step`: a job completed a
    training step. Times are event times; `within` is the longest time between inputs of one window.
    """

    kind: Annotated[Kind, BeforeValidator(_not_removed, json_schema_input_type=Kind)]
    of: Annotated[Names, Field(min_length=1)]
    within: DurationNs | None = None
    group_by: Names = ()
    where: Annotated[
        dict[str, tuple[str, ...]], BeforeValidator(_conditions, json_schema_input_type=dict[str, Any])
    ] = Field(default_factory=dict)
    again_after: DurationNs | None = None
    text: str = ""
    window: Literal["sliding", "tumbling", "session"] = "sliding"
    gap: DurationNs | None = None
    at_least: Count | None = None
    ordered: bool = True
    without: Names = ()
    side: Literal["after", "before"] = "after"
    times: Annotated[float, Field(gt=1)] | None = None
    baseline: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = 6
    field: Names = ()
    minus: Names = ()
    learn: DurationNs = 0
    above: float | None = None
    below: float | None = None
    by: Annotated[float | None, BeforeValidator(_share, json_schema_input_type=str)] = None
    samples: Annotated[int | None, Field(ge=1, le=MAX_ENTRIES // 4)] = None
    newest: Annotated[int, Field(ge=1, le=MAX_ENTRIES // 4)] = 1

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> WhenSpec:
        if complaints := list(self._complaints()):
            raise ValueError("; ".join(complaints))
        return self

    def _complaints(self) -> Iterator[str]:
        if self.within is None:
            yield "`within` is missing: every window has a bound, such as `within: 10m`"
        elif not 0 < self.within <= MAX_NS:
            yield "`within` must be longer than 0s and at most 31d"
        for name in _NEEDS[self.kind]:
            if name not in self.model_fields_set:
                yield f"`{name}` is missing: {self.kind} needs it"
        allowed = {*_OF_ALL, *_NEEDS[self.kind], *_MAY_HAVE[self.kind]}
        for name in sorted(self.model_fields_set - allowed):
            yield f"`{name}` does not apply to {self.kind}: leave it out"
        yield from self._complaints_about_sizes()

    def _complaints_about_sizes(self) -> Iterator[str]:
        if (self.window == "session") != (self.gap is not None):
            yield "`gap` and `window: session` go together: `gap` is the pause that ends a session"
        if self.gap is not None and not 0 < self.gap <= self.length_ns:
            yield "`gap` must be longer than 0s and at most `within`"
        if self.kind == "threshold" and (self.above is None) == (self.below is None):
            yield "write either `above` or `below`"
        if self.minus and len(self.minus) != len(self.field):
            yield "`minus` must name one field for each of `field`"
        if self.kind == "slope" and self.samples and self.samples < 3:
            yield "`samples` must be at least 3: fewer show no trend"

    @property
    def length_ns(self) -> int:
        """The window's length."""
        return self.within or 0

    @property
    def least(self) -> int:
        """How many inputs are enough."""
        return self.at_least or 1

    @property
    def quiet_ns(self) -> int:
        """How long after a signal the same group makes no other: `again_after`, by default the window's length."""
        if self.again_after is not None:
            return self.again_after
        return 0 if self.kind in ("first-seen", "tally") else self.length_ns
