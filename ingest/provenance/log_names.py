"""How a site names its log files: patterns such as `{job}-*.log`, `{job}/{node}.out` and `kern-{node}.log`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any, Final, Self

import msgspec

PLACES: Final = {"{job}": r"(?P<job>[^/]+?)", "{node}": r"(?P<node>[^/]+?)", "{rank}": r"(?P<rank>\d{1,7})"}
_ANY: Final = "*"
_PART = re.compile(r"(\{[^{}]*\}|\*)")
ROTATION: Final = r"(?:\.\d{1,6}|[-.](?:19|20)\d{6}(?:-\d{6})?)"
"""What logrotate, with `dateext` too, and kubelet append to the name of a log that they put aside."""

PACKED: Final = r"\.(?:gz|xz|zst|bz2|lz4|zip)"


class LogName(msgspec.Struct, frozen=True):
    """A pattern for the last parts of a path: `*` is any text within a name, `{job}` the job's name there."""

    pattern: str

    @classmethod
    def of(cls, pattern: str) -> Self:
        """The pattern, checked.

        Raises:
            ValueError: it can't name anything; what to write instead.
        """
        places = [part for part in _PART.findall(pattern) if part != _ANY]
        if pattern.startswith("/"):
            raise ValueError(f"{pattern}: write only the last parts of the path, without / at the beginning")
        if unknown := [place for place in places if place not in PLACES]:
            raise ValueError(f"{pattern}: unknown place {unknown[0]}: write {', '.join(PLACES)} or *")
        if len(set(places)) != len(places) or not places:
            raise ValueError(f"{pattern}: write one or more of {', '.join(PLACES)}, each at most once")
        return cls(pattern)

    def read(self, file: Path) -> dict[str, Any]:
        """The `job`, `node` and `rank` (an integer) that the path names; empty if it is not of this form."""
        pattern = "".join(PLACES.get(part) or ("[^/]*" if part == _ANY else re.escape(part)) for part in self._parts())
        found = re.fullmatch(f"(?:.*/)?{pattern}{ROTATION}?(?:{PACKED})?", str(file))
        named: dict[str, Any] = found.groupdict() if found else {}
        return named | {"rank": int(named["rank"])} if "rank" in named else named

    def files_of(self, job: str, folder: Path) -> Iterator[Path]:
        """The files in the folder that the pattern says are this job's; none if it names no job."""
        if "{job}" not in self.pattern or not job or "/" in job:
            return
        globs = {"{job}": escape(job), "{node}": _ANY, "{rank}": _ANY, _ANY: _ANY}
        for file in sorted(folder.glob("".join(globs.get(part) or escape(part) for part in self._parts()))):
            if file.is_file() and self.read(file).get("job") == job:
                yield file

    def _parts(self) -> list[str]:
        return _PART.split(self.pattern)


def named_by(patterns: tuple[LogName, ...], file: Path) -> dict[str, Any]:
    """What the first pattern of the path's form finds in it; empty if there is none."""
    return next(filter(None, (pattern.read(file) for pattern in patterns)), {})
