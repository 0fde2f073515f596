"""A partition of matches moves between two correlating services in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition

from epicenter.rules.errors import TransientError
from epicenter.stream.kafka.topics import TopicNames, make_topics
from epicenter.stream.load_settings import load_settings
from epicenter.stream.metrics import Metrics
from epicenter.stream.services.correlator import Correlator
from epicenter.stream.services.snapshots import Snapshots
from tests.support.logs import the_rules
from tests.support.waiting import POLL_S

pytestmark = pytest.mark.integration


async def assigned(service: Correlator, partitions: int) -> set[TopicPartition]:
    async with asyncio.timeout(30):
        while len(found := service._consumer.assignment()) != partitions or service._consumer.paused() != found:
            await asyncio.sleep(POLL_S)
    return found


async def test_a_revoked_partition_is_neither_restored_nor_sought(kafka: Any, tmp_path: Path) -> None:
    prefix = f"t{uuid4().hex[:8]}"
    settings = load_settings(
        kafka=kafka.bootstrap, data_dir=tmp_path, prefix=prefix, raw_topic=f"{prefix}.raw", match_partitions=2
    )
    await asyncio.to_thread(make_topics, settings)
    services = [Correlator(settings, the_rules(), Metrics()) for _ in range(2)]
    first, second = services
    await first.on_start()
    both = await assigned(first, 2)
    await second.on_start()
    (owned,) = await assigned(first, 1)
    (revoked,) = both - {owned}
    await first._restore(revoked)
    await first._restore(owned)
    assert first._owned.keys() == {owned}
    assert first._consumer.paused() == set()
    assert await first._consumer.position(owned) == 0
    assert await assigned(second, 1) == {revoked}
    for service in services:
        await service.on_stop()


async def test_a_snapshot_read_during_shutdown_raises_a_transient_error(kafka: Any, tmp_path: Path) -> None:
    prefix = f"t{uuid4().hex[:8]}"
    settings = load_settings(kafka=kafka.bootstrap, data_dir=tmp_path, prefix=prefix, raw_topic=f"{prefix}.raw")
    await asyncio.to_thread(make_topics, settings)
    snapshots = Snapshots(settings)
    await snapshots.start()
    await asyncio.sleep(0)
    source = TopicPartition(TopicNames(prefix).snapshots, 0)
    await snapshots.stop()
    with pytest.raises(TransientError):
        await snapshots._next(source)
