"""Topics as the brokers have them, compared with those that `epicenter topics` would create."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.text.humanize import count
from epicenter.stream.checks.finding import Finding, or_ok, problem, warning
from epicenter.stream.kafka.topics import TopicNames

ALTER: Final = (
    "kafka-configs.sh --bootstrap-server {address} --alter --entity-type topics --entity-name {name}"
    " --add-config {key}={value}"
)
ADD: Final = "kafka-topics.sh --bootstrap-server {address} --alter --topic {name} --partitions {partitions}"
MOVE: Final = "kafka-reassign-partitions.sh with {replicas} replicas a partition of {name}"
BROKERS_FOR_REPLICAS: Final = 3


class Topic(msgspec.Struct, frozen=True):
    """A topic: `replicas` and `in_sync` of the partition with the fewest; `configs` is None if this user can't read it.

    `is_configured`: at least one option was set for this topic.
    """

    name: str
    partitions: int
    replicas: int = 1
    in_sync: int = 1
    without_leader: int = 0
    configs: Mapping[str, str] | None = {}
    is_configured: bool = True

    @property
    def min_in_sync(self) -> int:
        """Replicas that must be in sync for a write with acks=all. Kafka requires no more than there are."""
        return min(self.replicas, int((self.configs or {}).get("min.insync.replicas", "1")))


class Brokers(msgspec.Struct, frozen=True):
    """The brokers at an address and their topics."""

    address: str
    size: int
    topics: Mapping[str, Topic]
    auto_creates_topics: bool = False

    def alter(self, topic: str, key: str, value: str | int) -> str:
        """The command that sets an option of a topic."""
        return ALTER.format(address=self.address, name=topic, key=key, value=value)

    def add(self, topic: str, partitions: int) -> str:
        """The command that adds partitions to a topic."""
        return ADD.format(address=self.address, name=topic, partitions=partitions)


class Wanted(msgspec.Struct, frozen=True):
    """A topic as `epicenter topics` would create it."""

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str]

    @classmethod
    def of(cls, new: Any) -> Wanted:
        """From a new topic of the admin client."""
        return cls(new.name, new.num_partitions, new.replication_factor, new.topic_configs)


def topic_findings(wanted: Sequence[Wanted], brokers: Brokers, names: TopicNames, raw: str) -> Iterator[Finding]:
    """The findings of each topic, then those about several."""
    for spec in wanted:
        topic = brokers.topics.get(spec.name)
        if topic is None:
            yield problem(
                _name(spec.name),
                "not found",
                "create it with `epicenter topics`; if it exists, grant this user Describe on it",
            )
        else:
            text = f"{count(topic.partitions, 'partition')}, {count(topic.replicas, 'replica')}"
            yield from or_ok(_name(spec.name), text, _of_topic(spec, topic, brokers, is_raw=spec.name == raw))
    yield from _equal_partitions(names, brokers)
    if hidden := [topic.name for topic in brokers.topics.values() if topic.configs is None]:
        text = f"this user has no right to read the configuration of {', '.join(hidden)}"
        yield warning("topics", text, "grant DescribeConfigs on them, or run the check as another user")
    if brokers.auto_creates_topics:
        yield warning(
            "topics",
            "the brokers create every topic that a client names, with their defaults",
            "set auto.create.topics.enable=false on the brokers: a misspelt topic is then an error",
        )


def _of_topic(wanted: Wanted, topic: Topic, brokers: Brokers, is_raw: bool) -> Iterator[Finding]:
    name = _name(topic.name)
    if topic.without_leader:
        text = f"{topic.without_leader} partitions have no leader and can't be read or written"
        yield problem(name, text, "start the brokers that hold them")
    if topic.configs is not None and not topic.is_configured and wanted.configs:
        text = "it has the brokers' defaults: it was not created by `epicenter topics`"
        yield warning(
            name, text, "if it is empty, delete it and run `epicenter topics`; else apply the following findings"
        )
    if is_raw and topic.partitions < wanted.partitions:
        text = f"{topic.partitions} partitions, but raw_partitions is {wanted.partitions}"
        yield warning(name, text, brokers.add(topic.name, wanted.partitions))
    yield from _replicas(wanted, topic, brokers)
    if topic.configs is not None:
        yield from _configs(wanted, topic, topic.configs, brokers)


def _replicas(wanted: Wanted, topic: Topic, brokers: Brokers) -> Iterator[Finding]:
    name, min_in_sync = _name(topic.name), topic.min_in_sync
    if topic.replicas < wanted.replicas:
        text = f"{topic.replicas} replicas, but replication is {wanted.replicas}"
        yield problem(name, text, MOVE.format(replicas=wanted.replicas, name=topic.name))
    elif topic.replicas == 1 and brokers.size >= BROKERS_FOR_REPLICAS:
        text = f"one replica on {brokers.size} brokers: one failed disk loses it"
        yield warning(name, text, "set replication to 3, and " + MOVE.format(replicas=3, name=topic.name))
    if topic.in_sync < topic.replicas:
        text = f"a partition has {topic.in_sync} of {topic.replicas} replicas in sync"
        yield warning(name, text, "check the brokers that hold the others")
    if topic.in_sync < min_in_sync:
        text = f"{topic.in_sync} replicas in sync, and min.insync.replicas is {min_in_sync}: nothing can be written"
        yield problem(name, text, "start the brokers that hold the others")
    if min_in_sync >= topic.replicas > 1:
        text = f"min.insync.replicas is {min_in_sync} of {topic.replicas} replicas: one broker down stops all writes"
        yield warning(name, text, brokers.alter(topic.name, "min.insync.replicas", topic.replicas - 1))
    if topic.configs is not None and min_in_sync == 1 and topic.replicas >= BROKERS_FOR_REPLICAS:
        text = "min.insync.replicas is 1: a record counts as stored when a single broker has it"
        yield warning(name, text, brokers.alter(topic.name, "min.insync.replicas", 2))


def _configs(wanted: Wanted, topic: Topic, configs: Mapping[str, str], brokers: Brokers) -> Iterator[Finding]:
    name = _name(topic.name)

    def fix(key: str) -> str:
        return brokers.alter(topic.name, key, wanted.configs.get(key, "delete"))

    policy, wanted_policy = (
        configs.get("cleanup.policy", "delete"),
        wanted.configs.get("cleanup.policy", "delete"),
    )
    if policy != wanted_policy:
        loses = "records that are still needed expire" if wanted_policy == "compact" else "records without a key fail"
        yield problem(name, f"cleanup.policy is {policy}, expected {wanted_policy}: {loses}", fix("cleanup.policy"))
    retention_ms, wanted_ms = (int(options.get("retention.ms", "-1")) for options in (configs, wanted.configs))
    if wanted_policy == "delete" and 0 <= retention_ms < wanted_ms:
        text = f"records are kept for {length(retention_ms)}, expected {length(wanted_ms)}"
        yield warning(name, text, fix("retention.ms"))
    if int(configs.get("retention.bytes", "-1")) >= 0 and wanted_policy == "delete":
        text = f"retention.bytes is {configs['retention.bytes']}: a log storm may delete unread records"
        yield warning(name, text, brokers.alter(topic.name, "retention.bytes", -1))
    largest, wanted_largest = (int(options.get("max.message.bytes", "0")) for options in (configs, wanted.configs))
    if 0 < largest < wanted_largest:
        text = f"max.message.bytes is {largest}, expected {wanted_largest}: larger messages are refused"
        yield problem(name, text, fix("max.message.bytes"))
    if configs.get("unclean.leader.election.enable") == "true":
        text = "unclean.leader.election.enable: a broker that lags may become leader, and the records it lacks are lost"
        yield warning(name, text, brokers.alter(topic.name, "unclean.leader.election.enable", "false"))


def _equal_partitions(names: TopicNames, brokers: Brokers) -> Iterator[Finding]:
    """A cluster's incidents, alerts and snapshots are in the partition with the same number as its matches."""
    matches = brokers.topics.get(names.matches)
    for name in (names.signals, names.incidents, names.alerts, names.snapshots):
        topic = brokers.topics.get(name)
        if matches and topic and topic.partitions != matches.partitions:
            text = (
                f"{topic.partitions} partitions, and {matches.name} has {matches.partitions}: the numbers must be equal"
            )
            smaller, more = sorted((topic, matches), key=lambda each: each.partitions)
            fix = f"stop the workers, {brokers.add(smaller.name, more.partitions)}, start them"
            yield problem(_name(name), text, fix)


def length(milliseconds: float) -> str:
    """Such as `3 d`, `12 h`, `5 min` or `20 s`."""
    seconds = milliseconds * 1_000_000 / NS_PER_S
    for size_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds:.3g} s"


def _name(topic: str) -> str:
    return f"topic {topic}"
