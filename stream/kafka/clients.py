"""Kafka clients with the settings that all services share."""

from __future__ import annotations

from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from epicenter.stream.kafka.security import client_arguments
from epicenter.stream.kafka.topics import MAX_RAW_BYTES
from epicenter.stream.settings import Settings

CLIENT_ID: Final = "epicenter"
"""The client id by which workers recognise each other among the members of a group."""

SESSION_TIMEOUT_MS: Final = 6_000
"""A killed worker is removed from the group after this; it is the brokers' default minimum."""

HEARTBEAT_MS: Final = 1_000
"""How soon members notice a rebalance."""

REBALANCE_TIMEOUT_MS: Final = 30_000
"""At most this long a rebalance waits for a worker that is finishing a batch."""

METADATA_AGE_MS: Final = 5_000
"""How soon an added partition is read. Also how soon a group recovers that was assigned no partitions because a
restarted broker did not know the topic yet."""

BATCH_BYTES: Final = 1 << 18


def make_consumer(settings: Settings, group: str | None, *topics: str, **more: Any) -> AIOKafkaConsumer:
    """A consumer, not started. In a group it begins at the oldest record; it commits only explicitly."""
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
    """An admin client for topics and groups, not started."""
    return AIOKafkaAdminClient(**client_arguments(settings), **more)


def make_producer(settings: Settings, enable_idempotence: bool = True) -> AIOKafkaProducer:
    """A producer, not started, that waits for the acknowledgement of all in-sync replicas."""
    return AIOKafkaProducer(
        **client_arguments(settings),
        acks="all",
        enable_idempotence=enable_idempotence,
        linger_ms=5,
        compression_type="lz4",
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_RAW_BYTES,
    )
