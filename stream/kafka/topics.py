"""Our Kafka topics: their names, and creating the missing ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import click
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from epicenter.rules.errors import ConfigError, TransientError
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.kafka.preflight import reach
from epicenter.stream.kafka.security import client_arguments
from epicenter.stream.settings import Settings

CREATED, EXISTS = 0, 36
MAX_RAW_BYTES: Final = 16 << 20
"""Larger than we process, so that an oversized record becomes a dead letter and is not lost in the shipper."""

SEGMENT_BYTES: Final = 64 << 20
"""Kafka never compacts the newest segment; one of its usual size would hold a gigabyte of old snapshots."""

DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class TopicNames:
    """Every topic and group with our prefix."""

    prefix: str

    @property
    def matches(self) -> str:
        """Matches and heartbeats, a partition for each share of the clusters."""
        return f"{self.prefix}.matches"

    @property
    def signals(self) -> str:
        """For the store only: window matches, signals with their incident, gaps, deliveries, workers' metrics."""
        return f"{self.prefix}.signals"

    @property
    def incidents(self) -> str:
        """The newest revision of each incident, by its id."""
        return f"{self.prefix}.incidents"

    @property
    def alerts(self) -> str:
        """The journal of notifications, sent and pending, in the partition of their incidents."""
        return f"{self.prefix}.alerts"

    @property
    def dead_letters(self) -> str:
        """Records that could not be processed."""
        return f"{self.prefix}.deadletters"

    @property
    def snapshots(self) -> str:
        """Snapshots of the correlators, a partition for each of the matches."""
        return f"{self.prefix}.snapshots"

    @property
    def match_group(self) -> str:
        """The consumer group that scans raw records."""
        return f"{self.prefix}.match"

    @property
    def correlate_group(self) -> str:
        """The consumer group that correlates matches."""
        return f"{self.prefix}.correlate"

    @property
    def store_group(self) -> str:
        """The consumer group that writes to the store."""
        return f"{self.prefix}.store"

    @property
    def notify_group(self) -> str:
        """The consumer group that sends notifications."""
        return f"{self.prefix}.notify"


def wanted_topics(settings: Settings) -> list[NewTopic]:
    """Each topic with its partitions and configuration."""
    names = TopicNames(settings.prefix)
    internal = {"retention.ms": str(3 * DAY_MS), "max.message.bytes": str(4 << 20)}
    compacted = {"cleanup.policy": "compact", "max.message.bytes": str(MAX_RAW_BYTES)}
    for_a_month = {"retention.ms": str(30 * DAY_MS)}
    raw = {"retention.ms": str(DAY_MS), "max.message.bytes": str(MAX_RAW_BYTES)}
    return [
        _topic(settings, settings.raw_topic, settings.raw_partitions, raw),
        _topic(settings, names.matches, settings.match_partitions, internal),
        _topic(settings, names.signals, settings.match_partitions, internal),
        _topic(settings, names.incidents, settings.match_partitions, compacted),
        _topic(settings, names.alerts, settings.match_partitions, compacted),
        _topic(settings, names.dead_letters, 1, {**internal, **for_a_month}),
        _topic(
            settings, names.snapshots, settings.match_partitions, {**compacted, "segment.bytes": str(SEGMENT_BYTES)}
        ),
    ]


def make_topics(settings: Settings, as_json: bool = False) -> None:
    """Create the missing topics and print the outcome for each.

    Raises:
        TransientError: the broker is unreachable.
        ConfigError: it refuses a topic.
    """
    for name, outcome in asyncio.run(_make(settings)).items():
        click.echo(sanitized_json({"topic": name, "outcome": outcome}) if as_json else f"{name}: {outcome}")


async def missing_topics(settings: Settings) -> list[str]:
    """The names of our topics that do not exist."""
    async with admin_of(settings) as admin:
        known = set(await admin.list_topics())
    return [topic.name for topic in wanted_topics(settings) if topic.name not in known]


def _topic(settings: Settings, name: str, partitions: int, configs: dict[str, str]) -> NewTopic:
    return NewTopic(name, partitions, settings.replication, topic_configs=configs)


async def _make(settings: Settings) -> dict[str, str]:
    async with admin_of(settings) as admin:
        answer = await admin.create_topics(wanted_topics(settings))
    problems = [
        f"{name}: the broker refuses it: {text}"
        for name, code, text in answer.topic_errors
        if code not in (CREATED, EXISTS)
    ]
    if problems:
        raise ConfigError(problems)
    return {name: "created" if code == CREATED else "exists" for name, code, _ in answer.topic_errors}


@asynccontextmanager
async def admin_of(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client for a `with` block, after `reach` succeeded.

    Raises:
        TransientError: the broker is unreachable, also later in the block.
    """
    await reach(settings)
    client = AIOKafkaAdminClient(**client_arguments(settings), request_timeout_ms=10_000)
    try:
        await client.start()
        yield client
    except KafkaError as error:
        raise TransientError(
            f"Kafka is unreachable: {settings.kafka}: {error}: start it, or give --kafka host:port"
        ) from error
    finally:
        await client.close()
