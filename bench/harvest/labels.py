"""What people judged of messages: files with ids only, since the texts belong to others."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal, NamedTuple, get_args

LABELS = Path(__file__).with_name("labels")
Verdict = Literal["fatal", "degraded", "noise"]
FIELDS = ("id", "verdict_a", "class_a", "verdict_b", "class_b")


class Label(NamedTuple):
    """What two readers say of a message: can it kill or stall a job, a node or a server? Empty where one has not."""

    verdict_a: str
    class_a: str = ""
    verdict_b: str = ""
    class_b: str = ""

    @property
    def verdict(self) -> str:
        """What both say, or the one who read it; empty if they disagree."""
        read = {verdict for verdict in (self.verdict_a, self.verdict_b) if verdict}
        return read.pop() if len(read) == 1 else ""


def read_labels(producer: str, folder: Path = LABELS) -> dict[str, Label]:
    """The labels of a producer's messages by id; empty if it has none.

    Raises:
        ValueError: a verdict is none of the three.
    """
    file = folder / f"{producer}.tsv"
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    labels = {row["id"]: Label(*(row[field] or "" for field in FIELDS[1:])) for row in rows}
    for name, label in labels.items():
        for verdict in (label.verdict_a, label.verdict_b):
            if verdict and verdict not in get_args(Verdict):
                raise ValueError(f"{file}: {name}: {verdict!r}: write fatal, degraded or noise")
    return labels
