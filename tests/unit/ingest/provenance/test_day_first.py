"""Dates with slashes: the day or the month first."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.provenance.day_first import day_first
from epicenter.ingest.provenance.first_lines import with_first_lines
from epicenter.rules.model.records import Origin
from tests.support.logs import LATER_NS, START_NS, at

STEP = "2: 02/03/2026 09:00:05 INFO step 10\n"


@pytest.mark.parametrize(
    ("text", "is_first"),
    [
        pytest.param(STEP, None, id="unknown"),
        pytest.param(STEP + "13/03/2026 09:00:05 x\n", True, id="no-month"),
        pytest.param(STEP + "02/13/2026 09:00:05 x\n", False, id="no-day"),
        pytest.param(STEP + "[2026-03-02 09:00:06] n1:412:500 [0] init.cc:9 NCCL WARN x\n", True, id="nccl"),
        pytest.param(STEP + "0: W0302 09:00:06.250000 412 torch/distributed/run.py:9] x\n", True, id="torch"),
        pytest.param(STEP + "(APIServer pid=9) INFO 03-02 09:00:06 [loggers.py:127] x\n", True, id="vllm"),
        pytest.param(STEP + "[rank0]:[E302 09:00:06.250000001 x.cpp:683] x\n", None, id="one-digit-month"),
        pytest.param(STEP + "[2026-02-03 09:00:06] n1:412:500 [0] init.cc:9 NCCL WARN x\n", False, id="month-first"),
        pytest.param("the release of 13/03/2026\n", None, id="no-time"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_file_shows_whether_its_days_come_first(text: str, is_first: bool | None) -> None:
    assert day_first(text) is is_first


def test_the_time_of_the_first_lines_is_read_that_way() -> None:
    text = STEP + "0: W0302 09:00:06.250000 412 torch/distributed/run.py:9] x\n"
    assert with_first_lines(Origin(job="7"), text, START_NS).head_time_ns == at(5)


@pytest.mark.parametrize(
    "evidence", ["13/03/2026 09:00:05 x\n", STEP + "[2026-03-02 09:00:06] n1:412:500 [0] x.cc:9 x\n"]
)
def test_a_file_that_does_not_show_it_writes_dates_like_the_others(tmp_path: Path, evidence: str) -> None:
    for name, text in (("a.log", STEP), ("b.log", evidence), ("c.log", STEP)):
        (tmp_path / name).write_text(text)
    sources = Sources([str(tmp_path)], "", follow=False)
    batches = [batch for source in sources.all() if (batch := source.read(LATER_NS))]
    assert [batch.origin.is_day_first for batch in batches if batch.origin] == [True, True, True]
    sources.close()
