"""A site's names of log files: what they say, and which files are a job's."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.collect.jobs import jobs_at
from epicenter.ingest.provenance.log_names import LogName
from epicenter.ingest.provenance.path import origin_of
from epicenter.rules.errors import InputError


@pytest.mark.parametrize(
    ("pattern", "file", "named"),
    [
        ("{job}-*.log", "4243-llama.log", {"job": "4243"}),
        ("{job}-*.log", "a/b/4243-llama.log.1", {"job": "4243"}),
        ("{job}-*.log", "4243-llama.log-20260302.gz", {"job": "4243"}),
        ("{job}-*.log", "4243.log", {}),
        ("runs/{job}/{node}-r{rank}.txt", "runs/nightly/c123-r17.txt", {"job": "nightly", "node": "c123", "rank": 17}),
        ("runs/{job}/{node}-r{rank}.txt", "runs/c123-r17.txt", {}),
        ("kern-{node}.log", "kern-c123.log", {"node": "c123"}),
        ("kern-{node}.log", "xkern-c123.log", {}),
        ("{job}+[x].log", "9+[x].log", {"job": "9"}),
    ],
)
def test_a_pattern_reads_its_places_from_the_end_of_a_path(pattern: str, file: str, named: dict[str, object]) -> None:
    assert LogName.of(pattern).read(Path(file)) == named


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("/var/{job}.log", "write only the last parts of the path"),
        ("{host}.log", "unknown place {host}: write {job}, {node}, {rank} or *"),
        ("{job}-{job}.log", "each at most once"),
        ("*.log", "write one or more of {job}, {node}, {rank}"),
    ],
)
def test_a_pattern_that_can_name_nothing_is_refused_with_advice(pattern: str, advice: str) -> None:
    with pytest.raises(ValueError, match="write") as refused:
        LogName.of(pattern)
    assert advice in str(refused.value)


def test_a_pattern_overrides_the_usual_forms_of_names() -> None:
    names = (LogName.of("kern-{node}.log"), LogName.of("{job}/{node}/messages"))
    kernel = origin_of(Path("kern-c123.log"), Path("kern-c123.log"), names)
    assert (kernel.node, kernel.job, kernel.is_system) == ("c123", "", True)
    worker = origin_of(Path("nightly/c7/messages"), Path("nightly"), names)
    assert (worker.node, worker.job, worker.is_system, worker.is_of_a_job) == ("c7", "nightly", False, False)


@pytest.mark.parametrize("argument", ["/no/such.log", "no/such.log", "../such"])
def test_a_path_that_is_not_there_is_no_id(argument: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        jobs_at(argument, tmp_path, (LogName.of("{job}-*.log"),))


def test_an_id_finds_the_files_that_the_patterns_name(tmp_path: Path) -> None:
    for name in ("nightly/c1.txt", "nightly/c2.txt", "nightly-2/c1.txt", "other/c1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hello\n")
    (found,) = jobs_at("nightly", tmp_path, (LogName.of("{job}/{node}.txt"),))
    assert [str(file.relative_to(tmp_path)) for file in found.files] == ["nightly/c1.txt", "nightly/c2.txt"]
