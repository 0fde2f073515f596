"""Labelled cases (JSONL, one a line) as plain files through `match` and `replay`: a first look, not yet a score."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ingest.collect.source import Sources
from rules.load import load
from rules.ruleset import Rule
from stream.pipeline import Pipeline, read_to_the_end, replay
from stream.scan import BatchScanner

LATENESS_NS = 5_000_000_000


def main(files: list[str]) -> None:
    """Print what was found in the cases of each file."""
    if not files:
        sys.exit("give the files with the cases: make corpus CASES='a.jsonl b.jsonl'")
    for name in files:
        cases = [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]
        with tempfile.TemporaryDirectory(prefix="epicenter-corpus-") as folder:
            print(name, json.dumps(look(write_cases(cases, Path(folder)))))


def write_cases(cases: list[dict[str, Any]], folder: Path) -> dict[Path, dict[str, Any]]:
    """Each case as a plain log file of its own."""
    written = {folder / f"{case['id']}.log": case for case in cases}
    for path, case in written.items():
        path.write_text("\n".join(case["lines"]) + "\n", "utf-8")
    return written


def look(cases: dict[Path, dict[str, Any]]) -> dict[str, int]:
    """How many cases say something, how often it is an expected class, and what the replay makes of it."""
    rules = load()
    scanner = BatchScanner(rules, "corpus")
    counts: Counter[str] = Counter()
    for path, case in cases.items():
        batches = list(read_to_the_end(Sources([str(path)], "corpus-host", follow=False)))
        scans = [scanner.scan(batch) for batch in batches]
        found = {name for scan in scans for match in scan.matches for name in class_and_parent(rules.of(match))}
        incidents = replay(Pipeline(rules, "corpus", LATENESS_NS), Sources([str(path)], "corpus-host", follow=False))
        counts["cases"] += 1
        counts["lines"] += sum(map(len, batches))
        counts["dead_letters"] += sum(scan.dead for scan in scans)
        counts["cases_with_a_match"] += bool(found)
        counts["cases_with_an_expected_class"] += bool(found & set(case["expect"]))
        counts["cases_with_an_incident"] += bool(incidents)
        roots = {name for one in incidents for name in class_and_parent(rules.by_id[one.root_cause.rule])}
        counts["primary_is_root_cause"] += case["primary"] in roots
        counts["benign_cases"] += not case["expect"]
        counts["benign_cases_with_an_incident"] += bool(incidents and not case["expect"])
    return dict(counts)


def class_and_parent(rule: Rule) -> tuple[str, str]:
    """A finer class counts as its parent too."""
    return rule.spec.failure_class, rule.spec.parent


if __name__ == "__main__":
    main(sys.argv[1:])
