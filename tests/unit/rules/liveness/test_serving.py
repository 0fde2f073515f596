"""A server logs nothing while it has no request: silence is no hang."""

from __future__ import annotations

from typing import Final

import pytest

from epicenter.rules.engine import Engine
from tests.support.heartbeats import verdicts
from tests.support.logs import a_scanner, at, batch, kernel, vector

HOUR_S: Final = 3600
VLLM: Final = (
    "INFO 03-02 09:00:53 [loggers.py:127] Engine 000: Avg prompt throughput: 210.1 tokens/s, "
    "Avg generation throughput: 812.3 tokens/s, "
    "Running: 32 reqs, Waiting: 0 reqs, GPU KV cache usage: 14.2%, Prefix cache hit rate: 3.0%"
)
SGLANG: Final = (
    "[2026-03-02 09:00:53 TP0] Decode batch. #running-req: 12, #token: 4120, token usage: 0.02, cuda graph: True, "
    "gen throughput (token/s): 901.12, #queue-req: 0, "
)
TRAINER: Final = (
    "iteration {step}/  500000 | consumed samples: 512 | elapsed time per iteration (ms): 10004.5 | lm loss: 8.0"
)


def silent_after_an_hour(engine: Engine, line: str) -> list[str]:
    """The verdicts of a job whose lines end after an hour; the kernel of its node logs for three."""
    written = [vector("n1", second, line.format(step=second // 10), "A") for second in range(0, HOUR_S, 10)]
    alive = [kernel("n1", second, "usb 1-1: new device") for second in range(0, 3 * HOUR_S, 60)]
    for found in (a_scanner().scan(batch(written)), a_scanner().scan(batch(alive, "kern"))):
        engine.add(found.matches, found.heartbeats, found.rank_placements)
    engine.advance(at(3 * HOUR_S))
    return [verdict for verdict, *_ in verdicts(engine)]


@pytest.mark.parametrize("line", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_a_server_that_is_silent_for_two_hours_is_no_hang(fresh: Engine, line: str) -> None:
    assert silent_after_an_hour(fresh, line) == []


def test_a_trainer_that_is_silent_for_two_hours_is_a_hang(fresh: Engine) -> None:
    assert silent_after_an_hour(fresh, TRAINER) == ["hung"]
