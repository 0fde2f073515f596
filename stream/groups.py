"""Small things that every consumer group of ours does."""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer


async def wait_in_group(consumer: AIOKafkaConsumer, pause_ms: int) -> None:
    """Wait without leaving the group: a paused consumer is asked for records all the same.

    A rebalance lifts the pause; what comes then is put back, to be read again.
    """
    consumer.pause(*consumer.assignment())
    too_early = await consumer.getmany(timeout_ms=pause_ms)
    mine = consumer.assignment()
    for partition in mine & too_early.keys():
        consumer.seek(partition, too_early[partition][0].offset)
    consumer.resume(*mine)
