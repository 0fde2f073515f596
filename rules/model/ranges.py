"""Rank numbers in short form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 200


def ranges(ranks: Iterable[int]) -> str:
    """Numbers as `0-62,64`; very long lists are cut."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH].rpartition(',')[0]},…"


def rank_list(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0–15,18`."""
    text = ranges(ranks).replace("-", "–")
    return f"rank {text}" if text.isdigit() else f"ranks {text}"
