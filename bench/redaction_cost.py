"""What redaction adds to scanning, `python -m bench.redaction_cost`: timed alone, on the matches of a scan.

Every line has a hit, because only stored text is redacted: a share of `HITS` of a stream's lines costs this.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time
from typing import Any, Final

from bench.redaction_shapes import shapes
from bench.stream_input import HITS
from epicenter.ingest.batch.batch import Batch
from epicenter.rules.packs.load import load
from epicenter.rules.redact.load import load_redactor
from epicenter.stream.scan.redaction import without_secrets
from epicenter.stream.scan.scan import BatchScanner

RUNS: Final = 9
A_TIME_NS: Final = 1_767_225_600_000_000_000


def main() -> None:
    """A row for the rules' examples, and one for lines with secrets."""
    gc.disable()
    rules, redactor = load(), load_redactor()
    examples = [line for rule in rules.rules if rule.spec.examples for line in rule.spec.examples.matches]
    secret = [
        f"torch.OutOfMemoryError: CUDA out of memory. {shape.line}" for shape in shapes(1) if "\n" not in shape.line
    ]
    for name, lines in (("examples of the rules", examples), ("lines with a secret", secret)):
        scanner, batch = BatchScanner(rules, "bench"), _batch(lines)
        matches = scanner.scan(batch).matches
        scan_us = best_s(lambda scanner=scanner, batch=batch: scanner.scan(batch)) / len(lines) * 1e6
        redact_us = best_s(lambda matches=matches: without_secrets(redactor, matches)) / len(lines) * 1e6
        print(
            f"{name:<22} scan {scan_us:6.1f} us a line, redaction {redact_us:5.1f} us: {redact_us / scan_us:+.1%};"
            f" {redact_us * HITS * 1000:.1f} ns for each line of a stream with {HITS:.1%} hits"
        )


def best_s(work: Callable[[], Any]) -> float:
    """Processor time of the fastest of some runs."""
    times_s = []
    for _ in range(RUNS):
        begun_s = process_time()
        work()
        times_s.append(process_time() - begun_s)
    return min(times_s)


def _batch(lines: list[str]) -> Batch:
    values = [f"2026-03-02T09:00:00Z {line}".encode() for line in lines]
    return Batch("bench", values, [None] * len(values), [A_TIME_NS] * len(values), range(len(values)))


if __name__ == "__main__":
    main()
