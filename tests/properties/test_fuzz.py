"""The short form of `make fuzz`: the same broken records in every run."""

from __future__ import annotations

from pathlib import Path

from bench.fuzz import run_share

RECORDS = 20_000


def test_broken_records_break_nothing(tmp_path: Path) -> None:
    report = run_share(seed=20261121, records=RECORDS, first=0, step=1, folder=str(tmp_path))
    assert report.failures == []
    assert report.records >= RECORDS
    assert 0 < report.dead < report.matched < report.records
