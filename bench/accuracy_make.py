"""Which folders `make accuracy` simulates: failures of every kind on 2 to 512 nodes, and healthy hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Made:
    name: str

    def write(self, folder: Path) -> None: ...


def made_cases(seed: int, faults: int, hours: int) -> list[Any]:
    return []
