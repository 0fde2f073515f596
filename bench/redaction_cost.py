"""What redaction adds to scanning: the same batches with and without it, `python -m bench.redaction_cost`.

Every line has a hit, because only what is kept is looked at: a share of `HITS` of a stream's lines pays this.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import process_time
from typing import Final

from bench.redaction_shapes import shapes
from bench.stream_input import HITS
from ingest.batch import Batch
from rules.load import load
from rules.redact import Redactor
from rules.ruleset import RuleSet
from rules.secret_patterns import load_redactor
from stream.scan import BatchScanner

RUNS: Final = 7
LINES_A_BATCH: Final = 2_000
A_TIME_NS: Final = 1_767_225_600_000_000_000


def main() -> None:
    """A row for lines as the rules' examples have them, and for some with secrets."""
    gc.disable()
    rules, redactor = load(), load_redactor()
    examples = [line for rule in rules.rules if rule.spec.examples for line in rule.spec.examples.matches]
    secret = [f"torch.OutOfMemoryError: CUDA out of memory. {one.line}" for one in shapes(1) if "\n" not in one.line]
    for name, lines in (("examples of the rules", examples), ("lines with a secret", secret)):
        without_us, with_us = costs_us(rules, (None, redactor), lines)
        more_us = with_us - without_us
        print(
            f"{name:<22} {without_us:6.1f} us a line, {with_us:6.1f} with redaction: {with_us / without_us - 1:+.1%};"
            f" {more_us * HITS * 1000:.0f} ns for each line of a stream with {HITS:.1%} hits"
        )


def costs_us(rules: RuleSet, redactors: Sequence[Redactor | None], lines: list[str]) -> list[float]:
    """Processor time of a line with each of these, the best of some runs that take turns."""
    repeated = (lines * (LINES_A_BATCH // len(lines) + 1))[:LINES_A_BATCH]
    values = [f"2026-03-02T09:00:{number % 60:02}Z {line}".encode() for number, line in enumerate(repeated)]
    batch = Batch("bench", values, [None] * len(values), [A_TIME_NS] * len(values), range(len(values)))
    scanners = [BatchScanner(rules, "bench", redactor=redactor) for redactor in redactors]
    rounds = [[_time_s(scanner, batch) for scanner in scanners] for _ in range(RUNS)]
    return [min(times_s) / len(values) * 1e6 for times_s in zip(*rounds, strict=True)]


def _time_s(scanner: BatchScanner, batch: Batch) -> float:
    gc.collect()
    begun_s = process_time()
    scanner.scan(batch)
    return process_time() - begun_s


if __name__ == "__main__":
    main()
