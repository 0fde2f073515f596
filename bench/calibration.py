"""Whether a confidence is a probability, on simulated failures in messy clusters, some without part of their logs.

`python -m bench.calibration` simulates every kind of fault and replays it. It prints how many faults have no incident,
how many first answers are right in ten bands of confidence, and the Brier score. `--diagram`: docs/reliability.svg.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.cause_cases import WeighedCase, weighed_cases
from bench.reliability import Answer, bands, summary, svg

DIAGRAM: Final = Path(__file__).parents[1] / "docs" / "reliability.svg"
SEED: Final = 1000
"""Far from the seeds of `bench.fit_cause_model`."""


def main() -> None:
    """Simulate, replay, and print the table."""
    parser = argparse.ArgumentParser(prog="bench.calibration", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rounds", type=int, default=6, help="times each kind of fault is simulated")
    parser.add_argument("--diagram", action="store_true", help=f"draw docs/{DIAGRAM.name}")
    options = parser.parse_args()
    cases = list(weighed_cases(options.seed, options.rounds))
    print("\n".join(report(cases)))
    if options.diagram:
        DIAGRAM.write_text(svg(bands(answers_of(cases))), "utf-8")


def answers_of(cases: Sequence[WeighedCase]) -> list[Answer]:
    """The confidence of each first answer, and whether it is right; a fault without an incident has no answer."""
    return [(case.confidence, case.is_right) for case in cases if case.has_incident]


def report(cases: Sequence[WeighedCase]) -> Iterator[str]:
    """How many faults have an incident and a right answer, and how reliable the confidence is."""
    answers = answers_of(cases)
    right = sum(is_right for _, is_right in answers)
    yield f"{len(cases)} faults: {len(cases) - len(answers)} without an incident, {right} with a right first answer"
    yield from summary(answers)


if __name__ == "__main__":
    main()
