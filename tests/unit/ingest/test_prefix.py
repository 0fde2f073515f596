"""Prefixes peel off, however they nest."""

from __future__ import annotations

import pytest

from ingest.parse.prefix import Peeled, peel

BODY = "Traceback (most recent call last):"
SHAPES = [
    pytest.param("", Peeled(BODY), id="none"),
    pytest.param("[rank12]: ", Peeled(BODY, rank=12), id="excepthook"),
    pytest.param(" 3: ", Peeled(BODY, rank=3), id="srun-label"),
    pytest.param("[1,7]<stderr>: ", Peeled(BODY, rank=7), id="open-mpi"),
    pytest.param("[default5]:", Peeled(BODY), id="torchrun-tee"),
    pytest.param("(RayTrainWorker pid=4123, ip=10.1.0.9) ", Peeled(BODY), id="ray"),
    pytest.param("2026-03-02T09:00:05.1Z stderr F ", Peeled(BODY), id="cri"),
    pytest.param("Mar  2 09:00:05 n1 python[412]: ", Peeled(BODY, host="n1"), id="syslog"),
    pytest.param("<30>1 2026-03-02T09:00:05Z n1 python 412 - - ", Peeled(BODY, host="n1"), id="rfc-5424"),
    pytest.param("Mar  2 09:00:05 n1 kernel: [ 8005.250000] ", Peeled(BODY, "n1", None, True), id="kern-log"),
    pytest.param("[ 8005.250000][ T1234] ", Peeled(BODY, is_kernel=True), id="printk-with-task"),
    pytest.param("[Mon Mar  2 09:00:05 2026] ", Peeled(BODY, is_kernel=True), id="dmesg-ctime"),
    pytest.param("kern  :err   : [ 8005.250000] ", Peeled(BODY, is_kernel=True), id="dmesg-decoded"),
    pytest.param("\x1b[36m(pid=4)\x1b[0m ", Peeled(BODY), id="coloured"),
    pytest.param("2026-03-02T09:00:05Z stdout F  3: [default5]:[rank12]: ", Peeled(BODY, rank=3), id="four-deep"),
    pytest.param("(raylet) [1,7]<stdout>: [rank2]: ", Peeled(BODY, rank=7), id="ray-around-mpi"),
]


@pytest.mark.parametrize(("prefix", "expected"), SHAPES)
def test_peels(prefix: str, expected: Peeled) -> None:
    assert peel(prefix + BODY) == expected


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-02 09:00:05,123 INFO trainer started",
        "2026-03-02 09:00:05,123 - INFO - started",
        "2026-03-02T09:00:05Z INFO trainer: started",
        "2026-03-02T09:00:05Z ERROR trainer[3]: failed",
        "rank3: no prefix of anybody",
        "12:30 is a time",
    ],
)
def test_what_looks_like_a_prefix_and_is_none(line: str) -> None:
    assert peel(line) == Peeled(line)


def test_colours_go_in_the_middle_too() -> None:
    assert peel("a \x1b[1;31mred\x1b[0m #033[32mgreen#033[0m b").body == "a red green b"


def test_there_is_an_end_to_nesting() -> None:
    assert len(peel("1: " * 300_000).body) > 800_000


def test_a_line_that_is_all_prefix_is_empty() -> None:
    assert peel("[rank3]: ").body == ""
