"""Incidents -> people, each piece of news once.

A service of the Faust app with a consumer group of its own, so that a receiver who is away stops nothing else: Kafka
holds the backlog. Delivered first, noted as told, committed after. Killed between delivery and note, a worker delivers
that one again, with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from time import monotonic, time
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from mode import Service

from rules.errors import RejectedError, TransientError
from rules.model import DeadLetter, Delivery, Incident, Notification, Position
from rules.notify import due
from rules.ruleset import RuleSet
from sinks.notify.webhook import WebhookSink
from stream.clients import make_producer
from stream.messages import Kept, encode
from stream.metrics import Metrics
from stream.own_topics import Message, OwnTopics
from stream.settings import Settings
from stream.silences import Silencing, StoredSilences, delivery
from stream.told import Told
from stream.topics import TopicNames

RECORDS_A_FETCH: Final = 500
PAUSE_MS: Final = 1_000
LOOK_FOR_SILENCES_EVERY_S: Final = 2.0
FIRST_LOOK_BACK_MS: Final = 3_600_000
"""A webhook that is set for the first time hears of the last hour, and of nothing before."""


class Notifier(Service):
    """Tells a webhook, and goes on trying for as long as it is away."""

    def __init__(self, settings: Settings, _: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._metrics = metrics
        self._busy = asyncio.Lock()
        self._refused: dict[str, int] = {}
        self._waits = ""
        self._sink = WebhookSink(settings.webhook_url.get_secret_value())
        self._silencing = Silencing()
        self._silences = StoredSilences(settings, self.log.warning)
        self.last_fetch_s = monotonic()

    async def on_start(self) -> None:
        """Join the group."""
        self._producer = make_producer(self._settings)
        self._topics = OwnTopics(self._settings, self._names.notify_group, self._producer, self._metrics)
        self._consumer = self._topics.consumer
        self._told = Told(self._settings, self._producer, self._topics.pass_over)
        await self._producer.start()
        await self._topics.start(self._names.incidents, listener=_BetweenDeliveries(self._busy, self._told))

    async def on_stop(self) -> None:
        """Leave the group after the delivery in hand."""
        async with self._busy:
            await self._topics.stop()
            await self._producer.stop()
            await self._sink.close()
            await self._silences.close()

    @Service.task
    async def _run(self) -> None:
        await self._silences.are_known.wait()
        while not self.should_stop:
            async with self._topics.fetched(PAUSE_MS, RECORDS_A_FETCH) as fetched:
                self.last_fetch_s = monotonic()
                ready = [one for one in self._consumer.assignment() if await self._is_ready(one)]
                for partition, records in fetched.items():
                    if partition in ready and await self._tell_all(partition, records):
                        await self._topics.commit({partition: records[-1].offset + 1})

    @Service.task
    async def _follow_silences(self) -> None:
        while not self.should_stop:
            await self._silences.look()
            await self.sleep(LOOK_FOR_SILENCES_EVERY_S)

    async def _is_ready(self, partition: TopicPartition) -> bool:
        """Whether these records are to be told; what was told of the partition is known then."""
        async with self._busy:
            if partition not in self._consumer.assignment():
                return False
            if partition.partition in self._told:
                return True
            await self._told.load(partition.partition)
            return not await self._skips_the_past(partition)

    async def _skips_the_past(self, partition: TopicPartition) -> bool:
        if await self._consumer.committed(partition) is not None:
            return False
        recently_ms = int(time() * 1000) - FIRST_LOOK_BACK_MS
        end = (await self._consumer.end_offsets([partition]))[partition]  # before the look back: what comes now is told
        found = (await self._consumer.offsets_for_times({partition: recently_ms}))[partition]
        start = found.offset if found else end
        if partition in self._consumer.assignment():
            self._consumer.seek(partition, start)
            await self._topics.commit({partition: start})
        return True

    async def _tell_all(self, partition: TopicPartition, records: Sequence[Message]) -> bool:
        """False when we are to stop, or the partition was taken away: the rest is told later, or by another worker."""
        for record in records:
            try:
                incident = msgspec.json.decode(record.value or b"", type=Incident)
            except msgspec.DecodeError:
                continue  # the store writer reads it too, and dead-letters it
            if not await self._tell(partition, record, incident):
                return False
        return True

    async def _tell(self, partition: TopicPartition, record: Message, incident: Incident) -> bool:
        while not self.should_stop:
            async with self._busy:
                if partition.partition not in self._told:
                    return False
                notification = due(incident, self._told.of(partition.partition))
                if notification is None or self._was_refused(notification):
                    return True
                if (kept_back := self._silencing.keeps_back(notification, self._silences.newest)) is not None:
                    await self._note(*kept_back)
                    return True
                try:
                    await self._sink.send(notification)
                except RejectedError as error:
                    await self._give_up(record, notification, str(error))
                    await self._note(delivery(notification, "refused", str(error)))
                    return True
                except TransientError as error:
                    self.log.warning("a notification waits: %s", error)
                    self._metrics.note_receiver_away()
                    if self._waits != notification.notification_id:
                        self._waits = notification.notification_id
                        await self._note(delivery(notification, "waits", str(error)))
                else:
                    await self._told.add(partition.partition, notification)
                    await self._note(delivery(notification, "sent"))
                    self._metrics.note_told(notification.kind, time() - _seconds(notification.event_time))
                    return True
            await self._topics.wait(PAUSE_MS)
            self.last_fetch_s = monotonic()
        return False

    async def _note(self, *deliveries: Delivery) -> None:
        """For the store, which the store writer keeps."""
        if deliveries:
            await self._producer.send_and_wait(self._names.signals, encode(Kept(deliveries=deliveries)))

    def _was_refused(self, notification: Notification) -> bool:
        revision = notification.incident.revision
        return self._refused.get(notification.notification_id, revision) < revision

    async def _give_up(self, record: Message, notification: Notification, reason: str) -> None:
        """A dead letter; later revisions of the incident don't ask again, this one does when it is sent again."""
        self.log.error("a notification can't be delivered: %s", reason)
        position = Position(f"{record.topic}/{record.partition}", record.offset)
        letter = DeadLetter.of(reason, position, record.value or b"", record.key, record.timestamp * 1_000_000)
        await self._producer.send_and_wait(self._names.dead_letters, msgspec.json.encode(letter))
        self._refused[notification.notification_id] = notification.incident.revision
        self._metrics.note_refused()


class _BetweenDeliveries(ConsumerRebalanceListener):
    """Partitions are given back between deliveries only."""

    def __init__(self, busy: asyncio.Lock, told: Told):
        self._busy = busy
        self._told = told

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            self._told.forget()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass


def _seconds(iso_time: str) -> float:
    return datetime.fromisoformat(iso_time).timestamp()
