"""How long a job has trained in its newest attempt."""

from __future__ import annotations

from typing import Final, NamedTuple


class TrainingSpan(NamedTuple):
    """From when until when a job trained in its newest attempt, its newest step left out: ns, 0 if unknown.

    `earlier_ns` is the last step of the attempt before; what comes between that and `since_ns` may be of either.
    """

    since_ns: int
    until_ns: int
    earlier_ns: int = 0


NOT_TRAINED: Final = TrainingSpan(0, 0)
"""Of a job that is not known to have trained."""
