"""Collects facts from Kafka: topics, groups and the newest raw records. Writes nothing and joins no group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from time import monotonic, time
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import GroupAuthorizationFailedError, GroupCoordinatorNotAvailableError, KafkaError

from epicenter.rules.errors import PipelineError, TransientError
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.text.humanize import count
from epicenter.stream.checks.finding import Finding, ok, refused, warning
from epicenter.stream.checks.groups import Group, Member, Place, group_findings
from epicenter.stream.checks.records import observed_records, record_findings
from epicenter.stream.checks.topics import Brokers, Topic, Wanted, topic_findings
from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.kafka.raw_batches import Chunk, Corrupt, observe_uncompressed, source_of
from epicenter.stream.kafka.topics import DAY_MS, TopicNames, admin_of, wanted_topics
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.settings import Settings

MAX_RECORDS: Final = 200
READ_TIMEOUT_S: Final = 5.0
SET_FOR_TOPIC: Final = 1
"""Kafka's source of a configuration value that was set for the topic itself."""

AUTO_CREATE: Final = "auto.create.topics.enable"
KAFKA_FIX: Final = "read the brokers' logs; docs/security.md lists the rights that this user needs"


async def kafka_findings(settings: Settings, rules: RuleSet | None) -> list[Finding]:
    """All findings; if Kafka becomes unreachable or refuses something, those until then, and that error."""
    found = []
    try:
        async with admin_of(settings) as admin:
            try:
                async for finding in _findings(settings, rules, admin):
                    found.append(finding)
            except KafkaError as error:
                found.append(refused("kafka", TransientError(f"{settings.kafka}: {error!r}"), KAFKA_FIX))
    except PipelineError as error:
        found.append(refused("kafka", error, "start the brokers, or set `kafka` to their addresses"))
    return found


async def _findings(settings: Settings, rules: RuleSet | None, admin: AIOKafkaAdminClient) -> AsyncIterator[Finding]:
    names, wanted = TopicNames(settings.prefix), [Wanted.of(new) for new in wanted_topics(settings)]
    brokers = await _brokers(admin, settings.kafka, [topic.name for topic in wanted])
    yield ok("kafka", f"{settings.kafka}, {count(brokers.size, 'broker')}")
    for finding in topic_findings(wanted, brokers, names, settings.raw_topic):
        yield finding
    consumer = make_consumer(settings, None)
    await consumer.start()
    try:
        for name, topics in _groups(settings, names).items():
            there = [brokers.topics[topic] for topic in topics if topic in brokers.topics]
            try:
                group = await _group(admin, consumer, name, there)
            except GroupAuthorizationFailedError:
                yield warning(f"group {name}", "this user has no right to describe it", "grant Describe on the group")
                continue
            for finding in group_findings(group, max((topic.partitions for topic in there), default=0), _now_ms()):
                yield finding
        if rules and (raw := brokers.topics.get(settings.raw_topic)):
            scanner = BatchScanner(rules, settings.cluster, redactor=redactor_of(settings))
            for finding in record_findings(await _newest(consumer, raw, scanner, settings.time_zone)):
                yield finding
    finally:
        await consumer.stop()


def _groups(settings: Settings, names: TopicNames) -> dict[str, tuple[str, ...]]:
    """epicenter's consumer groups and the topics that each reads."""
    groups: dict[str, tuple[str, ...]] = {
        names.match_group: (settings.raw_topic,),
        names.correlate_group: (names.matches,),
        names.store_group: (names.matches, names.signals, names.incidents, names.dead_letters),
    }
    if settings.alerts or settings.webhook_url:
        groups[names.notify_group] = (names.incidents,)
    return groups


async def _brokers(admin: AIOKafkaAdminClient, address: str, wanted: Collection[str]) -> Brokers:
    cluster = await admin.describe_cluster()
    topics = [topic for topic in await admin.describe_topics() if topic["topic"] in wanted]
    some_broker = str(cluster["brokers"][0]["node_id"])
    topic_resources = [ConfigResource(ConfigResourceType.TOPIC, topic["topic"]) for topic in topics]
    answers = await admin.describe_configs([*topic_resources, ConfigResource(ConfigResourceType.BROKER, some_broker)])
    entries = {
        (resource["resource_type"], resource["resource_name"]): resource["config_entries"]
        for answer in answers
        for resource in answer.to_object()["resources"]
        if not resource["error_code"]
    }
    of_broker = _configs(entries.get((ConfigResourceType.BROKER, some_broker), ()))
    return Brokers(
        address=address,
        size=len(cluster["brokers"]),
        topics={
            topic["topic"]: _topic(topic, entries.get((ConfigResourceType.TOPIC, topic["topic"]))) for topic in topics
        },
        auto_creates_topics=of_broker.get(AUTO_CREATE) == "true",
    )


def _configs(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {entry["config_names"]: entry["config_value"] for entry in entries if entry["config_value"] is not None}


def _topic(found: Mapping[str, Any], entries: Sequence[Mapping[str, Any]] | None) -> Topic:
    partitions = found["partitions"]
    return Topic(
        name=found["topic"],
        partitions=len(partitions),
        replicas=min(len(partition["replicas"]) for partition in partitions),
        in_sync=min(len(partition["isr"]) for partition in partitions),
        without_leader=sum(partition["leader"] < 0 for partition in partitions),
        configs=None if entries is None else _configs(entries),
        is_configured=any(entry["config_source"] == SET_FOR_TOPIC for entry in entries or ()),
    )


async def _group(admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, name: str, topics: Sequence[Topic]) -> Group:
    try:
        (answer,) = await admin.describe_consumer_groups([name])
        (found,) = answer.to_object()["groups"]
        committed = await admin.list_consumer_group_offsets(name)
    except GroupCoordinatorNotAvailableError:
        return Group(name, (), ())  # no group was ever used on these brokers
    members = tuple(Member(member["client_id"], member["client_host"]) for member in found["members"])
    by_name = {topic.name: topic for topic in topics}
    read = {
        partition: place.offset
        for partition, place in committed.items()
        if partition.topic in by_name and place.offset >= 0
    }
    first, end = await consumer.beginning_offsets(list(read)), await consumer.end_offsets(list(read))
    waiting = {
        partition: max(offset, first[partition])
        for partition, offset in read.items()
        if end[partition] > max(offset, first[partition])
    }
    oldest = {partition: records[0].timestamp for partition, records in (await _read(consumer, waiting, 1)).items()}
    places = tuple(
        Place(
            source=source_of(partition),
            first=first[partition],
            committed=offset,
            end=end[partition],
            oldest_ms=oldest.get(partition),
            retention_ms=_retention_ms(by_name[partition.topic]),
        )
        for partition, offset in sorted(read.items())
    )
    return Group(name, members, places)


def _retention_ms(topic: Topic) -> int:
    configs = topic.configs or {}
    return int(configs.get("retention.ms", "-1")) if "delete" in configs.get("cleanup.policy", "delete") else -1


async def _newest(consumer: AIOKafkaConsumer, raw: Topic, scanner: BatchScanner, zone: str) -> list[Any]:
    sources = [TopicPartition(raw.name, number) for number in range(raw.partitions)]
    first, end = await consumer.beginning_offsets(sources), await consumer.end_offsets(sources)
    most = max(1, MAX_RECORDS // len(sources))
    starts = {
        partition: max(first[partition], end[partition] - most)
        for partition in sources
        if end[partition] > first[partition]
    }
    plain: dict[TopicPartition, set[int]] = {partition: set() for partition in starts}
    observe_uncompressed(consumer, lambda partition, offsets: plain[partition].update(offsets))
    records_by_partition, now_ms = await _read(consumer, starts, most), _now_ms()
    batches = {
        partition: Chunk(records, records[-1].offset + 1).as_batch(partition, now_ms + DAY_MS, zone)
        for partition, records in records_by_partition.items()
    }
    return [
        record
        for partition, batch in batches.items()
        for record in observed_records(batch, scanner, now_ms, plain[partition])
    ]


async def _read(consumer: AIOKafkaConsumer, starts: Mapping[TopicPartition, int], most: int) -> dict[Any, list[Any]]:
    """At most `most` records of each partition from its start offset, as far as they arrive in time."""
    if not starts:
        return {}
    consumer.assign(list(starts))
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
    found: dict[Any, list[Any]] = {}
    end_s = monotonic() + READ_TIMEOUT_S
    while pending := [partition for partition in starts if partition not in found]:
        if monotonic() > end_s:
            break
        for partition, records in (await consumer.getmany(*pending, timeout_ms=500)).items():
            if sound := [record for record in records[:most] if not isinstance(record, Corrupt)]:
                found[partition] = sound
    return found


def _now_ms() -> int:
    return int(time() * 1000)
