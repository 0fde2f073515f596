"""Numbers of ranks, told shortly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LONGEST: Final = 200


def ranges(ranks: Iterable[int]) -> str:
    """Numbers as `0-62,64`; of very many ranges the first ones."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(',')[0]},…"
