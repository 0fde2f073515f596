"""No bench takes more work than bench/work.yaml records, and none more than twice the work for twice the input."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.work_benches import SHORT_BENCHES


@pytest.fixture(scope="module")
def mistakes() -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, "-m", "bench.work", "--json"], stdout=subprocess.PIPE, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("bench", [bench.name for bench in SHORT_BENCHES])
def test_a_bench_takes_no_more_work_than_recorded(bench: str, mistakes: dict[str, list[str]]) -> None:
    assert not mistakes[bench]
