"""Matches, beats, incidents and dead letters from our topics into the store.

A service of the Faust app with a consumer group of its own, so that a store that is away stops nothing else: Kafka
holds the backlog. Written first, committed after; ids make a second writing harmless.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import msgspec
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError
from mode import Service

from rules.errors import ConfigError, RecordError, RejectedError, TransientError
from rules.model import QUIET_ROLES, Beat, DeadLetter, Incident, Match, Position
from rules.ruleset import RuleSet
from rules.spec import RuleSpec
from stream.clients import make_consumer, make_producer
from stream.groups import wait_in_group
from stream.messages import Found, decode
from stream.metrics import Metrics
from stream.settings import Settings
from stream.store import Store
from stream.topics import TopicNames

RECORDS_A_WRITE: Final = 2_000
PAUSE_MS: Final = 1_000
RETRY_FOR_S: Final = 5.0
Fetched = dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]


class Rows(msgspec.Struct):
    """What a fetch holds for the store."""

    matches: list[tuple[Match, RuleSpec]] = []
    beats: list[Beat] = []
    incidents: list[Incident] = []
    dead_letters: list[DeadLetter] = []

    def counts(self) -> dict[str, int]:
        """Rows by table."""
        return {name: len(getattr(self, name)) for name in self.__struct_fields__}


class StoreWriter(Service):
    """Writes whole fetches, and goes on trying for as long as the store is away."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._rules = rules
        self._metrics = metrics
        self._store = Store(settings.store_dsn, RETRY_FOR_S)
        self.last_fetch_s = monotonic()

    async def use(self, rules: RuleSet) -> None:
        """Go on with these rules."""
        self._rules = rules

    async def on_start(self) -> None:
        """Join the group."""
        names = self._names
        topics = (names.matches, names.signals, names.incidents, names.dead_letters)
        self._consumer = make_consumer(self._settings, names.store_group, *topics)
        self._producer = make_producer(self._settings)
        await self._producer.start()
        await self._consumer.start()

    async def on_stop(self) -> None:
        """Leave the group and let go of the store."""
        await self._consumer.stop()
        await self._producer.stop()
        await self._store.close()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            fetched = await self._consumer.getmany(timeout_ms=PAUSE_MS, max_records=RECORDS_A_WRITE)
            self.last_fetch_s = monotonic()
            if fetched and await self._write(fetched):
                offsets = {partition: records[-1].offset + 1 for partition, records in fetched.items()}
                try:
                    await self._consumer.commit(offsets)
                except (CommitFailedError, IllegalStateError):
                    self.log.warning("partitions were taken away before the commit; others write these rows again")

    async def _write(self, fetched: Fetched) -> bool:
        """True when the rows are stored, or refused for good and dead-lettered; false when we are to stop.

        Of refused rows, halves are tried, so that one bad record takes no other with it.
        """
        rows = self._rows(fetched)
        while not self.should_stop:
            try:
                await self._store.write(
                    matches=rows.matches, beats=rows.beats, incidents=rows.incidents, dead_letters=rows.dead_letters
                )
            except RejectedError as error:
                if sum(map(len, fetched.values())) > 1:
                    first, second = _halves(fetched)
                    return await self._write(first) and await self._write(second)
                self.log.error("store refuses these rows: %s", error)
                self._metrics.note_store_failure("refused")
                await self._dead_letter(fetched, str(error))
                return True
            except (TransientError, ConfigError) as error:
                self.log.warning("store is away or not set up, trying again: %s", error)
                self._metrics.note_store_failure("away" if isinstance(error, TransientError) else "not set up")
                await wait_in_group(self._consumer, PAUSE_MS)
                self.last_fetch_s = monotonic()
            else:
                self._metrics.note_stored(rows.counts())
                return True
        return False

    def _rows(self, fetched: Fetched) -> Rows:
        rows = Rows()
        for partition, records in fetched.items():
            for record in records:
                try:
                    self._add(rows, partition.topic, record)
                except (RecordError, msgspec.DecodeError) as error:
                    rows.dead_letters.append(_dead_letter(record, str(error)))
        return rows

    def _add(self, rows: Rows, topic: str, record: ConsumerRecord[bytes, bytes]) -> None:
        value = record.value or b""
        if topic == self._names.incidents:
            rows.incidents.append(msgspec.json.decode(value, type=Incident))
        elif topic == self._names.dead_letters:
            rows.dead_letters.append(msgspec.json.decode(value, type=DeadLetter))
        elif isinstance(message := decode(value), Found):
            for part in message.parts:
                rows.beats += part.beats
                told = [(one, self._rules.spec_of(one)) for one in part.matches if one.rule in self._rules.by_id]
                self._metrics.note_unknown(len(part.matches) - len(told))
                rows.matches += [(one, spec) for one, spec in told if spec.role not in QUIET_ROLES]

    async def _dead_letter(self, fetched: Fetched, reason: str) -> None:
        for record in (record for records in fetched.values() for record in records):
            if record.topic != self._names.dead_letters:
                letter = msgspec.json.encode(_dead_letter(record, reason))
                await self._producer.send_and_wait(self._names.dead_letters, letter)


def _halves(fetched: Fetched) -> tuple[Fetched, Fetched]:
    """The fetch in two, its records in the same order."""
    records = [(partition, record) for partition, records in fetched.items() for record in records]
    halves: tuple[Fetched, Fetched] = {}, {}
    for number, (partition, record) in enumerate(records):
        halves[number >= len(records) // 2].setdefault(partition, []).append(record)
    return halves


def _dead_letter(record: ConsumerRecord[bytes, bytes], reason: str) -> DeadLetter:
    position = Position(f"{record.topic}/{record.partition}", record.offset)
    return DeadLetter.of(reason, position, record.value or b"", record.key, record.timestamp * 1_000_000)
