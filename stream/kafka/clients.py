"""Our Kafka consumers and producers: what all services set alike."""

from __future__ import annotations

from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from epicenter.stream.kafka.security import client_arguments
from epicenter.stream.kafka.topics import MAX_RAW_BYTES
from epicenter.stream.settings import Settings

CLIENT_ID: Final = "epicenter"
"""By this name our workers know each other among the members of a group."""

SESSION_TIMEOUT_MS: Final = 6_000
"""A worker that was killed is missed after this; brokers allow no less unless they are told to."""

HEARTBEAT_MS: Final = 1_000
"""How soon the others hear of a rebalance."""

REBALANCE_TIMEOUT_MS: Final = 30_000
"""So long a rebalance waits for a worker that is alive and still has a batch in hand."""

METADATA_AGE_MS: Final = 5_000
"""So soon a partition that was added is read, and a topic of which a broker that has just come back knew nothing yet:
a group that is given its partitions in that moment gets none, and is not told when there are some."""

BATCH_BYTES: Final = 1 << 18


def make_consumer(settings: Settings, group: str | None, *topics: str, **more: Any) -> AIOKafkaConsumer:
    """A consumer, not started; in a group it begins at the oldest record, and commits when it is told to."""
    more = {"auto_offset_reset": "earliest"} | more
    return AIOKafkaConsumer(
        *topics,
        client_id=CLIENT_ID,
        **client_arguments(settings),
        group_id=group,
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
        **more,
    )


def make_admin(settings: Settings, **more: Any) -> AIOKafkaAdminClient:
    """A client for questions about topics and groups, not started."""
    return AIOKafkaAdminClient(**client_arguments(settings), **more)


def make_producer(settings: Settings, enable_idempotence: bool = True) -> AIOKafkaProducer:
    """A producer, not started, whose records all replicas acknowledge."""
    return AIOKafkaProducer(
        **client_arguments(settings),
        acks="all",
        enable_idempotence=enable_idempotence,
        linger_ms=5,
        compression_type="lz4",
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_RAW_BYTES,
    )
