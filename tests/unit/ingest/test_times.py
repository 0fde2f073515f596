"""Event times, as headers and envelopes write them."""

from __future__ import annotations

from calendar import timegm

import pytest

from epicenter.ingest.parse.times import DAY_NS, plausible, time_at_head, time_from_field
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import START_NS, START_S, at

HEADS = [
    pytest.param("2026-03-02T09:00:05Z x", at(5), id="iso"),
    pytest.param("2026-03-02T09:00:05.123456789Z x", at(5) + 123_456_789, id="iso-nanoseconds"),
    pytest.param("2026-03-02T09:00:05.1234567891234Z x", at(5) + 123_456_789, id="iso-finer-than-nanoseconds"),
    pytest.param("2026-03-02T09:00:05.5+00:00 x", at(5.5), id="iso-utc-offset"),
    pytest.param("2026-03-02T18:30:05+09:30 x", at(5), id="iso-east"),
    pytest.param("2026-03-02T04:00:05-0500 x", at(5), id="iso-west-without-colon"),
    pytest.param("2026-03-02 09:00:05,250 - INFO - x", at(5.25), id="python-logging"),
    pytest.param("[2026-03-02 09:00:05,250] x", at(5.25), id="python-logging-in-brackets"),
    pytest.param("[2026-03-02 09:00:05] iteration 1", at(5), id="megatron"),
    pytest.param("(2026-03-02 09:00:05) x", at(5), id="in-parentheses"),
    pytest.param("2026-03-02_09:00:05 x", at(5), id="underscore"),
    pytest.param("<13>1 2026-03-02T09:00:05.25Z n1 app - - - x", at(5.25), id="rfc-5424"),
    pytest.param("<6>Mar  2 09:00:05 n1 kernel: x", at(5), id="rfc-3164"),
    pytest.param("Mar  2 09:00:05 n1 kernel: x", at(5), id="syslog-file"),
    pytest.param("[Mon Mar  2 09:00:05 2026] x", at(5), id="dmesg-ctime"),
    pytest.param('{"ts": "2026-03-02T09:00:05.250Z", "rank": 6, "msg": "x"}', at(5.25), id="json-behind-a-label"),
    pytest.param(
        "slurmstepd: error: *** STEP 812.0 ON c01 CANCELLED AT 2026-03-02T09:00:05 ***",
        at(6) - 1,
        id="end-by-slurmstepd",
    ),
    pytest.param("Mon Mar  2 09:00:05 UTC 2026", at(5), id="date"),
    pytest.param("Job 812 started at Mon Mar  2 09:00:05 UTC 2026 on n1", at(5), id="date-after-words"),
    pytest.param("End time: Mon Mar  2 09:00:05 UTC 2026", at(5), id="date-of-the-end"),
    pytest.param("Last login: Mon Mar  2 09:00:05 UTC 2026 from 10.1.0.7", None, id="date-of-something-else"),
    pytest.param("Linux version 6.8 #1 SMP Mon Mar  2 09:00:05 UTC 2026", None, id="date-of-a-build"),
    pytest.param("Start: Mon Abc  2 09:00:05 UTC 2026", None, id="date-without-such-a-month"),
    pytest.param("[Mon Mar  2 09:00:05 2020] x", timegm((2020, 3, 2, 9, 0, 5)) * NS_PER_S, id="ctime-keeps-its-year"),
    pytest.param("I0302 09:00:05.250000 991 metric_logger.py:214] x", at(5.25), id="absl"),
    pytest.param("I20260302 09:00:05.250000 991 metric_logger.cc:214] x", at(5.25), id="glog-with-a-year"),
    pytest.param("I20261302 09:00:05.250000 991 metric_logger.cc:214] x", None, id="glog-without-such-a-month"),
    pytest.param(f"W0000 00:00:{START_S + 5}.250000 991 cuda.cc:1] x", at(5.25), id="absl-before-its-start"),
    pytest.param("[E302 09:00:05.250000001 ProcessGroupNCCL.cpp:683] x", at(5.25) + 1, id="c10"),
    pytest.param(
        "[W1231 23:59:59.000000000 x.cpp:1] x", timegm((2025, 12, 31, 23, 59, 59)) * NS_PER_S, id="c10-december"
    ),
    pytest.param("2026-06-30T23:59:60Z x", timegm((2026, 6, 30, 23, 59, 59)) * NS_PER_S, id="leap-second"),
    pytest.param("E0302 09:00:05.250000 412 torch/distributed/run.py:9] x", at(5.25), id="torch-python"),
    pytest.param("V0302 09:00:05.250000 412 torch/_dynamo/guards.py:9] x", at(5.25), id="torch-python-verbose"),
    pytest.param("[2026-03-02 09:00:05] n1:412:500 [0] init.cc:9 NCCL WARN x", at(5), id="nccl"),
    pytest.param("[2026-03-02 09:00:05,250 E 90 91] (raylet) node_manager.cc:30: x", at(5.25), id="ray"),
    pytest.param("2026-03-02 09:00:05,250\tINFO worker.py:9 -- x", at(5.25), id="ray-python"),
    pytest.param("2026-03-02 09:00:05.250000: E xla/stream_executor.cc:9] x", at(5.25), id="tensorflow"),
    pytest.param("ERROR 03-02 09:00:05 [core.py:9] x", at(5), id="vllm"),
    pytest.param("INFO 03-02 09:00:05.250 [core.py:9] x", at(5.25), id="vllm-milliseconds"),
    pytest.param("I 03-02 09:00:05.250 rank003 train: x", at(5.25), id="one-letter-and-a-day"),
    pytest.param("[2026-03-02 09:00:05 DP0 TP3] Decode batch", at(5), id="sglang"),
    pytest.param("[titan] 2026-03-02 09:00:05,250 - root - INFO - x", at(5.25), id="torchtitan"),
    pytest.param("[NeMo E 2026-03-02 09:00:05 nemo_logging:393] x", at(5), id="nemo"),
    pytest.param("[WARNING|logging.py:328] 2026-03-02 09:00:05,250 >> x", at(5.25), id="transformers"),
    pytest.param("INFO 2026-03-02 09:00:05,250 x", at(5.25), id="level-first"),
    pytest.param("[INFO] 2026-03-02 09:00:05 x", at(5), id="level-first-in-brackets"),
    pytest.param(" [2026-03-02 09:00:05.25] iteration 9", at(5.25), id="megatron-indented"),
    pytest.param("03/02/2026 09:00:05 - INFO - x", at(5), id="american"),
    pytest.param("28/02/2026 09:00:05 x", timegm((2026, 2, 28, 9, 0, 5)) * NS_PER_S, id="no-month"),
    pytest.param("[2026-03-02T09:00:05.250] error: Node n1 not responding", at(5.25), id="slurm-daemon"),
    pytest.param("2026/03/02 09:00:05 - mmengine - INFO - x", at(5), id="openmmlab"),
    pytest.param("[2026/03/02 09:00:05] ppocr INFO: x", at(5), id="paddle"),
    pytest.param("03/02 09:00:05 - mmengine - INFO - x", at(5), id="openmmlab-without-year"),
    pytest.param("[03/02 09:00:05 d2.utils.events]:  eta: 0:05:22  iter: 19", at(5), id="detectron2"),
    pytest.param("[03/02 09:00:05][INFO] train_net.py: 240: x", at(5), id="slowfast"),
    pytest.param("[I 2026-03-02 09:00:05,250] Trial 3 finished", at(5.25), id="optuna"),
    pytest.param("03/02 09:00:05 PM | x", None, id="half-day-clock"),
    pytest.param('time="2026-03-02T10:00:05.25+01:00" level=warning msg=x', at(5.25), id="logfmt"),
    pytest.param("[1772442005.250000] [n1:412:0] ib_mlx5.c:9 UCX ERROR x", at(5.25), id="ucx"),
    pytest.param("[1772442005.250] [n1/3] x", at(5.25), id="unix-milliseconds"),
    pytest.param("I20260302T090005.25Z n1 agent] x", at(5.25), id="iso-without-separators"),
    pytest.param("20260302T100005+0100 x", at(5), id="iso-without-separators-and-with-a-zone"),
    pytest.param("1772442005.250000 n1 kernel: x", at(5.25), id="journal-unix"),
    pytest.param("Mar 02 09:00:05.250000 n1 kernel: x", at(5.25), id="journal-precise"),
    pytest.param("Mon 2026-03-02 09:00:05 UTC n1 kernel: x", at(5), id="journal-full"),
    pytest.param("2026-03-02T09:00:05,250000+00:00 x", at(5.25), id="dmesg-iso"),
    pytest.param("Mon Mar  2 09:00:05 2026[1,3]<stdout>:x", at(5), id="open-mpi-timestamp"),
    pytest.param("[1772442005] x", None, id="whole-seconds-are-any-number"),
    pytest.param("[00:12<03:40, 5.1it/s] 09:00:05", None, id="a-clock-without-a-date"),
    pytest.param("x 2026-03-02T09:00:05Z", None, id="not-at-the-head"),
    pytest.param("2026-02-30T09:00:05Z x", None, id="no-such-day"),
    pytest.param("2026-03-02T25:00:05Z x", None, id="no-such-hour"),
    pytest.param("Abc  2 09:00:05 x", None, id="no-such-month"),
    pytest.param("I1332 09:00:05.250000 991 x", None, id="no-such-date"),
    pytest.param("[ 8005.250000] x", None, id="printk-alone"),
    pytest.param("", None, id="nothing"),
]


@pytest.mark.parametrize(("line", "expected_ns"), HEADS)
def test_a_time_is_read_from_the_head_of_a_line(line: str, expected_ns: int | None) -> None:
    assert time_at_head(line, START_NS) == expected_ns


def utc(*moment: int) -> int:
    return timegm(moment) * NS_PER_S


@pytest.mark.parametrize(
    ("line", "expected_ns"),
    [
        pytest.param("2026-03-02 09:00:05,250 x", utc(2026, 3, 2, 8, 0, 5) + 250_000_000, id="winter"),
        pytest.param("2026-07-02 09:00:05,250 x", utc(2026, 7, 2, 7, 0, 5) + 250_000_000, id="summer"),
        pytest.param("2026-03-29 01:59:59 x", utc(2026, 3, 29, 0, 59, 59), id="before-summer-time"),
        pytest.param("2026-03-29 03:00:00 x", utc(2026, 3, 29, 1, 0, 0), id="after-it-begins"),
        pytest.param("2026-10-25 02:30:00 x", utc(2026, 10, 25, 0, 30, 0), id="repeated-hour-is-the-earlier"),
        pytest.param("2026-10-25 03:00:00 x", utc(2026, 10, 25, 2, 0, 0), id="after-it-ends"),
        pytest.param("Mar  2 09:00:05 n1 kernel: x", utc(2026, 3, 2, 8, 0, 5), id="syslog"),
        pytest.param("[Mon Mar  2 09:00:05 2026] x", utc(2026, 3, 2, 8, 0, 5), id="dmesg-ctime"),
        pytest.param("I0302 09:00:05.250000 991 x.cc:1] x", utc(2026, 3, 2, 8, 0, 5) + 250_000_000, id="absl"),
        pytest.param("03/02/2026 09:00:05 x", utc(2026, 3, 2, 8, 0, 5), id="american"),
        pytest.param("2026/03/02 09:00:05 x", utc(2026, 3, 2, 8, 0, 5), id="slashes"),
        pytest.param("2026-03-02T09:00:05Z x", utc(2026, 3, 2, 9, 0, 5), id="states-utc"),
        pytest.param("Mon 2026-03-02 09:00:05 UTC n1 kernel: x", utc(2026, 3, 2, 9, 0, 5), id="states-utc-by-name"),
        pytest.param("2026-03-02T09:00:05-05:00 x", utc(2026, 3, 2, 14, 0, 5), id="states-an-offset"),
        pytest.param("1772442005.250000 n1 kernel: x", utc(2026, 3, 2, 9, 0, 5) + 250_000_000, id="since-1970"),
        pytest.param("0001-01-01 00:00:00 x", -62_135_600_008 * NS_PER_S, id="first-year"),
    ],
)
def test_a_time_without_a_zone_is_one_of_the_given_zone(line: str, expected_ns: int) -> None:
    assert time_at_head(line, utc(2026, 12, 1, 0, 0, 0), "Europe/Berlin") == expected_ns
    assert time_from_field("2026-07-02 09:00:05", "Europe/Berlin") == utc(2026, 7, 2, 7, 0, 5)


@pytest.mark.parametrize(
    ("line", "received_ns", "expected_ns"),
    [
        ("Dec 31 23:59:58 n1 x", utc(2026, 1, 1, 0, 0, 2), utc(2025, 12, 31, 23, 59, 58)),
        ("Jan  1 00:00:02 n1 x", utc(2025, 12, 31, 23, 59, 58), utc(2026, 1, 1, 0, 0, 2)),
        ("Jul  1 00:00:00 n1 x", utc(2026, 1, 1, 0, 0, 0), utc(2025, 7, 1, 0, 0, 0)),
        ("Jan  2 00:00:01 n1 x", utc(2026, 1, 1, 0, 0, 0), utc(2025, 1, 2, 0, 0, 1)),
        ("I1231 23:59:58.000000 1 x", utc(2026, 1, 1, 0, 0, 2), utc(2025, 12, 31, 23, 59, 58)),
        ("Feb 29 12:00:00 n1 x", utc(2025, 3, 1, 0, 0, 0), utc(2024, 2, 29, 12, 0, 0)),
        ("Feb 29 12:00:00 n1 x", utc(2026, 7, 1, 0, 0, 0), None),
    ],
    ids=["old-year", "new-year", "half-a-year", "almost-a-year", "absl", "leap-day", "leap-day-of-no-year-near"],
)
def test_a_head_without_a_year_is_near_its_receipt(line: str, received_ns: int, expected_ns: int | None) -> None:
    assert time_at_head(line, received_ns) == expected_ns


@pytest.mark.parametrize("received_ns", [-1, 10**21])
def test_an_absurd_receipt_gives_no_year(received_ns: int) -> None:
    assert time_at_head("Mar  2 09:00:05 n1 x", received_ns) is None


@pytest.mark.parametrize(
    ("value", "expected_ns"),
    [
        pytest.param("2026-03-02T09:00:05.000000001Z", at(5) + 1, id="iso"),
        pytest.param(START_S + 5, at(5), id="seconds"),
        pytest.param(START_S + 5.25, at(5.25), id="float"),
        pytest.param(f"{START_S}.123456789", START_NS + 123_456_789, id="text-with-nanoseconds"),
        pytest.param((START_S + 5) * 1000, at(5), id="milliseconds"),
        pytest.param((START_S + 5) * 1_000_000, at(5), id="microseconds"),
        pytest.param(at(5), at(5), id="nanoseconds"),
        pytest.param(str(at(5)), at(5), id="nanoseconds-as-text"),
        pytest.param("soon", None, id="a-word"),
        pytest.param("", None, id="nothing"),
        pytest.param(None, None, id="null"),
        pytest.param(True, None, id="true"),
        pytest.param(-5, None, id="negative"),
        pytest.param(1e-7, None, id="tiny"),
        pytest.param(1e300, None, id="huge"),
        pytest.param([1], None, id="a-list"),
    ],
)
def test_a_time_is_read_from_the_fields_of_an_envelope(value: object, expected_ns: int | None) -> None:
    assert time_from_field(value) == expected_ns


@pytest.mark.parametrize(
    ("time_ns", "expected"),
    [(None, False), (0, False), (START_NS, True), (START_NS + DAY_NS, True), (START_NS + DAY_NS + 1, False)],
)
def test_only_plausible_times_are_accepted(time_ns: int | None, expected: bool) -> None:
    assert plausible(time_ns, START_NS) is expected
