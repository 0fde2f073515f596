"""Engines that watch job A."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from tests.support.heartbeats import earlier_attempt
from tests.support.logs import the_rules


@pytest.fixture
def fresh() -> Engine:
    """An engine that has seen nothing yet."""
    return Engine(the_rules())


@pytest.fixture
def engine(fresh: Engine) -> Engine:
    """An engine that watched an earlier attempt of job A for more than an hour, without a pause."""
    fresh.add([], earlier_attempt())
    return fresh
