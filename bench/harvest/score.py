"""How many messages of a producer are named, and how many of those that were judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from bench.harvest.labels import Label
from bench.harvest.matching import Named
from bench.harvest.template import Level, Template

Z_95 = 1.96


class Share(NamedTuple):
    """`hits` of `total`."""

    hits: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share; everything without a total."""
        if not self.total:
            return 0.0, 1.0
        share, n = self.hits / self.total, self.total
        middle = (share + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
        half = Z_95 * sqrt(share * (1 - share) / n + Z_95**2 / (4 * n * n)) / (1 + Z_95**2 / n)
        return max(0.0, middle - half), min(1.0, middle + half)


class Row(NamedTuple):
    """The figures of a producer's messages of one level. `noise_alarmed`: noise that a rule of an error names."""

    producer: str
    version: str
    level: Level
    templates: int
    specific: int
    shape: int
    fatal_named: Share
    fatal_specific: Share
    noise_alarmed: Share


def row_of(
    producer: str,
    version: str,
    level: Level,
    templates: Sequence[Template],
    named: Mapping[str, Named],
    labels: Mapping[str, Label],
) -> Row:
    """The figures of the messages of this level."""
    ids = [template.id for template in templates if template.level == level]
    how = [named[name].how for name in ids]
    fatal = [named[name].how for name in _judged(ids, labels, "fatal")]
    noise = [named[name].is_error for name in _judged(ids, labels, "noise")]
    return Row(
        producer,
        version,
        level,
        len(ids),
        how.count("specific"),
        how.count("shape"),
        Share(len(fatal) - fatal.count("unnamed"), len(fatal)),
        Share(fatal.count("specific"), len(fatal)),
        Share(sum(noise), len(noise)),
    )


def _judged(ids: Iterable[str], labels: Mapping[str, Label], verdict: str) -> list[str]:
    return [name for name in ids if name in labels and labels[name].verdict == verdict]
