"""A block waits for its rest until the broker has said for a second that nothing follows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from epicenter.stream.kafka.fault_log import FaultLog
from epicenter.stream.kafka.raw_batches import Chunk
from epicenter.stream.load_settings import load_settings
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.services.chunks import ChunkScanner
from tests.support.logs import the_rules, vector

RAW = TopicPartition("raw", 0)
REPORT = [
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "train.py", line 7, in <module>',
    "[rank0]:     step()",
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
]


def a_scanner() -> ChunkScanner:
    metrics, rule_budget = Metrics(), RuleBudget(1.0, 1.0, lambda: 0.0)
    return ChunkScanner(load_settings(), the_rules(), rule_budget, metrics, FaultLog(metrics))


def chunk(lines: Sequence[str], first: int = 0) -> Chunk:
    records = [
        SimpleNamespace(value=vector("n1", 1 + number / 1000, line), key=b"n1", timestamp=1, offset=number)
        for number, line in enumerate(lines, first)
    ]
    return Chunk(records, first + len(records), 1)


def is_given_up(scanner: ChunkScanner, end_seen_ms: int | None) -> bool:
    return bool(scanner.blocks_without_rest(lambda *_: end_seen_ms))


@pytest.mark.parametrize(
    "answers_ms",
    [
        pytest.param([0, 500, 1000], id="an idle broker"),
        pytest.param([*range(0, 1001, 20)], id="a broker with news of other partitions"),
        pytest.param([0, 60_000, 60_500], id="away for a minute, then idle"),
        pytest.param([0, 500, -86_400_000, -86_399_500], id="a clock that goes back a day"),
    ],
)
def test_a_block_is_given_up_with_the_last_answer(answers_ms: list[int]) -> None:
    scanner = a_scanner()
    assert scanner.scan(RAW, chunk(REPORT[:2])).end == 0
    assert [is_given_up(scanner, answer_ms) for answer_ms in answers_ms] == [False] * (len(answers_ms) - 1) + [True]


@pytest.mark.parametrize(
    "answers_ms",
    [
        pytest.param([0, *[500] * 99], id="a broker that is away"),
        pytest.param([0, 60_000], id="away for a minute, and back"),
        pytest.param([0, *[None] * 99], id="a worker that is busy with other partitions"),
    ],
)
def test_a_block_waits_while_its_rest_may_lie_unread(answers_ms: list[int | None]) -> None:
    scanner = a_scanner()
    scanner.scan(RAW, chunk(REPORT[:2]))
    assert not any(is_given_up(scanner, answer_ms) for answer_ms in answers_ms)
    whole = a_scanner().scan(RAW, chunk([*REPORT, "step 8"])).scanned.matches
    assert scanner.scan(RAW, chunk([*REPORT[2:], "step 8"], first=2)).scanned.matches == whole


def test_an_answer_before_new_records_does_not_count_for_them() -> None:
    scanner = a_scanner()
    scanner.scan(RAW, chunk(REPORT[:2]))
    assert not any(is_given_up(scanner, answer_ms) for answer_ms in (0, 500))
    scanner.scan(RAW, chunk(REPORT[2:3], first=2))
    assert not any(is_given_up(scanner, answer_ms) for answer_ms in (1000, 1500))
    assert is_given_up(scanner, 2000)
