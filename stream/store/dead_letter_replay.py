"""`epicenter dead-letters replay`: sends original records to their partition again, as new records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import time_ns
from typing import Any, Final

import click
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError

from epicenter.rules.errors import DeadLetterKind, RecordError, TransientError
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import Position
from epicenter.rules.redact.redactor import MARK_BEGINS
from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter, Replay, StoredDeadLetters, dead_letter_of
from epicenter.sinks.text.sanitize import sanitize, sanitized_json
from epicenter.stream.kafka.preflight import reach
from epicenter.stream.kafka.security import client_arguments
from epicenter.stream.kafka.topics import MAX_RAW_BYTES, TopicNames
from epicenter.stream.scan.redaction import bytes_without_secrets, redactor_of
from epicenter.stream.settings import Settings
from epicenter.stream.store.dead_letters import find
from epicenter.stream.store.lookup import from_store

FIRST_POSITION_HEADER: Final = "epicenter-replay-of"
REPLAYS_HEADER: Final = "epicenter-replays"
KAFKA_TIMEOUT_S: Final = 20.0
MAX_ROUND: Final = 200


def replay_dead_letters(settings: Settings, dead_letter_ids: Sequence[str], reason: str, as_json: bool) -> bool:
    """Replay these dead letters, or all never replayed ones whose reason contains `reason`.

    True if one was refused; each prints a message on standard error.

    Raises:
        TransientError: the store or Kafka is unreachable.
    """
    chosen = [find(settings, dead_letter_id)["dead_letter_id"] for dead_letter_id in dead_letter_ids]

    def replay(client: Any) -> bool:
        dead_letters = StoredDeadLetters(client)
        ids = chosen if dead_letter_ids else dead_letters.never_replayed(DeadLetterFilter(reason))
        return asyncio.run(_replay(settings, dead_letters, list(dict.fromkeys(ids)), as_json))

    return from_store(settings, replay)


async def _replay(settings: Settings, dead_letters: StoredDeadLetters, ids: Sequence[str], as_json: bool) -> bool:
    sent, refused = 0, 0
    async with _Broker(settings) as broker:
        for start in range(0, len(ids), MAX_ROUND):
            replays = []
            try:
                for dead_letter_id in ids[start : start + MAX_ROUND]:
                    try:
                        replays.append(await _send_again(dead_letters, broker, dead_letter_id))
                    except RecordError as error:
                        refused += 1
                        click.echo(f"{dead_letter_id}: not replayed: {error}", err=True)
            finally:
                if replays:
                    dead_letters.record(replays)
            for replay in replays:
                click.echo(sanitized_json(replay) if as_json else replay_line(replay))
            sent += len(replays)
    click.echo(f"{sent} replayed" + (f", {refused} refused" if refused else ""), err=True)
    return refused > 0


def replay_line(replay: Replay) -> str:
    """A replay on one line."""
    first, sent = (
        sanitize(f"{replay.first.source}:{replay.first.offset}"),
        f"{replay.sent.source}:{replay.sent.offset}",
    )
    return f"{replay.dead_letter_id}  {first} replayed as {sent} (replay {replay.number})"


async def _send_again(dead_letters: StoredDeadLetters, broker: _Broker, dead_letter_id: str) -> Replay:
    document = dead_letters.get(dead_letter_id)
    if document is None:
        raise RecordError("no longer in the store")
    dead_letter = dead_letter_of(document)
    made_by = dead_letters.replay_that_made(dead_letter.position)
    first = made_by.first if made_by else dead_letter.position
    number = (made_by.number if made_by else 0) + document["replays"] + 1
    sent = await broker.send(dead_letter, first, number)
    return Replay(dead_letter_id, number, first, sent, time_ns())


class _Broker:
    """Kafka; connects when the first record is sent."""

    def __init__(self, settings: Settings):
        names = TopicNames(settings.prefix)
        self._settings = settings
        self._address = settings.kafka
        self._raw_topic = settings.raw_topic
        self._redactor = redactor_of(settings)
        self._topics = {settings.raw_topic, names.matches, names.signals, names.incidents}
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> _Broker:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def send(self, dead_letter: DeadLetter, first: Position, number: int) -> Position:
        """The position of the new record.

        Raises:
            RecordError: it can't be replayed, with the reason.
            TransientError: Kafka is unreachable.
        """
        partition = self._partition_of(dead_letter)
        headers = [
            (FIRST_POSITION_HEADER, f"{first.source}:{first.offset}".encode()),
            (REPLAYS_HEADER, str(number).encode()),
        ]
        try:
            producer = await self._started()
            if partition.partition not in await producer.partitions_for(partition.topic):
                raise RecordError(f"{self._address} no longer has partition {partition.topic}/{partition.partition}")
            value = (
                dead_letter.value
                if self._is_whole(dead_letter, partition)
                else await self._fetched(dead_letter, partition)
            )
            sent = await producer.send_and_wait(
                partition.topic,
                value,
                dead_letter.key,
                partition.partition,
                timestamp_ms=dead_letter.received_ns // 1_000_000 or None,
                headers=headers,
            )
        except UnknownTopicOrPartitionError as error:
            raise RecordError(f"{self._address} no longer has topic {partition.topic}") from error
        except KafkaError as error:
            if not error.retriable:
                raise RecordError(f"{self._address} refuses it: {error!r}") from error
            raise TransientError(
                f"Kafka is unreachable: {self._address}: {error}: start it, or give --kafka host:port"
            ) from error
        return Position(f"{sent.topic}/{sent.partition}", sent.offset)

    def _partition_of(self, dead_letter: DeadLetter) -> TopicPartition:
        topic, _, number = dead_letter.position.source.rpartition("/")
        if dead_letter.kind is DeadLetterKind.CORRUPT_BATCH:
            raise RecordError("this is a whole batch that can't be decompressed: let its sender send it again")
        if topic not in self._topics or not number.isdecimal():
            raise RecordError(
                f"it came from {sanitize(dead_letter.position.source)}, which is not one of epicenter's topics. For "
                "a file, run `epicenter run --once FILE`; for another raw topic, set EPICENTER_RAW_TOPIC"
            )
        return TopicPartition(topic, int(number))

    def _is_whole(self, dead_letter: DeadLetter, partition: TopicPartition) -> bool:
        """Whether it holds the original record. On epicenter's topics, a redacted record is the original."""
        is_redacted = MARK_BEGINS in dead_letter.value and partition.topic == self._raw_topic
        return len(dead_letter.value) == dead_letter.size_bytes and not is_redacted

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            await reach(self._settings)
            producer = AIOKafkaProducer(
                **client_arguments(self._settings),
                acks="all",
                enable_idempotence=True,
                compression_type="lz4",
                max_request_size=MAX_RAW_BYTES,
                request_timeout_ms=int(KAFKA_TIMEOUT_S * 1000),
            )
            try:
                await producer.start()
            except KafkaError:
                await producer.stop()
                raise
            self._producer = producer
        return self._producer

    async def _fetched(self, dead_letter: DeadLetter, partition: TopicPartition) -> bytes:
        """The original value from its position; the dead letter has only its beginning, or a redacted copy."""
        record = await self._record_at(partition, dead_letter.position.offset)
        value = bytes(record.value or b"") if record else b""
        redacted = bytes_without_secrets(self._redactor, value)
        if len(value) != dead_letter.size_bytes or not (
            value.startswith(dead_letter.value) or redacted.startswith(dead_letter.value)
        ):
            place = f"{dead_letter.position.source}:{dead_letter.position.offset}"
            raise RecordError(
                f"only {len(dead_letter.value)} of its {dead_letter.size_bytes} bytes are stored, and {place} "
                "no longer holds it: let its sender send it again"
            )
        return value

    async def _record_at(self, partition: TopicPartition, offset: int) -> ConsumerRecord[bytes, bytes] | None:
        consumer = AIOKafkaConsumer(**client_arguments(self._settings), enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([partition])
            if (await consumer.beginning_offsets([partition]))[partition] > offset:
                return None
            if (await consumer.end_offsets([partition]))[partition] <= offset:
                return None
            consumer.seek(partition, offset)
            async with asyncio.timeout(KAFKA_TIMEOUT_S):
                record: ConsumerRecord[bytes, bytes] = await consumer.getone()
            return record if record.offset == offset else None
        except TimeoutError as error:
            raise KafkaTimeoutError(f"no answer within {KAFKA_TIMEOUT_S:.0f} s") from error
        finally:
            await consumer.stop()
