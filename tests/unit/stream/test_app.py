"""When a worker is ready."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from epicenter.stream.app import STALLED_AFTER_S, unready


class Service(msgspec.Struct):
    """What readiness asks of a service."""

    has_joined: bool = True
    last_fetch_s: float = 100.0
    group: str = "epicenter.match"
    store_problem: str = ""


@pytest.mark.parametrize(
    ("running", "problems"),
    [
        ([Service(), Service()], []),
        ([Service()], ["it is starting"]),
        ([Service(), Service(has_joined=False)], ["epicenter.match has not been joined yet"]),
        ([Service(), Service(last_fetch_s=100.0 - STALLED_AFTER_S)], ["epicenter.match: no fetch for 60 s"]),
        ([Service(), Service(store_problem="http://ch:8123/x: away")], ["http://ch:8123/x: away"]),
    ],
    ids=["all-well", "starting", "not-joined", "stalled", "store-away"],
)
def test_worker_is_ready_when_every_service_is(running: list[Any], problems: list[str]) -> None:
    assert unready(running, 2, now_s=100.0) == problems
